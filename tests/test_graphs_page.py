"""docs/graphs.md: its examples run, and its figures are those measured."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from command import done, tiny_store

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "graphs.md").read_text()
COLUMNS = (
    "forward",
    "twin",
    "twin, next",
    "twin, values, next",
    "CSR per snapshot, both ways",
    "COO per snapshot",
    "plain intervals, both ways",
    "intervals as DT-CSR with end, both ways",
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages of two days, an hour apart, in the working folder."""
    lines = [f"{k % 5},{k % 3},{k * 3600}" for k in range(48)]
    (tmp_path / "messages.csv").write_text("\n".join(["src,dst,time", *lines]))
    monkeypatch.chdir(tmp_path)


def test_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "docs/graphs.md", "exec"), names)
    assert capsys.readouterr().out == "24 messages\n"


def test_commands_run(tmp_path: Path) -> None:
    (block,) = re.findall(r"```\n(headway .*?)```", PAGE, re.DOTALL)
    for line in block.splitlines():
        done(*shlex.split(line.partition("#")[0])[1:])
    tiny_store(tmp_path).rename(tmp_path / "nyc.store")
    done(*shlex.split(re.findall(r"`headway (snapshots nyc\.store[^`]*)`", PAGE)[0]), "--overwrite")


def test_bytes_are_those_measured() -> None:
    results = json.loads((ROOT / "benchmarks" / "results" / "dt_csr_memory.json").read_text())["results"]
    rows = re.findall(r"^\| (\S+), (growing|sliding) \| (.*) \|$", PAGE, re.MULTILINE)
    assert len(rows) == len(results) - 1
    for name, words, cells in rows:
        (found,) = [held for key, held in results.items() if name in key and words in key]
        sizes = [found["bytes"][column] / 1e6 for column in COLUMNS]
        assert cells.split(" | ") == [f"{size:.1f}" if size >= 10 else f"{size:.2f}" for size in sizes]
