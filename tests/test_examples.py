"""The examples that learn, on data whose answers are known."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from headway.pipeline.dynamic_graph import DTCSR

pytest.importorskip("torch")

EXAMPLES = Path(__file__).parents[1] / "examples"
HOURS = np.arange(5 * 24)


def losses(name: str, *words: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> dict:
    """What an example prints in its table."""
    monkeypatch.setattr("sys.argv", [name, *map(str, words)])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    found = re.findall(r"^  (.+?) +(\d+\.\d+)$", capsys.readouterr().out, re.MULTILINE)
    return {name: float(loss) for name, loss in found}


def test_bus_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Each day is like the one before: nothing is unusual."""
    nodes = [{"bus_stop": 10 * stop, "y": [int(n) for n in stop + HOURS % 24]} for stop in range(1, 4)]
    links = [{"source": 10, "target": 20}, {"source": 20, "target": 30}]
    (tmp_path / "data.json").write_text(json.dumps({"nodes": nodes, "links": links}))
    words = tmp_path / "data.json", "-o", tmp_path / "model", "--epochs", 10
    found = losses("bus_stops.py", *words, monkeypatch=monkeypatch, capsys=capsys)
    assert found["mean of stop and hour"] == found["same hour a day before"] == 0
    assert found["TGCN"] < found["the hour before"]
    assert (tmp_path / "model" / "model" / "curve.csv").read_text().count("\n") == 11


@pytest.mark.parametrize("start", [0, 5])
def test_headways(
    start: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Headways of stop 0 double each day from hour to hour; stop 1 has none in odd hours; nothing leaves stop 2."""
    hours = np.concatenate([HOURS, HOURS[::2]])
    events = {"src": np.repeat([0, 1], [len(HOURS), len(HOURS) // 2]), "time": 3600 * (start + hours)}
    events |= {"dst": events["src"] + 1, "value": 60.0 * 2.0 ** (hours % 8)}
    DTCSR.from_events(events, width=3600).save(tmp_path / "graph")
    words = tmp_path / "graph", "-o", tmp_path / "model", "--epochs", 10
    found = losses("headways.py", *words, monkeypatch=monkeypatch, capsys=capsys)
    assert found["same time a day before"] == 0
    # The time of day is that of the next bin, by the graph's clock.
    turn = (start + 1 + HOURS) / 24 * 2 * np.pi
    features = np.load(tmp_path / "model" / "features.npy")
    np.testing.assert_allclose(features[:, 2, 3:], np.stack([np.sin(turn), np.cos(turn)], 1), atol=1e-6)
    # Hand-made: of stop 0 in all hours, of stop 1, whose hour before is its mean, in even ones.
    minutes = np.log1p(2.0 ** (HOURS % 8))
    learned = round((len(HOURS) - 1) * 0.8) + 1
    mean = minutes[:learned:2].mean()
    test = HOURS[learned:]
    errors = (minutes[test] - minutes[test - 1]) ** 2
    even = test % 2 == 0
    errors[even] = (errors[even] + (minutes[test[even]] - mean) ** 2) / 2
    assert found["the bin before"] == pytest.approx(errors.mean(), abs=1e-4)
    assert found["TGCN"] < found["the bin before"]


def test_headways_of_quarters_of_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A day is 96 bins then; it is said how long they are, and refused where a day is no number of them."""
    ticks = np.arange(3 * 96)
    columns = {"src": 0 * ticks, "dst": 0 * ticks + 1, "value": 60.0 * (1 + ticks % 96)}
    program = str(EXAMPLES / "headways.py")
    for width in (900, 1000):
        DTCSR.from_events(columns | {"time": width * ticks}, width=width).save(tmp_path / f"graph{width}")
    words = ["-o", str(tmp_path / "model"), "--epochs", "1"]
    monkeypatch.setattr("sys.argv", [program, str(tmp_path / "graph900"), *words])
    runpy.run_path(program, run_name="__main__")
    said = capsys.readouterr().out
    assert "of 288 bins of 900 s:" in said
    assert re.search(r"same time a day before +0\.0000", said)
    monkeypatch.setattr("sys.argv", [program, str(tmp_path / "graph1000"), *words])
    with pytest.raises(SystemExit, match="graph1000: its ticks are no bins that divide a day"):
        runpy.run_path(program, run_name="__main__")
