"""stop_times.txt: by far the largest table, so only the rows of trips that matter become numbers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ...kernels import text, trips
from ...storage.errors import HeadwayError
from ...storage.timetable import ALIGHT, BOARD
from ..blocks import Block, Types, require, text_buffers, trimmed
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

CAUSES = {
    trips.BAD_TIME: "a trip with a malformed time",
    trips.UNKNOWN_STOP: "a trip with a stop_id that is unknown or no stop",
    trips.BAD_SEQUENCE: "a trip with a malformed stop_sequence",
    trips.REPEATED_SEQUENCE: "a trip with two different lines of one stop_sequence",
    trips.UNTIMED_END: "a trip whose first or last stop is untimed",
    trips.BACKWARDS: "a trip whose time runs backwards",
}


@dataclass(frozen=True)
class TripRows:
    """Rows of trips in order of trip and position.

    `offset` int64[trips + 1]; `stop` int32, `arrival` and `departure` int32 seconds of the service day,
    `flags` uint8 (`BOARD`, `ALIGHT`), each [rows].
    """

    offset: np.ndarray
    stop: np.ndarray
    arrival: np.ndarray
    departure: np.ndarray
    flags: np.ndarray


def read_trip_rows(
    source: Source,
    trip_ids: pa.Array,
    need: np.ndarray,
    stop_ids: pa.Array,
    pool: Executor,
    report: Report,
) -> TripRows:
    """Rows of the trips that matter, every rule of a trip applied.

    `trip_ids` text[trips], distinct. `need` int32[trips]: -1 for a trip that never matters, 0 for one that
    does, else the second of its service day from which a departure of it would. `stop_ids` text[stops].
    """
    wanted = need == 0
    rows = _read(source, trip_ids, wanted, np.maximum(need, 0).astype(np.int32), stop_ids, pool, report)
    if rows["late"].any():
        rows = _read(source, trip_ids, wanted | rows["late"], np.zeros_like(need), stop_ids, pool, report)
    del rows["late"]
    file = f"{source.name}/stop_times.txt"
    unknown = rows.pop("unknown")
    report.drop(file, "a line with a trip_id that trips.txt lacks", *unknown)
    with report.step("trips"):
        return _clean(rows, source, trip_ids, report, file)


def _read(
    source: Source,
    trip_ids: pa.Array,
    wanted: np.ndarray,
    need: np.ndarray,
    stop_ids: pa.Array,
    pool: Executor,
    report: Report,
) -> dict:
    """Columns of the wanted trips' rows in file order, `late` bool[trips], `unknown` (first ids, count)."""
    late = np.zeros(len(wanted), np.bool_)

    def submit(block: Block) -> Future[dict]:
        require(block, NEEDED)
        return pool.submit(_numbers, block, trip_ids, wanted, need, stop_ids, late)

    with report.step("read stop_times"):
        blocks = [future.result() for future in _bounded(source, report, submit)]
    if not blocks:
        raise HeadwayError(f"{source.name}/stop_times.txt: it holds no lines; fetch the feed again")
    columns: dict = {
        name: np.concatenate([block[name] for block in blocks])
        for name in ("trip", "stop", "sequence", "arrival", "departure", "flags", "row")
    }
    begins = np.cumsum([0] + [block["rows"] for block in blocks])
    columns["row"] += np.repeat(begins[:-1], [len(block["row"]) for block in blocks])
    first = [name for block in blocks for name in block["unknown"][0]]
    columns["unknown"] = (first, sum(block["unknown"][1] for block in blocks))
    columns["late"] = late & ~wanted
    return columns


def _bounded(source: Source, report: Report, submit: Callable[[Block], Future[dict]]) -> list[Future[dict]]:
    """Futures of all blocks; reading waits while the pool is behind, so that few blocks are in memory."""
    pending: list[Future[dict]] = []

    def take(block: Block) -> Future[dict]:
        while len(pending) > 4:
            pending.pop(0).result()
        pending.append(submit(block))
        return pending[-1]

    return scan(source, "stop_times.txt", report, take)


def _numbers(block: Block, trip_ids, wanted, need, stop_ids, late) -> dict:
    """One block's rows of wanted trips as numbers; marks `late` trips on the way."""
    table = block.parse(COLUMNS)
    trip, trip_names = _codes(table["trip_id"], trip_ids)
    trip_of = pc.index_in(trip_names, value_set=trip_ids).fill_null(-1).to_numpy()  # type: ignore[attr-defined]
    stop, stop_names = _codes(table["stop_id"], stop_ids)
    stop_of = pc.index_in(stop_names, value_set=stop_ids).fill_null(-1).to_numpy()  # type: ignore[attr-defined]
    stop_of = np.where(pc.equal(stop_names, "").to_numpy(zero_copy_only=False), BLANK_ID, stop_of)  # type: ignore[attr-defined]

    # Index -1 (an unknown trip) reads the last entry, which these arrays have for that.
    keep = np.append(wanted, False)[trip_of]
    bound = np.append(need, np.int32(0))[trip_of]
    if bound.any():
        here = np.zeros(len(trip_of), np.bool_)
        for name in ("arrival_time", "departure_time"):
            text.mark_late(*text_buffers(table[name]), trip, bound, here)
        late[trip_of[here]] = True
    unknown = text.rows_of(trip, trip_of < 0) if (trip_of < 0).any() else np.empty(0, np.int64)

    rows = text.rows_of(trip, keep)
    flags = np.full(len(rows), BOARD | ALIGHT, np.uint8)
    for name, flag in (("pickup_type", BOARD), ("drop_off_type", ALIGHT)):
        if name in block.header:
            flags[text.is_one(*text_buffers(table[name]), rows)] &= ~np.uint8(flag)
    return {
        "rows": len(table),
        "trip": trip_of[trip[rows]].astype(np.int32),
        "stop": stop_of[stop[rows]].astype(np.int32),
        "sequence": text.parse_counts(*text_buffers(table["stop_sequence"]), rows),
        "arrival": text.parse_times(*text_buffers(table["arrival_time"]), rows),
        "departure": text.parse_times(*text_buffers(table["departure_time"]), rows),
        "flags": flags,
        "row": rows,
        "unknown": ([trip_names[int(trip[row])].as_py() for row in unknown[:5]], len(unknown)),
    }


def _codes(column: pa.ChunkedArray, known: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Codes int32[rows] and the trimmed text of each code."""
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # no rows
        whole = pa.array([], pa.string()).dictionary_encode()
    return whole.indices.to_numpy(), trimmed(whole.dictionary).cast(known.type)


def _clean(rows: dict, source: Source, trip_ids: pa.Array, report: Report, file: str) -> TripRows:
    blank = rows["stop"] == BLANK_ID
    if blank.any():
        names = trip_ids.take(pa.array(rows["trip"][blank][:5])).to_pylist()
        report.drop(file, "a line without stop_id", names, int(blank.sum()))
        rows = {name: column[~blank] for name, column in rows.items()}
    offset, order = trips.group(rows["trip"], len(trip_ids))
    if not trips.are_sorted(offset, order, rows["sequence"]):
        order = np.lexsort((rows["sequence"], rows["trip"]))  # stable: lines of one sequence stay in file order
    repeated = trips.repeats(offset, order, rows["sequence"])
    if repeated.any():
        identical = _identical(source, rows["row"][order[repeated]])
        order = order[~np.isin(rows["row"][order], identical)]
        offset = np.concatenate([[0], np.cumsum(np.bincount(rows["trip"][order], minlength=len(trip_ids)))])
    sequence, stop, arrival, departure, flags = (
        rows[name][order] for name in ("sequence", "stop", "arrival", "departure", "flags")
    )
    kept, causes = trips.clean(offset, sequence, stop, arrival, departure, flags)
    for cause, words in CAUSES.items():
        which = np.flatnonzero(causes == cause)
        report.drop(file, words, trip_ids.take(pa.array(which[:5])).to_pylist(), len(which))
    end = kept[-1]
    return TripRows(kept, stop[:end], arrival[:end], departure[:end], flags[:end])


def _identical(source: Source, rows: np.ndarray) -> np.ndarray:
    """Of the given rows (numbers from 0), those that repeat an earlier line to the letter (blanks aside)."""
    wanted = np.sort(rows)
    begin = 0
    parts: list[pd.DataFrame] = []

    def take(block: Block) -> None:
        nonlocal begin, parts
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

    scan(source, "stop_times.txt", Report(), take)  # what there is to warn of was said at the first reading
    lines = pd.concat(parts)
    return lines.index[lines.duplicated(keep="first")].to_numpy()
