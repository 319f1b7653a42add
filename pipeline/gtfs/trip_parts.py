"""Rows of stop_times.txt to parts of the trips: every rule of a trip, and when it runs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from dask.delayed import Delayed, delayed

from ...cluster.dask import Workers
from ...kernels import trips as kernel
from ..network import PartFacts, facts_of
from ..partition import TripPart
from .report import FIRST_IDS, Report
from .source import Source
from .stop_times import BLANK_ID, Blocks, Rows, identical_lines
from .trips import runs

CAUSES = {
    kernel.BAD_TIME: "a trip with a malformed time",
    kernel.UNKNOWN_STOP: "a trip with a stop_id that is unknown or no stop",
    kernel.BAD_SEQUENCE: "a trip with a malformed stop_sequence",
    kernel.REPEATED_SEQUENCE: "a trip with two different lines of one stop_sequence",
    kernel.UNTIMED_END: "a trip whose first or last stop is untimed",
    kernel.BACKWARDS: "a trip whose time runs backwards",
}


class Running(NamedTuple):
    """When trips run: frames `trips` (`trip`, `service_id`), `days` (`service_id`, `offset`) and `frequencies` as
    `trips.runs` takes them, services by number; a store's horizon; the vertex of the feed's first stop."""

    trips: pd.DataFrame
    days: pd.DataFrame
    frequencies: pd.DataFrame
    horizon: int
    base: int

    def between(self, first: int, last: int) -> Running:
        """Of the trips [first, last) alone."""
        trip, named = self.trips["trip"], self.frequencies["trip"]
        return self._replace(
            trips=self.trips[(trip >= first) & (trip < last)],
            frequencies=self.frequencies[(named >= first) & (named < last)],
        )


class Found(NamedTuple):
    """What the driver has to know of a part of a feed's trips.

    `trip` int32, those that run; `facts` of them. Lines without stop_id: how many, and (line, trip) of the first. For
    each cause of a drop the first trips and how many there are. `repeated`: lines that share trip and sequence; where
    there are such, nothing else counts before it is known which of them are identical.
    """

    trip: np.ndarray
    facts: PartFacts
    blank_lines: int
    blank: list[tuple[int, int]]
    causes: dict[int, tuple[list[int], int]]
    repeated: np.ndarray


def trip_parts(
    source: Source, trip_ids: pa.Array, size: int, blocks: Blocks, running: Running, crew: Workers, report: Report
) -> tuple[list[Delayed], list[Found]]:
    """Parts of `size` trips, as kept tasks that give (`TripPart`, `Found`), those without rows left out."""
    used = sorted({part for facts in blocks.facts for part in facts.parts})
    part_of = delayed(_part)
    spans = [(part * size, min((part + 1) * size, len(trip_ids))) for part in used]

    def tasks(identical: np.ndarray | None, which: list[int]) -> list[Delayed]:
        made = []
        for place in which:
            begins, pieces = blocks.of_part(used[place])
            made.append(part_of(spans[place], running.between(*spans[place]), begins, identical, *pieces))
        return crew.persist(made)

    parts = tasks(None, list(range(len(used))))
    found = crew.compute([delayed(_found)(part) for part in parts])
    again = [place for place, one in enumerate(found) if len(one.repeated)]
    if again:
        identical = identical_lines(source, np.concatenate([found[place].repeated for place in again]))
        for place, part in zip(again, tasks(identical, again), strict=True):
            parts[place] = part
            (found[place],) = crew.compute([delayed(_found)(part)])
    _tell(source, trip_ids, found, report)
    return parts, found


def _tell(source: Source, trip_ids: pa.Array, found: list[Found], report: Report) -> None:
    """What was left out, in the order of the file and of the trips."""

    def names(which: list[int]) -> list[str]:
        return trip_ids.take(pa.array(which[:FIRST_IDS], pa.int64())).to_pylist()

    file = f"{source.name}/stop_times.txt"
    blank = sorted(line for one in found for line in one.blank)
    lines = sum(one.blank_lines for one in found)
    report.drop(file, "a line without stop_id", names([trip for _, trip in blank]), lines)
    for cause, words in CAUSES.items():
        first = [trip for one in found for trip in one.causes[cause][0]]
        report.drop(file, words, names(first), sum(one.causes[cause][1] for one in found))


def _found(part: tuple[TripPart, Found]) -> Found:
    return part[1]


def _part(
    span: tuple[int, int], running: Running, begins: list[int], identical: np.ndarray | None, *pieces: Rows
) -> tuple[TripPart, Found]:
    """The trips `span` (first, after last) that run. `pieces` are rows of blocks that begin at the lines `begins`;
    `identical` lines of those that share trip and sequence, None before they are known."""
    first, last = span
    pieces = tuple(rows._replace(row=rows.row + begin) for rows, begin in zip(pieces, begins, strict=True))
    rows = Rows(*(np.concatenate(column) for column in zip(*pieces, strict=True)))
    blank = rows.stop == BLANK_ID
    early = np.flatnonzero(blank)[:FIRST_IDS]
    named = list(zip(rows.row[early].tolist(), rows.trip[early].tolist(), strict=True))
    if blank.any():
        rows = Rows(*(column[~blank] for column in rows))
    trip = rows.trip - np.int32(first)
    offset, order = kernel.group(trip, last - first)
    if not kernel.are_sorted(offset, order, rows.sequence):
        order = np.lexsort((rows.sequence, trip))  # stable: lines of one sequence stay in file order
    repeated = rows.row[order[kernel.repeats(offset, order, rows.sequence)]]
    if len(repeated) and identical is not None:
        order = order[~np.isin(rows.row[order], identical)]
        offset = np.concatenate([[0], np.cumsum(np.bincount(trip[order], minlength=last - first))])
        repeated = repeated[:0]
    sequence, stop, arrival, departure, flags = (
        column[order] for column in (rows.sequence, rows.stop, rows.arrival, rows.departure, rows.flags)
    )
    kept, cause = kernel.clean(offset, sequence, stop, arrival, departure, flags)
    of_cause = {one: first + np.flatnonzero(cause == one) for one in CAUSES}
    causes = {one: (which[:FIRST_IDS].tolist(), len(which)) for one, which in of_cause.items()}
    times = _first_and_last(kept, departure, first)
    run = runs(running.trips, running.days, running.frequencies, times, running.horizon)
    part, numbers = _running(kept, stop + np.int32(running.base), arrival, departure, flags, run, first)
    return part, Found(numbers, facts_of(part), int(blank.sum()), named, causes, repeated)


def _first_and_last(offset: np.ndarray, departure: np.ndarray, begin: int) -> pd.DataFrame:
    """First and last departure of every trip with a hop; trips are numbered from `begin`."""
    trip = np.flatnonzero(np.diff(offset) > 1)
    first, last = departure[offset[trip]], departure[offset[trip + 1] - 2]
    return pd.DataFrame({"trip": (begin + trip).astype(np.int32), "first": first, "last": last})


def _running(
    offset: np.ndarray,
    vertex: np.ndarray,
    arrival: np.ndarray,
    departure: np.ndarray,
    flags: np.ndarray,
    run: pd.DataFrame,
    first: int,
) -> tuple[TripPart, np.ndarray]:
    """The trips that run and their numbers; rows lie in order of trip, and trips are numbered from `first`."""
    trip, count = np.unique(run["trip"].to_numpy(), return_counts=True)
    length = np.diff(offset)
    keep = np.repeat(np.isin(np.arange(first, first + len(length)), trip), length)
    end = offset[-1]
    return TripPart(
        np.concatenate([[0], np.cumsum(length[trip - first])]),
        vertex[:end][keep].astype(np.uint32),
        arrival[:end][keep],
        departure[:end][keep],
        flags[:end][keep],
        np.concatenate([[0], np.cumsum(count)]),
        run["shift"].to_numpy(np.int32),
    ), trip
