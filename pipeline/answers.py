"""Answers as tables: what a query asks for, from the labels of vertices."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from ..kernels import answers as kernel
from ..kernels.levels import NEVER
from ..storage.errors import HeadwayError
from ..storage.store import Store
from .engines import Arrivals
from .query_file import Queries

T = TypeVar("T")
R = TypeVar("R")
# Labels of one piece, queries x vertices; as many again by place, and of arrivals up to five times that in rows.
CELLS = 500_000
# Queries of one piece where each gives few rows: enough to hide the call, few enough that progress is seen.
FEWEST, MOST = 16, 512
MOST_MINUTES = 1_000_000  # a cut-off; arrivals stay below 2**31
TEXT = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class Weights:
    """Numeric columns by stop: `values` float64[stops, columns], 0 for a stop that the table lacks."""

    names: tuple[str, ...] = ()
    values: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))


@dataclass(frozen=True)
class Answer:
    """What is asked: `kind` is `arrivals`, `od` or `reach`; for `reach` the cut-offs in seconds (int32) and weights."""

    kind: str
    cutoffs: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    weights: Weights = Weights()

    @property
    def schema(self) -> pa.Schema:
        """Columns of the answers."""
        columns: list[tuple[str, pa.DataType]] = [("query_id", pa.int64()), ("origin", TEXT)]
        if self.kind == "od":
            columns.append(("destination", TEXT))
        columns.append(("departure", pa.int32()))
        if self.kind == "arrivals":
            columns.append(("stop", TEXT))
        if self.kind == "reach":
            columns += [("cutoff_s", pa.int32()), ("stops", pa.int32())]
            columns += [(name, pa.float64()) for name in self.weights.names]
        else:
            columns.append(("arrival", pa.int32()))
        return pa.schema(columns)


def asked_for(store: Store, kind: str, cutoffs: str, weights: Path | None) -> Answer:
    """An `Answer` from what a user types: cut-offs as `15,30` minutes, a file of weights.

    Raises `HeadwayError` for cut-offs that are no list of minutes, and weights without `reach`.
    """
    if kind != "reach":
        if weights is not None:
            raise HeadwayError(f"--weights goes with --answer reach, not {kind}")
        return Answer(kind)
    try:
        minutes = [float(text) for text in cutoffs.split(",")]
        seconds = [round(60 * value) for value in minutes if 0 <= value <= MOST_MINUTES]
    except (ValueError, OverflowError):
        minutes, seconds = [0.0], []
    if len(seconds) < len(minutes):
        raise HeadwayError(f"--cutoffs {cutoffs}: write minutes with commas between, for example 15,30,45,60")
    found = Weights() if weights is None else read_weights(weights, store)
    return Answer(kind, np.array(seconds, np.int32), found)


def answer(
    store: Store, engine: Arrivals, queries: Queries, asked: Answer, threads: int, advance: Callable[[int], None]
) -> Iterator[pa.Table]:
    """Answers in order of the queries. `advance` is told of every few queries that are done.

    What is one row or few a query comes as one table; arrivals come in pieces of bounded size.
    """
    work = _Work(store, engine, asked)
    size = CELLS // max(1, store.timetable.vertices)
    if asked.kind == "arrivals":
        for table in _in_order(work, queries, max(1, size), threads, advance):
            yield table.cast(asked.schema)
        return
    order = np.argsort(queries.departure, kind="stable")
    tables = list(_in_order(work, queries.take(order), min(max(size, FEWEST), MOST), threads, advance))
    if not tables:
        return
    rows = max(1, len(asked.cutoffs))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    yield pa.concat_tables(tables).take((place[:, None] * rows + np.arange(rows)).ravel()).cast(asked.schema)


def _in_order(
    work: _Work, queries: Queries, size: int, threads: int, advance: Callable[[int], None]
) -> Iterator[pa.Table]:
    """Tables of each `size` queries."""
    pieces = (queries.take(slice(first, first + size)) for first in range(0, len(queries), size))
    for count, table in run_ahead(lambda some: (len(some), work(some)), pieces, threads):
        advance(count)
        yield table


def run_ahead(work: Callable[[T], R], pieces: Iterable[T], threads: int) -> Iterator[R]:
    """Results in order, computed on threads that run a little ahead of whoever takes them."""
    running: deque[Future[R]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for piece in pieces:
            running.append(pool.submit(work, piece))
            if len(running) > 2 * threads:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


class _Work:
    """Answers some queries: labels, places, rows."""

    def __init__(self, store: Store, engine: Arrivals, asked: Answer) -> None:
        self.store, self.engine, self.asked = store, engine, asked
        self.ids = pa.array(store.timetable.places.table["id"].combine_chunks(), pa.string())

    def __call__(self, some: Queries) -> pa.Table:
        places, asked = self.store.timetable.places, self.asked
        targets = vertices_of(self.store, some.destination) if asked.kind == "od" else None
        limit = some.departure + asked.cutoffs.max() if asked.kind == "reach" else None
        labels = self.engine(vertices_of(self.store, some.origin), some.departure, targets, limit)
        # A station without stops reaches nothing, and nothing else starts at no vertex.
        by_place = kernel.by_place(labels, places.offset, places.vertex)
        return _TABLES[asked.kind](by_place, some, self.ids, places.stops, asked)


def vertices_of(store: Store, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The vertices that these places stand for, as an engine takes sources and targets."""
    places = store.timetable.places
    counts = np.diff(places.offset)[rows]
    offset = np.concatenate([[0], np.cumsum(counts)])
    inside = np.arange(offset[-1]) - np.repeat(offset[:-1], counts)
    return offset, places.vertex[np.repeat(places.offset[:-1][rows], counts) + inside]


def _arrivals(by_place: np.ndarray, some: Queries, ids: pa.Array, stops: int, asked: Answer) -> pa.Table:
    query, place = np.nonzero(by_place != NEVER)
    return pa.table(
        {
            "query_id": some.query_id[query],
            "origin": _text(some.origin[query], ids),
            "departure": some.departure[query],
            "stop": _text(place, ids),
            "arrival": by_place[query, place],
        }
    )


def _od(by_place: np.ndarray, some: Queries, ids: pa.Array, stops: int, asked: Answer) -> pa.Table:
    arrival = by_place[np.arange(len(some)), some.destination]
    return pa.table(
        {
            "query_id": some.query_id,
            "origin": _text(some.origin, ids),
            "destination": _text(some.destination, ids),
            "departure": some.departure,
            "arrival": pa.array(arrival, pa.int32(), mask=arrival == NEVER),
        }
    )


def _reach(by_place: np.ndarray, some: Queries, ids: pa.Array, stops: int, asked: Answer) -> pa.Table:
    cutoffs, weights = asked.cutoffs, asked.weights
    reached = np.empty((len(some), len(cutoffs)), np.int32)
    sums = np.empty((len(some), len(cutoffs), len(weights.names)))
    values = weights.values if weights.names else np.empty((stops, 0))
    kernel.reach(np.ascontiguousarray(by_place[:, :stops]), some.departure, cutoffs, values, reached, sums)
    each = np.repeat(np.arange(len(some)), len(cutoffs))
    columns = {
        "query_id": some.query_id[each],
        "origin": _text(some.origin[each], ids),
        "departure": some.departure[each],
        "cutoff_s": np.tile(cutoffs, len(some)),
        "stops": reached.ravel(),
    }
    for k, name in enumerate(weights.names):
        columns[name] = np.ascontiguousarray(sums[:, :, k]).ravel()
    return pa.table(columns)


_TABLES = {"arrivals": _arrivals, "od": _od, "reach": _reach}


def _text(rows: np.ndarray, ids: pa.Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(rows.astype(np.int32)), ids)


def read_weights(path: Path, store: Store) -> Weights:
    """A file for `weights_of`. Raises `HeadwayError` for a file that is no CSV or Parquet table."""
    try:
        if path.suffix == ".parquet":
            return weights_of(pq.read_table(path), str(path), store)
        text = pyarrow.csv.ConvertOptions(column_types={"stop": pa.string()})
        return weights_of(pyarrow.csv.read_csv(path, convert_options=text), str(path), store)
    except (OSError, pa.ArrowException) as error:
        cause = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise HeadwayError(f"{path}: {cause}; give a CSV or Parquet table with `stop` and numbers") from None


def weights_of(table: pa.Table, source: str, store: Store) -> Weights:
    """A table with `stop` and numeric columns; `source` names it in messages.

    Raises `HeadwayError` for a missing column, an unknown or repeated stop, and a value that is no number.
    """
    names = tuple(name for name in table.column_names if name != "stop")
    if "stop" not in table.column_names or not names:
        raise HeadwayError(f"{source}: it has {', '.join(table.column_names)}; it needs `stop` and a numeric column")
    if len(set(names)) < len(names) or table.column_names.count("stop") > 1:
        raise HeadwayError(f"{source}: two columns have one name (it has {', '.join(table.column_names)}); rename one")
    taken = {"query_id", "origin", "departure", "cutoff_s", "stops"} & set(names)
    if taken:
        raise HeadwayError(f"{source}: column {taken.pop()} would clash with the answers' own; rename it")
    ids = table["stop"].cast(pa.string()).combine_chunks()
    rows = pc.fill_null(pc.index_in(ids, value_set=pa.array(store.stops, pa.string())), -1).to_numpy()
    repeated = pd.Series(rows).duplicated().to_numpy() & (rows >= 0)
    for bad, words in ((rows < 0, "is no stop of the store; remove it"), (repeated, "is repeated; keep one row")):
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise HeadwayError(f"{source}: row {row + 2}: {ids[row].as_py()!r} {words}")
    values = np.zeros((len(store.stops), len(names)))
    for k, name in enumerate(names):
        kind = table.schema.field(name).type
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        if number and not table[name].null_count:
            values[rows, k] = table[name].to_numpy()
        if not number or table[name].null_count or not np.isfinite(values[:, k]).all():
            raise HeadwayError(f"{source}: column {name} holds something that is no number; mend or remove it")
    return Weights(names, values)
