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
