"""stop_times.txt: by far the largest table, so only the rows of trips that matter become numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from dask.delayed import Delayed, delayed

from ...cluster.dask import Workers
from ...kernels import text
from ...kernels.trips import group
from ...storage.errors import HeadwayError, WorkersError
from ...storage.timetable import ALIGHT, BOARD
from ..ahead import prefetched
from ..blocks import Block, Types, require, text_buffers, trimmed
from ..ids import Ids
from .reading import scan
from .report import Report
from .source import Source

IDS = pa.dictionary(pa.int32(), pa.string())
COLUMNS: Types = {
    "trip_id": IDS,
    "stop_id": IDS,
    "stop_sequence": pa.string(),
    "arrival_time": pa.string(),
    "departure_time": pa.string(),
    "pickup_type": pa.string(),
    "drop_off_type": pa.string(),
}
NEEDED = ("trip_id", "stop_id", "stop_sequence", "arrival_time", "departure_time")
BLANK_ID = -2
AT_ONCE = 32
"""Blocks that are parsed beside each other at most."""
AHEAD = 128
"""Blocks, 1 GiB, that are read before they are parsed: while other tables are read, one thread gets so far."""


class Known(NamedTuple):
    """What a block is read against.

    Of each trip whether its rows are `wanted` (bool) and the second, if not 0, from which
    a time makes it matter, `need` int32; how many trips are in a part.
    """

    trips: Ids
    stops: Ids
    wanted: np.ndarray
    need: np.ndarray
    part: int


class Rows(NamedTuple):
    """Rows of trips: `trip`, `stop` (-1 unknown, `BLANK_ID`), `sequence`, `arrival`, `departure` int32, `flags` uint8
    and `row` int64, the line of the block or file from 0."""

    trip: np.ndarray
    stop: np.ndarray
    sequence: np.ndarray
    arrival: np.ndarray
    departure: np.ndarray
    flags: np.ndarray
    row: np.ndarray


class BlockFacts(NamedTuple):
    """What the driver has to know of a block: its lines, the parts of the trips that have rows in it, trips that matter
    by a late time, the first ids that trips.txt lacks and how many lines have such."""

    lines: int
    parts: list[int]
    late: np.ndarray
    unknown: list[str]
    unknown_lines: int


class Blocks(NamedTuple):
    """Tasks that give ({part: `Rows`}, `BlockFacts`) for each block of a file, and their facts."""

    tasks: list[Delayed]
    facts: list[BlockFacts]

    def of_part(self, part: int) -> tuple[list[int], list[Delayed]]:
        """The rows of a part, block after block, and the line of the file at which each of those blocks begins."""
        begins = np.cumsum([0] + [facts.lines for facts in self.facts]).tolist()
        some = [place for place, facts in enumerate(self.facts) if part in facts.parts]
        rows = delayed(_rows_of)
        return [begins[place] for place in some], [rows(self.tasks[place], part) for place in some]


@contextmanager
def lines_ahead(source: Source, report: Report) -> Iterator[Iterator[Block]]:
    """The blocks of the file, read from now on beside whatever else is done; `report` is told after the block."""
    said = Report()
    with prefetched(scan(source, "stop_times.txt", said), AHEAD) as lines:
        yield lines
    for warning in said.warnings:
        report.warn(warning)


def read_blocks_of_trips(
    source: Source, lines: Iterator[Block], known: Known, need: np.ndarray, crew: Workers, report: Report
) -> Blocks:
    """The rows of the trips that matter, block by block of `lines`, as `lines_ahead` gives them.

    `need` int32[trips]: -1 for a trip that never matters, 0 for one that does, else the second of its service day from
    which a departure of it would.
    """
    first = known._replace(wanted=need == 0, need=np.maximum(need, 0).astype(np.int32))
    with report.step("read stop_times"):
        blocks = _read(lines, first, crew)
        if not blocks.tasks:
            raise HeadwayError(f"{source.name}/stop_times.txt: it holds no lines; fetch the feed again")
    late = need == 0
    for facts in blocks.facts:
        late[facts.late] = True
    if (late & (need != 0)).any():
        del blocks
        with report.step("read stop_times"), lines_ahead(source, report) as again:
            blocks = _read(again, known._replace(wanted=late, need=np.zeros_like(need)), crew)
    names = [name for facts in blocks.facts for name in facts.unknown]
    count = sum(facts.unknown_lines for facts in blocks.facts)
    report.drop(f"{source.name}/stop_times.txt", "a line with a trip_id that trips.txt lacks", names, count)
    return blocks


def _read(lines: Iterator[Block], known: Known, crew: Workers) -> Blocks:
    tasks: list[Delayed] = []
    asked: list[Delayed] = []
    facts: list[BlockFacts] = []
    numbers, facts_of = delayed(_numbers), delayed(_facts)
    (kept,) = crew.persist([delayed(known, traverse=False)])
    with shared(crew) as file:
        for wave in _waves(lines, min(2 * crew.count, AT_ONCE)):
            if wave[0].first:
                tasks, asked, facts = [], [], []
            require(wave[0], NEEDED)
            made = crew.persist([numbers(block.put(file) if file else block, kept) for block in wave])
            facts += crew.compute(asked)  # of the wave before, so that two are at work
            asked = [facts_of(block) for block in made]
            tasks += made
    return Blocks(tasks, facts + crew.compute(asked))


@contextmanager
def shared(crew: Workers) -> Iterator[Any]:
    """A file that workers of this machine read blocks from, which is faster than sending them; None for others.

    Raises `WorkersError` where it can't be made, written, read, or closed, for which it has to be written, too.
    """
    if crew.shared is None:
        yield None
        return
    try:
        with NamedTemporaryFile(dir=crew.shared, delete=False) as file:
            yield file
    except OSError as error:
        way_out = "make room, or choose another folder (workers.scratch)"
        raise WorkersError(f"{crew.shared}: {error.strerror or error}; {way_out}") from None


def _waves(blocks: Iterable[Block], size: int) -> Iterator[list[Block]]:
    """So many blocks at a time, the first block of a reading always first."""
    wave: list[Block] = []
    for block in blocks:
        if wave and (block.first or len(wave) == size):
            yield wave
            wave = []
        wave.append(block)
    if wave:
        yield wave


def _facts(block: tuple[dict[int, Rows], BlockFacts]) -> BlockFacts:
    return block[1]


def _rows_of(block: tuple[dict[int, Rows], BlockFacts], part: int) -> Rows:
    return block[0][part]


def _numbers(block: Block, known: Known) -> tuple[dict[int, Rows], BlockFacts]:
    """One block's rows of wanted trips as numbers, by part of the trips."""
    table = block.parse(COLUMNS)
    trip, trip_names = _codes(table["trip_id"])
    trip_of = known.trips.find(trip_names)
    stop, stop_names = _codes(table["stop_id"])
    stop_of = known.stops.find(stop_names)
    stop_of = np.where(pc.equal(stop_names, "").to_numpy(zero_copy_only=False), BLANK_ID, stop_of)  # type: ignore[attr-defined]

    # Index -1 (an unknown trip) reads the last entry, which these arrays have for that.
    keep = np.append(known.wanted, False)[trip_of]
    bound = np.append(known.need, np.int32(0))[trip_of]
    late = np.zeros(len(trip_of), np.bool_)
    if bound.any():
        for name in ("arrival_time", "departure_time"):
            text.mark_late(*text_buffers(table[name]), trip, bound, late)
    unknown = text.rows_of(trip, trip_of < 0) if (trip_of < 0).any() else np.empty(0, np.int64)

    rows = text.rows_of(trip, keep)
    flags = np.full(len(rows), BOARD | ALIGHT, np.uint8)
    for name, flag in (("pickup_type", BOARD), ("drop_off_type", ALIGHT)):
        if name in block.header:
            flags[text.is_one(*text_buffers(table[name]), rows)] &= ~np.uint8(flag)
    found = Rows(
        trip_of[trip[rows]].astype(np.int32),
        stop_of[stop[rows]].astype(np.int32),
        text.parse_counts(*text_buffers(table["stop_sequence"]), rows),
        text.parse_times(*text_buffers(table["arrival_time"]), rows),
        text.parse_times(*text_buffers(table["departure_time"]), rows),
        flags,
        rows,
    )
    names = [trip_names[int(trip[row])].as_py() for row in unknown[:5]]
    parts = _by_part(found, known.part)
    return parts, BlockFacts(len(table), list(parts), trip_of[late], names, len(unknown))


def _by_part(rows: Rows, size: int) -> dict[int, Rows]:
    """Rows by part of the trips, in a part in their order."""
    part = rows.trip // np.int32(size)
    if not len(part):
        return {}
    least = int(part.min())
    offset, order = group(part - np.int32(least), int(part.max()) - least + 1)
    if len(offset) == 2:
        return {least: rows}
    return {
        least + place: Rows(*(column[order[offset[place] : offset[place + 1]]] for column in rows))
        for place in np.flatnonzero(np.diff(offset)).tolist()
    }


def _codes(column: pa.ChunkedArray) -> tuple[np.ndarray, pa.Array]:
    """Codes int32[rows] and the trimmed text of each code."""
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # no rows
        whole = pa.array([], pa.string()).dictionary_encode()
    return whole.indices.to_numpy(), trimmed(whole.dictionary)


def identical_lines(source: Source, rows: np.ndarray) -> np.ndarray:
    """Of the given rows (numbers from 0), those that repeat an earlier line to the letter (blanks aside)."""
    wanted = np.sort(rows)
    begin = 0
    parts: list[pd.DataFrame] = []
    for block in scan(source, "stop_times.txt", Report()):  # what there is to warn of was said at the first reading
        if block.first:
            begin, parts = 0, []
        table = block.parse(dict.fromkeys(block.header, pa.string()))
        here = wanted[(wanted >= begin) & (wanted < begin + len(table))]
        if len(here):
            chosen = table.take(pa.array(here - begin))
            names = [str(place) for place in range(chosen.num_columns)]
            parts.append(pa.table([trimmed(column) for column in chosen.columns], names=names).to_pandas())
            parts[-1].index = pd.Index(here)
        begin += len(table)
    lines = pd.concat(parts)
    return lines.index[lines.duplicated(keep="first")].to_numpy()
