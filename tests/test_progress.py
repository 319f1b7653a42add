"""Progress where it can move, and plain lines where it can't."""

from __future__ import annotations

import io

import pytest
from headway.pipeline import progress
from headway.pipeline.progress import Counter
from rich.console import Console


class Place(Console):
    """A console that is a notebook's, or a file."""

    def __init__(self, notebook: bool) -> None:
        super().__init__(file=io.StringIO(), force_jupyter=notebook)


@pytest.mark.parametrize("widgets", [True, False])
def test_a_bar_in_a_notebook_needs_ipywidgets(widgets: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.importlib.util, "find_spec", lambda name: object() if widgets else None)
    assert progress._moves(Place(True)) == widgets
    assert not progress._moves(Place(False))


def test_plain_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Into a file: a line now and then, whatever the patience for a bar."""
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.0)
    for patience in (0.0, 1000.0):
        with Counter("queries", quiet=False, patience=patience) as counter:
            counter.start(20)
            counter.advance(5)
        assert capsys.readouterr().err.startswith("5 of 20 queries, ")
    with Counter("queries", quiet=True) as counter:
        counter.start(20)
        counter.advance(5)
    assert capsys.readouterr().err == ""


def test_timeline_tells_what_is_left(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A plain line every few seconds: the step at work, and how long it takes if the work goes on as fast."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.Timeline(quiet=False) as timeline:
        timeline.step("one")  # too early to be said
        for second, done in ((4, 10), (64, 40), (66, 55), (68, 70)):
            now[0] = second
            timeline.step("two")
            timeline.at(done, 100)
    # Second 4 and 64: nothing is known yet. 68: since second 4, 62 s took 45 of the work, and 45 are left.
    assert capsys.readouterr().err.splitlines() == ["two", "two", "two, about 62 s left"]


def test_quiet_timeline(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.Timeline(quiet=True) as timeline:
        now[0] = 100.0
        timeline.step("one")
        timeline.at(1, 2)
    assert capsys.readouterr().err == ""
