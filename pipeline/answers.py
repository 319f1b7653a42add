"""Answers as tables: what a query asks for, from the labels of vertices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
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

KINDS = ("arrivals", "od", "reach")
# Labels held at once: queries x vertices, and as many again by place and in rows.
CELLS = 2_000_000
TEXT = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class Weights:
    """Numeric columns by stop: `values` float64[stops, columns], 0 for a stop that the table lacks."""

    names: tuple[str, ...] = ()
    values: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))


@dataclass(frozen=True)
class Answer:
    """What is asked: `kind` of `KINDS`; for `reach` the cut-offs in seconds (int32) and weights."""

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
        seconds = [round(60 * value) for value in minutes if 0 <= value <= 1e6]
    except (ValueError, OverflowError):
        minutes, seconds = [0.0], []
    if len(seconds) < len(minutes):
        raise HeadwayError(f"--cutoffs {cutoffs}: write minutes with commas between, for example 15,30,45,60")
    found = Weights() if weights is None else read_weights(weights, store)
    return Answer(kind, np.array(seconds, np.int32), found)


def answer(store: Store, engine: Arrivals, queries: Queries, asked: Answer) -> Iterator[tuple[int, pa.Table]]:
    """How many queries, and their answers: all in order, in pieces of bounded size."""
    places = store.timetable.places
    ids = pa.array(places.table["id"].combine_chunks(), pa.string())
    size = max(1, CELLS // max(1, store.timetable.vertices))
    for first in range(0, len(queries), size):
        part = slice(first, first + size)
        some = Queries(queries.query_id[part], queries.origin[part], queries.destination[part], queries.departure[part])
        sources = sources_of(store, some.origin)
        by_place = kernel.by_place(engine(sources, some.departure), places.offset, places.vertex)
        # A station without stops reaches nothing, and nothing else starts at no vertex.
        yield len(some), _TABLES[asked.kind](by_place, some, ids, places.stops, asked).cast(asked.schema)


def sources_of(store: Store, origin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The vertices at which queries from these places start, as an engine takes them."""
    places = store.timetable.places
    counts = np.diff(places.offset)[origin]
    offset = np.concatenate([[0], np.cumsum(counts)])
    inside = np.arange(offset[-1]) - np.repeat(offset[:-1], counts)
    return offset, places.vertex[np.repeat(places.offset[:-1][origin], counts) + inside]


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
    """A table with `stop` and numeric columns.

    Raises `HeadwayError` for a missing column, an unknown or repeated stop, and a value that is no number.
    """
    try:
        table = pq.read_table(path) if path.suffix == ".parquet" else _weights_csv(path)
    except (OSError, pa.ArrowException) as error:
        cause = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise HeadwayError(f"{path}: {cause}; give a CSV or Parquet table with `stop` and numbers") from None
    names = tuple(name for name in table.column_names if name != "stop")
    if "stop" not in table.column_names or not names:
        raise HeadwayError(f"{path}: it has {', '.join(table.column_names)}; it needs `stop` and a numeric column")
    taken = {"query_id", "origin", "departure", "cutoff_s", "stops"} & set(names)
    if taken:
        raise HeadwayError(f"{path}: column {taken.pop()} would clash with the answers' own; rename it")
    stops = pc.index_in(table["stop"].cast(pa.string()).combine_chunks(), value_set=pa.array(store.stops))
    rows = pc.fill_null(stops, -1).to_numpy()
    if (rows < 0).any():
        row = int(np.flatnonzero(rows < 0)[0])
        raise HeadwayError(
            f"{path}: row {row + 2}: no stop {table['stop'][row].as_py()!r} in the store; remove the row"
        )
    if len(np.unique(rows)) < len(rows):
        _, firsts = np.unique(rows, return_index=True)
        row = int(np.delete(np.arange(len(rows)), firsts)[0])
        raise HeadwayError(
            f"{path}: row {row + 2}: stop {table['stop'][row].as_py()!r} is repeated; keep one row of it"
        )
    values = np.zeros((len(store.stops), len(names)))
    for k, name in enumerate(names):
        kind = table.schema.field(name).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)) or table[name].null_count:
            raise HeadwayError(f"{path}: column {name} holds something that is no number; mend or remove it")
        values[rows, k] = table[name].to_numpy()
    return Weights(names, values)


def _weights_csv(path: Path) -> pa.Table:
    return pyarrow.csv.read_csv(path, convert_options=pyarrow.csv.ConvertOptions(column_types={"stop": pa.string()}))
