"""The benchmark harness: figures of a child process, and results that say what, never where."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))  # not in the wheel

import harness


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(harness, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


def test_record(results: Path) -> None:
    path = harness.record("some-case", {"b": np.float64(1.5), "a": np.arange(2)}, config={"repeats": 3})
    assert path == results / "some-case.json"
    text = path.read_text()
    found = json.loads(text)
    assert text == json.dumps(found, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert found["results"] == {"a": [0, 1], "b": 1.5}
    assert found["config"] == {"repeats": 3}
    assert {"cpu", "cores", "memory_gib", "os", "python"} <= found["machine"].keys()
    assert {"headway", "numpy", "numba"} <= found["versions"].keys()
    assert found["date"].endswith("+00:00")
    assert found["git"].keys() == {"commit", "dirty"}


@pytest.mark.parametrize("leak", [harness.ROOT / "x", str(harness.ROOT / "x")])
def test_record_refuses_paths(results: Path, leak: object) -> None:
    with pytest.raises((TypeError, ValueError), match=r"has no place|name a path"):
        harness.record("leak", {"feed": leak}, config={})
    assert not results.exists()


def test_record_refuses_nan_and_names(results: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        harness.record("nan", {"x": float("nan")}, config={})
    with pytest.raises(ValueError, match="name"):
        harness.record("../up", {}, config={})


def test_timed() -> None:
    calls = []
    found = harness.timed(lambda: calls.append(1), repeats=4)
    assert len(calls) == found["repeats"] == 4
    assert 0 <= found["min_s"] <= found["median_s"] <= found["max_s"]
    with pytest.raises(ValueError, match="repeats"):
        harness.timed(list, repeats=0)


def test_command() -> None:
    code = "import os; block = b'x' * (80 << 20); print(os.environ['K'])"
    done = harness.command([sys.executable, "-c", code], env={"K": "value"})
    assert done.output == "value\n"
    assert done.peak_rss_mib > 80
    assert done.wall_s > 0
    assert done.figures().keys() == {"wall_s", "user_s", "system_s", "peak_rss_mib"}
    with pytest.raises(subprocess.CalledProcessError) as failed:
        harness.command([sys.executable, "-c", "print('why'); raise SystemExit(3)"])
    assert (failed.value.returncode, failed.value.output) == (3, "why\n")


def test_peak_rss() -> None:
    assert 10 < harness.peak_rss_mib() < 100_000
