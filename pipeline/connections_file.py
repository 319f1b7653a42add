"""The paper's input: a text file of connections, a line `u v t lambda` each."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from ..storage.errors import HeadwayError
from ..storage.timetable import Footpaths, Places, Timetable, Trips
from .graph import RawConnections

LARGEST = 2**31 - 1
BOM = b"\xef\xbb\xbf"
MOST_VERTICES = 20_000_000


def read_connections(path: Path) -> tuple[RawConnections, Timetable]:
    """Connections and a timetable without trips, walking or coordinates; stops are named by their numbers.

    An optional first line `n m` gives the counts of vertices (0..n-1) and connections; `#` starts a comment.
    Raises `HeadwayError` naming the row that is not four non-negative integers below 2**31, or arrives too late.
    """
    try:
        return _connections(path, *_numbers(path))
    except OSError as error:
        raise HeadwayError(f"{path}: {error.strerror or error}; give a text file of connections") from None


def _numbers(path: Path) -> tuple[np.ndarray, tuple[int, int] | None]:
    """int64[connections, 4] and the counts of the first line, if it has them."""
    first = next(_lines(path), None)
    counts = None
    skip = 0
    if first is not None and len(first[1]) == 2:
        skip, fields = first
        counts = _integers(path, skip, fields)
    data = re.sub(rb"#[^\r\n]*", b"", path.read_bytes().removeprefix(BOM))
    try:
        if data.translate(None, b"0123456789 \t\r\n"):
            raise ValueError  # the fast reader would take signs, fractions, quotes and words such as True
        frame = pd.read_csv(
            io.BytesIO(data), sep=r"\s+", header=None, skiprows=skip, dtype=np.int64, engine="c", index_col=False
        )
        found = frame.to_numpy()
        if frame.shape[1] != 4 or (found > LARGEST).any() or (found[:, 2] + found[:, 3] >= LARGEST).any():
            raise ValueError
    except (ValueError, OverflowError, pd.errors.ParserError, pd.errors.EmptyDataError):
        _blame(path, skip)
        raise HeadwayError(f"{path}: no connections in it; write a line `u v t lambda` for each") from None
    return found, (counts[0], counts[1]) if counts else None


def _connections(path: Path, numbers: np.ndarray, counts: tuple[int, int] | None) -> tuple[RawConnections, Timetable]:
    tail, head, departure, duration = (np.ascontiguousarray(column) for column in numbers.T)
    largest = int(max(tail.max(), head.max()))
    vertices = counts[0] if counts else largest + 1
    if max(vertices, largest + 1) > MOST_VERTICES:
        raise HeadwayError(
            f"{path}: vertex {max(vertices - 1, largest)}: more than {MOST_VERTICES:,} vertices; number them from 0 on"
        )
    if largest >= vertices:
        raise HeadwayError(f"{path}: vertex {largest} is outside 0..{vertices - 1} of row 1; mend either")
    if counts and counts[1] != len(tail):
        raise HeadwayError(f"{path}: row 1 promises {counts[1]} connections, and {len(tail)} follow; mend either")
    raw = RawConnections(
        tail.astype(np.uint32),
        head.astype(np.uint32),
        departure.astype(np.int32),
        duration.astype(np.int32),
    )
    return raw, _timetable(vertices, int(departure.max()))


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Row number and fields of each line that holds any."""
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        for row, line in enumerate(lines, 1):
            fields = re.findall(r"[^ \t\r\n]+", line.split("#")[0])
            if fields:
                yield row, fields


def _integers(path: Path, row: int, fields: list[str]) -> list[int]:
    digits = [field.lstrip("0") or "0" for field in fields]  # Python refuses to read thousands of digits
    good = [len(value) <= 10 and value.isascii() and value.isdigit() and int(value) <= LARGEST for value in digits]
    bad = [field[:40] for field, fine in zip(fields, good, strict=True) if not fine]
    if bad:
        raise HeadwayError(f"{path}: row {row}: {bad[0]!r} is not an integer from 0 to {LARGEST}; mend the line")
    return [int(value) for value in digits]


def _blame(path: Path, skip: int) -> None:
    """Raise for the first bad line; the fast reader doesn't say which it was."""
    for row, fields in _lines(path):
        if row > skip:
            if len(fields) != 4:
                raise HeadwayError(f"{path}: row {row}: {len(fields)} fields instead of `u v t lambda`; mend the line")
            _, _, departure, duration = _integers(path, row, fields)
            if departure + duration >= LARGEST:
                raise HeadwayError(f"{path}: row {row}: it arrives at second {LARGEST} or later; mend the line")


def _timetable(vertices: int, latest: int) -> Timetable:
    numbers = [str(k) for k in range(vertices)]
    nothing = pa.nulls(vertices, pa.float64())
    table = pa.table(
        {
            "id": pa.array(numbers, pa.string()),
            "name": pa.array(numbers, pa.string()),
            "lat": nothing,
            "lon": nothing,
            "is_station": pa.array(np.zeros(vertices, np.bool_)),
            "station": pa.array([""] * vertices, pa.string()),
        }
    )
    each = np.arange(vertices, dtype=np.uint32)
    empty = {kind: np.empty(0, kind) for kind in (np.uint32, np.int32, np.uint8)}
    trips = Trips(
        pa.array([], pa.string()),
        np.zeros(1, np.int64),
        empty[np.uint32],
        empty[np.int32],
        empty[np.int32],
        empty[np.uint8],
        np.zeros(1, np.int64),
        empty[np.int32],
    )
    horizon = 86400 * (latest // 86400 + 1)
    places = Places(table, np.arange(vertices + 1, dtype=np.int64), each)
    return Timetable(horizon, vertices, places, trips, Footpaths.none(vertices))
