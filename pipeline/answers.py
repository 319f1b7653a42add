"""Answers as tables: what an engine found, as rows for the people who asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from ..kernels.levels import NEVER
from ..storage.store import Store
from .ahead import run_ahead
from .asked import Answer
from .engines import Engine, Piece, Result
from .query_file import Queries


def answer(
    store: Store, engine: Engine, queries: Queries, asked: Answer, threads: int, advance: Callable[[int], None]
) -> Iterator[pa.Table]:
    """Answers in order of the queries. `advance` is told of every few queries that are done.

    What is one row or few a query comes as one table; arrivals come in pieces of bounded size.
    """
    if asked.kind == "arrivals" or engine.keeps_order:
        for table in _tables(store, engine, queries, asked, threads, advance):
            yield table.cast(asked.schema)
        return
    order = np.argsort(queries.departure, kind="stable")
    tables = list(_tables(store, engine, queries.take(order), asked, threads, advance))
    if tables:
        yield in_order(tables, order, asked).cast(asked.schema)


def in_order(tables: list[pa.Table], order: np.ndarray, asked: Answer) -> pa.Table:
    """Tables of one row or few a query, whose queries are the `order`-th (int64[queries]), in order of these."""
    rows = max(1, len(asked.cutoffs))
    return pa.concat_tables(tables).take((np.argsort(order)[:, None] * rows + np.arange(rows)).ravel())


def _tables(
    store: Store, engine: Engine, queries: Queries, asked: Answer, threads: int, advance: Callable[[int], None]
) -> Iterator[pa.Table]:
    """A table for each piece of the queries."""
    ids = pa.array(store.timetable.places.table["id"].combine_chunks(), pa.string())

    def work(piece: Piece) -> tuple[int, pa.Table]:
        some, compute = piece
        return len(some), _TABLES[asked.kind](compute(), some, ids, asked)

    for count, table in run_ahead(work, engine.pieces(queries, asked), threads):
        advance(count)
        yield table


def _arrivals(by_place: Result, some: Queries, ids: pa.Array, asked: Answer) -> pa.Table:
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


def _od(arrival: Result, some: Queries, ids: pa.Array, asked: Answer) -> pa.Table:
    return pa.table(
        {
            "query_id": some.query_id,
            "origin": _text(some.origin, ids),
            "destination": _text(some.destination, ids),
            "departure": some.departure,
            "arrival": pa.array(arrival, pa.int32(), mask=arrival == NEVER),
        }
    )


def _reach(found: Result, some: Queries, ids: pa.Array, asked: Answer) -> pa.Table:
    (reached, sums), cutoffs, weights = found, asked.cutoffs, asked.weights
    each = np.repeat(np.arange(len(some)), len(cutoffs))
    columns = {
        "query_id": some.query_id[each],
        "origin": _text(some.origin[each], ids),
        "departure": some.departure[each],
        "cutoff_s": np.tile(cutoffs, len(some)),
        "stops": reached.ravel(),
    }
    for k, name in enumerate(weights.names):
        columns[name] = np.ldexp(sums[:, :, k].ravel().astype(np.float64), -weights.bits[k])
    return pa.table(columns)


_TABLES = {"arrivals": _arrivals, "od": _od, "reach": _reach}


def _text(rows: np.ndarray, ids: pa.Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(rows.astype(np.int32)), ids)
