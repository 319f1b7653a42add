"""`headway snapshots`: its options, progress and last line."""

from __future__ import annotations

import enum
import hashlib
import re
import time as clock
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..storage.errors import HeadwayError
from . import show_graph
from .options import Overrides, Overwrite, Profile, Quiet
from .progress import Steps
from .settings import load_settings

if TYPE_CHECKING:
    from ..storage.dt_csr import DTCSR
    from .ticks import Ticks

INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")


class Duplicates(enum.StrEnum):
    """What `--duplicates` takes."""

    multi = "multi"
    last = "last"
    sum = "sum"


def snapshots(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="EVENTS|STORE", help="Parquet, CSV, text with blanks (or .gz of it), or a timetable's store."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="GRAPH", help="The graph to write.")],
    src: Annotated[str | None, typer.Option(metavar="COLUMN", help="Sources [src].")] = None,
    dst: Annotated[str | None, typer.Option(metavar="COLUMN", help="Destinations [dst].")] = None,
    time: Annotated[str | None, typer.Option(metavar="COLUMN", help="Times, integers [time].")] = None,
    value: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Values [value, if there]; of a store: departures, duration or headway."),
    ] = None,
    op: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Events insert (+, 1) and delete (-, -1) edges, as this says.")
    ] = None,
    width: Annotated[int | None, typer.Option(help="A tick lasts so long, from a multiple of it on.")] = None,
    start: Annotated[int | None, typer.Option(help="Tick 0 of --width begins here.")] = None,
    ticks: Annotated[int | None, typer.Option(help="So many ticks of equal length.")] = None,
    events: Annotated[int | None, typer.Option(help="So many events a tick.")] = None,
    times: Annotated[
        Path | None, typer.Option(metavar="FILE", help="When ticks begin, an integer a line. [each distinct time]")
    ] = None,
    duplicates: Annotated[
        Duplicates, typer.Option(help="Of a pair in a tick, keep all, the last, or one with the sum of values.")
    ] = Duplicates.multi,
    nodes: Annotated[
        str | None, typer.Option(metavar="N|FILE", help="Nodes 0 to N-1, or an id a line. [those that occur]")
    ] = None,
    bin_seconds: Annotated[
        int | None, typer.Option("--bin", metavar="SECONDS", help="Of a store: a tick lasts so long [3600].")
    ] = None,
    overwrite: Overwrite = False,
    profile: Profile = "laptop",
    overrides: Overrides = [],  # noqa: B006
    quiet: Quiet = False,
) -> None:
    """Make a graph that changes with time (DT-CSR) of events, in any order, or of a timetable."""
    from ..storage.draft import check_output
    from .event_file import Names
    from .ticks import Ticks

    threads = load_settings(profile, overrides).thread_count()
    begun = clock.perf_counter()
    check_output(output, overwrite)
    names = Names(src, dst, time, value, op)
    given = {"width": width, "start": start, "ticks": ticks, "events": events, "times": times, "nodes": nodes}
    given |= {"src": src, "dst": dst, "time": time, "op": op}
    given |= {"duplicates": None if duplicates is Duplicates.multi else duplicates.value}
    options = {name: held for name, held in given.items() if held is not None}
    with Steps(quiet) as steps:
        if source.is_dir():
            if options:
                raise HeadwayError(f"--{next(iter(options))} is for events; a store takes --bin and --value")
            graph = _timetable(source, 3600 if bin_seconds is None else bin_seconds, value or "departures", steps)
        else:
            if bin_seconds is not None:
                raise HeadwayError("--bin is for a timetable's store; events take --width")
            chosen = Ticks(width, start, ticks, events, _integers(times) if times else None)
            command = {**options, **({} if value is None else {"value": value})}
            graph = _events(source, names, chosen, duplicates, nodes, command, threads, steps)
        steps("write")
        graph.save(output, overwrite)
    if not quiet:
        show_graph.made(graph, output, clock.perf_counter() - begun)


def _timetable(path: Path, bin_seconds: int, value: str, steps: Steps) -> DTCSR:
    from ..storage.store import load
    from .dt_csr import from_store

    graph = from_store(load(path), bin_seconds, value, steps)
    rebuild = f"headway snapshots {path.name} -o GRAPH --bin {bin_seconds} --value {value}"
    return replace(graph, facts=graph.facts | {"rebuild": rebuild})


def _events(
    path: Path,
    names: Any,
    ticks: Ticks,
    duplicates: Duplicates,
    nodes: str | None,
    options: dict[str, Any],
    threads: int,
    steps: Steps,
) -> DTCSR:
    from .dt_csr import build
    from .event_file import read_events
    from .events import events_of

    known = None
    if nodes is not None:
        known = int(nodes) if nodes.isascii() and nodes.isdigit() else _lines(Path(nodes))
    columns, where = read_events(path, names, threads, steps)
    steps("number nodes")
    events = events_of(columns, where, known)
    with path.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    words = " ".join(f"--{name} {held.name if isinstance(held, Path) else held}" for name, held in options.items())
    facts = {
        "from": "events",
        "sources": [{"name": path.name, "sha256": sha256}],
        "rebuild": f"headway snapshots {path.name} -o GRAPH {words}".strip(),
    }
    return build(events, ticks, duplicates.value, facts=facts, announce=steps)


def _lines(path: Path) -> list[Any]:
    """Ids, a line each: integers where all of them are."""
    lines = list(_text_lines(path).values())
    return [int(line) for line in lines] if all(INTEGER.fullmatch(line) for line in lines) else lines


def _integers(path: Path) -> list[int]:
    lines = _text_lines(path)
    for row, line in lines.items():
        if not INTEGER.fullmatch(line):
            raise HeadwayError(
                f"{path}: row {row}: {line[:40]!r} is no integer; write when each tick begins, a line each"
            )
    return [int(line) for line in lines.values()]


def _text_lines(path: Path) -> dict[int, str]:
    """Lines that hold anything, by row."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise HeadwayError(f"{path}: not UTF-8; save it as UTF-8") from None
    return {row: line.strip() for row, line in enumerate(lines, 1) if line.strip()}
