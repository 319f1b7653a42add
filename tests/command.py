"""The command line, in this process."""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from headway.pipeline.cli import main
from tiny import feed

STORE = "the.store"
TIMETABLE = "t: A 8:00, B 8:10, C 8:20\nu: A 9:00, B 9:10"
# A station S of two stops apart, and X that nothing serves.
STOPS = "stop_id,stop_name,stop_lat,stop_lon,location_type,parent_station\n"
STOPS += "A,a,50,8,,\nB,b,51,8,,S\nC,c,52,8,,S\nX,x,,,0,\nS,Station,51,8,1,\nE,Empty,53,8,1,"


@dataclass(frozen=True)
class Result:
    """How a command ended and what it said."""

    status: int
    out: str
    err: str


def headway(*words: object) -> Result:
    """Run a command as `main` does. An exception other than SystemExit comes through: it would be a traceback."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    with (
        mock.patch.object(sys, "argv", ["headway", *map(str, words)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
    return Result(status, out.getvalue(), err.getvalue())


def done(*words: object) -> str:
    """Run a command that must end well; what it printed."""
    result = headway(*words)
    assert result.status == 0, result.err
    return result.out


def refused(*words: object) -> str:
    """Run a command that must be refused; its one line."""
    result = headway(*words)
    assert result.status == 2, (result.status, result.out, result.err)
    assert result.out == ""
    assert result.err.startswith("headway: ")
    assert result.err.count("\n") == 1
    assert "Traceback" not in result.err
    return result.err.strip()


def tiny_store(folder: Path) -> Path:
    """Stops A, B, C of a trip, X alone; B and C are of station S, E is a station without stops."""
    store = folder / STORE
    done("build", feed(folder, TIMETABLE, stops=STOPS), "-o", store, "--date", "2026-06-10", "--quiet")
    return store
