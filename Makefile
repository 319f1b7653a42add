# Targets a newcomer guesses. Each makes the environment first when it is missing or out of date.
PYTHON ?= python3
BIN := .venv/bin
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: demo test lint bench clean

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test,lint]'
	touch $@

test: .venv/ready
	$(BIN)/pytest

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

clean:
	rm -rf .venv build dist demo *.egg-info .pytest_cache .ruff_cache .hypothesis
