"""Events, changes, snapshots or a timetable to a DT-CSR and its twin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from ..kernels.events import next_ticks, presences, radix_sort
from ..storage.dt_csr import DTCSR, NEVER, Side
from ..storage.errors import HeadwayError
from ..storage.store import Store
from .events import MOST, Events
from .ticks import Ticks

DUPLICATES = ("multi", "last", "sum")
VALUES = ("departures", "duration", "headway")
Duplicates = Literal["multi", "last", "sum"]
Announce = Callable[[str], None]


def silent(step: str) -> None:
    """Says nothing."""


@dataclass(frozen=True)
class _Rows:
    """Events with ticks: `source`, `target`, `tick` uint32, `value` float64 or None, `end` uint32 or None."""

    source: np.ndarray
    target: np.ndarray
    tick: np.ndarray
    value: np.ndarray | None = None
    end: np.ndarray | None = None

    def take(self, which: np.ndarray) -> _Rows:
        value, end = (None if held is None else held[which] for held in (self.value, self.end))
        return _Rows(self.source[which], self.target[which], self.tick[which], value, end)


def build(
    events: Events,
    ticks: Ticks,
    duplicates: Duplicates = "multi",
    dtype: Any = np.float32,
    facts: dict[str, Any] | None = None,
    announce: Announce = silent,
) -> DTCSR:
    """The graph of events, or, where they insert and delete, of presences.

    Of events of one pair at one tick, `duplicates` keeps all (`multi`), the last in time, in the file's order among
    equal times (`last`), or one with the sum of their values, or their number without values (`sum`). `dtype` is the
    values', float32 or float64. Raises `HeadwayError` for options that don't fit each other, and as `Ticks.of` does.
    """
    if duplicates not in DUPLICATES:
        raise HeadwayError(f"duplicates {duplicates!r}; there are {', '.join(DUPLICATES)}")
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise HeadwayError(f"values of type {np.dtype(dtype)}; there are float32 and float64")
    if events.insert is not None and duplicates != "multi":
        raise HeadwayError("insertions and deletions leave one edge of a pair; leave duplicates out")
    announce("sort by time")
    events = _by_time(events)
    tick, times = ticks.of(events.time)
    rows = _Rows(events.source, events.target, tick, events.value)
    told = {"duplicates": duplicates, "merged duplicates": 0}
    announce("sort by node")
    if events.insert is None:
        rows = rows.take(_order(rows, len(times)))
        before = len(rows.tick)
        rows = _merged(rows, duplicates)
        told["merged duplicates"] = before - len(rows.tick)
    else:
        rows, told = _present(rows, events.insert)
        rows = rows.take(_order(rows, len(times)))
    return _assemble(rows, times, events.ids, np.dtype(dtype), told | (facts or {}), announce)


def from_snapshots(snapshots: Sequence[Any], values: Sequence[Any] | None, nodes: int | None) -> Events:
    """Events of a list of snapshots, whose places are the times: edge arrays [2, E] or square SciPy matrices.

    A matrix has its values itself. Raises `HeadwayError` naming the snapshot that is neither.
    """
    sources, targets, weights, largest = [], [], [], -1
    for place, snapshot in enumerate(snapshots):
        if hasattr(snapshot, "tocoo"):
            matrix = snapshot.tocoo()
            if matrix.shape[0] != matrix.shape[1]:
                raise HeadwayError(f"snapshot {place}: a matrix of {matrix.shape}; give square ones")
            source, target, weight = matrix.row, matrix.col, matrix.data
            largest = max(largest, matrix.shape[0] - 1)
        else:
            edges = np.asarray(snapshot)
            edges = edges.reshape(2, 0) if edges.size == 0 else edges
            if edges.ndim != 2 or len(edges) != 2 or (edges.size and edges.dtype.kind not in "iu"):
                raise HeadwayError(f"snapshot {place}: an array {edges.dtype}{list(edges.shape)}; give integers [2, E]")
            source, target = edges
            weight = None if values is None else np.asarray(values[place], np.float64).reshape(-1)
        if len(source) and int(min(source.min(), target.min())) < 0:
            raise HeadwayError(f"snapshot {place}: a negative node; number nodes from 0")
        if weight is not None and (len(weight) != len(source) or not np.isfinite(weight).all()):
            raise HeadwayError(f"snapshot {place}: give a finite value for each of its {len(source)} edges")
        largest = max(largest, int(max(source.max(initial=-1), target.max(initial=-1))))
        sources.append(source.astype(np.int64))
        targets.append(target.astype(np.int64))
        weights.append(weight)
    count = largest + 1 if nodes is None else nodes
    if largest >= count:
        raise HeadwayError(f"node {largest} is not in 0..{count - 1}; give more nodes")
    if max(count, sum(map(len, sources))) > MOST:
        raise HeadwayError(f"more than {MOST:,} nodes or edges; split them")
    if len({weight is None for weight in weights}) > 1:
        raise HeadwayError("some snapshots have values and some none; give all of them values")
    none = np.empty(0, np.int64)
    return Events(
        np.concatenate([none, *sources]).astype(np.uint32),
        np.concatenate([none, *targets]).astype(np.uint32),
        np.repeat(np.arange(len(sources)), [len(source) for source in sources]),
        np.concatenate(weights).astype(np.float64) if weights and weights[0] is not None else None,
        None,
        pa.array(np.arange(count)),
    )


def from_store(store: Store, bin_seconds: int, value: str, announce: Announce = silent) -> DTCSR:
    """A timetable as a graph: an edge from stop to next stop for each bin of `bin_seconds` in which anything leaves.

    Values: `departures`, their number; `duration`, their mean in seconds; `headway`, seconds of a bin over departures.
    Nodes are `store.stops`, in that order; tick k begins at second k * bin_seconds of the store's clock.
    Raises `HeadwayError` for a store with sub-trips, whose shortcuts are no departures, and a bin below a second.
    """
    if value not in VALUES:
        raise HeadwayError(f"value {value!r}; a timetable has {', '.join(VALUES)}")
    if not isinstance(bin_seconds, int | np.integer) or bin_seconds < 1:
        raise HeadwayError(f"bin {bin_seconds}: give seconds, an integer from 1 on")
    if (shortcuts := store.facts["build"]["subtrips"]) != "none":
        raise HeadwayError(f"the store has shortcuts along trips ({shortcuts}); build it with --subtrips none")
    announce("departures")
    places, graph, connections = store.timetable.places, store.cluster_ap, store.connections
    stop = np.full(store.timetable.vertices, -1)
    stop[places.vertex[: places.offset[places.stops]]] = np.repeat(
        np.arange(places.stops), np.diff(places.offset[: places.stops + 1])
    )
    each = np.diff(connections.offset)
    edge = graph.type_edge
    source, target = (np.repeat(stop[ends[edge]], each).astype(np.uint32) for ends in (graph.edge_from, graph.edge_to))
    vehicles = np.maximum(np.diff(connections.run_offset), 1) if len(connections.run) else np.ones(len(source))
    seconds = np.repeat(graph.duration, each)
    ids = pa.array(store.stops, pa.string())
    ticks = Ticks(width=bin_seconds, start=0)
    facts = {"from": "timetable", "bin": bin_seconds, "value": value, "build": store.facts["build"]}

    def summed(values: np.ndarray, words: dict[str, Any]) -> DTCSR:
        events = Events(source, target, connections.departure.astype(np.int64), values, None, ids)
        return build(events, ticks, "sum", np.float64, words, announce)

    counted = summed(vehicles.astype(np.float64), facts)
    count = counted.values
    assert count is not None
    if value == "departures":
        wanted = count
    elif value == "headway":
        wanted = bin_seconds / count
    else:
        total = summed(vehicles * seconds.astype(np.float64), {}).values
        wanted = total / count
    return replace(counted, values=wanted.astype(np.float32))


def _by_time(events: Events) -> Events:
    time = events.time
    if (time[1:] >= time[:-1]).all():
        return events
    key = time.view(np.uint64) ^ np.uint64(1 << 63)  # the same order, unsigned
    order = radix_sort(key, np.arange(len(time), dtype=np.uint32), 64)
    value, insert = (None if held is None else held[order] for held in (events.value, events.insert))
    return replace(
        events, source=events.source[order], target=events.target[order], time=time[order], value=value, insert=insert
    )


def _sorted(order: np.ndarray, major: np.ndarray, minor: np.ndarray | None, width: int) -> np.ndarray:
    """An order, sorted stably by major, then minor < width; both uint32 by place in the order."""
    key = major.astype(np.uint64)
    if minor is not None:
        key *= np.uint64(width)
        key += minor
    return radix_sort(key, order, int(key.max(initial=0)).bit_length())


def _order(rows: _Rows, ticks: int) -> np.ndarray:
    """Events by source, tick, target and, where those are equal, as they are."""
    order = _sorted(np.arange(len(rows.tick), dtype=np.uint32), rows.target, None, 1)
    return _sorted(order, rows.source[order], rows.tick[order], ticks)


def _merged(rows: _Rows, duplicates: str) -> _Rows:
    """One event for a pair and tick, of sorted ones."""
    if duplicates == "multi" or not len(rows.tick):
        return rows if duplicates != "sum" or len(rows.tick) else replace(rows, value=np.empty(0))
    new = _changes(rows.source, rows.tick, rows.target)
    first = np.flatnonzero(new)
    after = np.append(first[1:], len(new))
    if duplicates == "last":
        return rows.take(after - 1)
    total = (after - first).astype(np.float64) if rows.value is None else np.add.reduceat(rows.value, first)
    return replace(rows.take(first), value=total)


def _changes(*columns: np.ndarray) -> np.ndarray:
    """Where any of the columns differs from the row before, bool; the first row does."""
    new = np.zeros(len(columns[0]), np.bool_)
    new[:1] = True
    for held in columns:
        new[1:] |= held[1:] != held[:-1]
    return new


def _present(rows: _Rows, insert: np.ndarray) -> tuple[_Rows, dict[str, int]]:
    """Presences of changes in order of time, and how many changes had nothing to change."""
    order = _sorted(np.arange(len(insert), dtype=np.uint32), rows.target, None, 1)
    order = _sorted(order, rows.source[order], None, 1)
    rows, insert = rows.take(order), insert[order]
    size = len(insert)
    event, held = np.empty(size, np.int64), np.empty(size)
    begin, end = np.empty(size, np.uint32), np.empty(size, np.uint32)
    value = np.zeros(size) if rows.value is None else rows.value
    new = _changes(rows.source, rows.target)
    count, absent, present = presences(new, rows.tick, insert, value, event, begin, end, held)
    event = event[:count]
    values = None if rows.value is None else held[:count]
    found = _Rows(rows.source[event], rows.target[event], begin[:count], values, end[:count])
    return found, {"deletions of absent edges": int(absent), "insertions of present edges": int(present)}


def _side(row: np.ndarray, tick: np.ndarray, column: np.ndarray, nodes: int) -> Side:
    start = np.flatnonzero(_changes(row, tick)).astype(np.uint64)
    time_offset = np.empty(len(start) + 1, np.uint64)
    time_offset[:-1] = tick[start].astype(np.uint64) << np.uint64(32) | start
    time_offset[-1] = NEVER << 32 | len(row)
    row_offset = np.zeros(nodes + 1, np.uint32)
    np.cumsum(np.bincount(row[start], minlength=nodes), out=row_offset[1:])
    return Side(row_offset, time_offset, column)


def _assemble(
    rows: _Rows, times: np.ndarray, ids: pa.Array, dtype: np.dtype, facts: dict[str, Any], announce: Announce
) -> DTCSR:
    """The graph of events by source, tick, target."""
    announce("twin")
    nodes, size = len(ids), len(rows.tick)
    by_source = _side(rows.source, rows.tick, rows.target, nodes)
    perm = _sorted(np.arange(size, dtype=np.uint32), rows.target, rows.tick, len(times))
    by_destination = _side(rows.target[perm], rows.tick[perm], rows.source[perm], nodes)
    again = np.empty(size, np.uint32)
    next_ticks(by_source.row_offset, by_source.starts, by_source.entry_ticks, by_source.column_indices, again)
    with np.errstate(over="ignore"):
        values = None if rows.value is None else rows.value.astype(dtype)
    if values is not None and not np.isfinite(values).all():
        raise HeadwayError("a value, or a sum of values, is too large for float32; scale them")
    return DTCSR(by_source, by_destination, perm, again, rows.end, values, times, ids, facts)
