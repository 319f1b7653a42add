# Targets a newcomer guesses. Each makes the environment first when it is missing or out of date.
PYTHON ?= python3
# EXTRAS=test,lint,train has PyTorch too, which from PyPI brings gigabytes of CUDA on Linux.
EXTRAS ?= test,lint
BIN := .venv/bin
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: demo test lint bench clean

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$(EXTRAS)]'
	touch $@

# make demo, or on a feed of your own: make demo FEED=nyc.zip DATE=2026-09-30
demo: .venv/ready
	$(BIN)/python examples/demo.py $(if $(FEED),--feed $(FEED)) $(if $(DATE),--date $(DATE))

# Figures for README.md: each script writes benchmarks/results/NAME.json. FEEDS and GRAPHS are folders of real data.
FEEDS ?= ../shared/feeds
GRAPHS ?= ../shared/graphs
bench: .venv/ready
	$(BIN)/python benchmarks/build.py --feeds $(FEEDS)
	$(BIN)/python benchmarks/progressions.py --feeds $(FEEDS)
	$(BIN)/python benchmarks/query.py --feeds $(FEEDS)
	$(BIN)/python benchmarks/batch.py --feeds $(FEEDS)
	$(BIN)/python benchmarks/national.py
	$(BIN)/python benchmarks/space.py
	$(BIN)/python benchmarks/dt_csr_memory.py --graphs $(GRAPHS)
	$(BIN)/python benchmarks/fresh_clone.py

test: .venv/ready
	$(BIN)/pytest

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

clean:
	rm -rf .venv build dist demo *.egg-info .pytest_cache .ruff_cache .hypothesis
