"""Timetable to connection types, clusters, progressions and profiles: the store."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ..kernels import connections as kernel
from ..kernels import profiles, progressions
from ..kernels.trips import group
from ..storage.cluster_ap import ClusterAp
from ..storage.edge_profile import EdgeProfile
from ..storage.errors import HeadwayError
from ..storage.store import Connections, Store
from ..storage.timetable import Timetable, Trips
from . import vertex_order
from .gtfs.report import Report

SLOT = 1800
PIECES_PER_THREAD = 4
MOST_CLUSTERS = 2**16  # their numbers are uint16


@dataclass(frozen=True)
class RawConnections:
    """Connections in any order, repeated ones included: `tail`, `head`, `run` uint32, `departure`, `duration`
    int32. `run` is empty where there are no trips."""

    tail: np.ndarray
    head: np.ndarray
    departure: np.ndarray
    duration: np.ndarray
    run: np.ndarray


def expand(timetable: Timetable, subtrips: str, threads: int, report: Report) -> RawConnections:
    """The connections of all runs; `subtrips` is `none`, `sqrt-trip` or `sqrt-mean`. May be none at all."""
    with ThreadPoolExecutor(threads) as pool, report.step("connections"):
        return _expand(timetable, subtrips, _Spread(pool, threads))


def build_store(timetable: Timetable, raw: RawConnections, cluster_minutes: int, threads: int, report: Report) -> Store:
    """Everything after the connections, of which there is at least one. Vertices are renumbered for locality.

    Raises `HeadwayError` where clusters are too many for their numbers.
    """
    clusters = clusters_of(raw.departure, cluster_minutes)
    if clusters > MOST_CLUSTERS:
        raise HeadwayError(
            f"departures lie in {clusters} clusters of {cluster_minutes} min, and {MOST_CLUSTERS} is the most; "
            "build with more --cluster-minutes or fewer --days"
        )
    with report.step("order vertices"):
        pairs = vertex_order.hops(timetable.trips) if len(timetable.trips.vertex) else (raw.tail, raw.head)
        number, components = vertex_order.order(timetable, *pairs)
        timetable = vertex_order.renumber(timetable, number)
        raw = replace(raw, tail=number[raw.tail], head=number[raw.head])
    return assemble(timetable, raw, cluster_minutes, components, threads, report)


def clusters_of(departure: np.ndarray, cluster_minutes: int) -> int:
    """How many clusters lie from second 0 to the last departure."""
    return int(departure.max()) // (cluster_minutes * 60) + 1


def assemble(
    timetable: Timetable, raw: RawConnections, cluster_minutes: int, components: int, threads: int, report: Report
) -> Store:
    """The store of connections between vertices that keep their numbers, in so many connected components."""
    with ThreadPoolExecutor(threads) as pool:
        spread = _Spread(pool, threads)
        with report.step("sort, types"):
            tail, head, duration, connections = _types(raw, timetable.vertices, spread)
        with report.step("progressions"):
            cluster_ap = _cover(tail, head, duration, connections, timetable.vertices, cluster_minutes * 60, spread)
        with report.step("profiles"):
            profile = _profiles(cluster_ap, connections, spread)
    facts = {
        "horizon": timetable.horizon,
        "stops": timetable.places.stops,
        "stations": len(timetable.places.table) - timetable.places.stops,
        "trips": len(timetable.trips.ids),
        "runs": len(timetable.trips.shift),
        "raw connections": len(raw.departure),
        "connections": len(connections.departure),
        "connection types": len(duration),
        "edges": len(cluster_ap.edge_to),
        "progressions": len(cluster_ap.start),
        "footpaths": len(timetable.footpaths.to),
        "stops without departures": int(np.count_nonzero(np.diff(cluster_ap.vertex_edge) == 0)),
        "connected components": components,
    }
    return Store(timetable, connections, cluster_ap, profile, facts)


def with_clusters(store: Store, cluster_minutes: int, threads: int) -> Store:
    """The same connections in clusters of another width, of which there are at most `MOST_CLUSTERS`."""
    graph, vertices = store.cluster_ap, store.timetable.vertices
    tail, head = graph.edge_from[graph.type_edge], graph.edge_to[graph.type_edge]
    with ThreadPoolExecutor(threads) as pool:
        spread = _Spread(pool, threads)
        made = _cover(tail, head, graph.duration, store.connections, vertices, cluster_minutes * 60, spread)
    return replace(store, cluster_ap=made)


def with_subtrips(store: Store, subtrips: str, threads: int) -> Store:
    """The trips of a store with another scheme of sub-trips, between the same vertices."""
    report, counts = Report(), store.facts["counts"]
    raw = expand(store.timetable, subtrips, threads, report)
    minutes = store.cluster_ap.width // 60
    made = assemble(store.timetable, raw, minutes, counts["connected components"], threads, report)
    return replace(made, facts=store.facts | {"counts": made.facts})


class _Spread:
    """Run a kernel over ranges of equal weight on the pool's threads."""

    def __init__(self, pool: ThreadPoolExecutor, threads: int) -> None:
        self.pool = pool
        self.pieces = threads * PIECES_PER_THREAD if threads > 1 else 1

    def __call__(self, weights: np.ndarray, work: Callable[[tuple[int, int]], object]) -> list:
        """`work((first, after last))` for each range; `weights` int64[items + 1] is a running sum."""
        cuts = np.searchsorted(weights, np.linspace(0, weights[-1], self.pieces + 1))
        cuts[0], cuts[-1] = 0, len(weights) - 1
        ranges = [(int(a), int(b)) for a, b in pairwise(cuts) if a < b]
        return list(self.pool.map(work, ranges or [(0, 0)]))


def _pieces(trips: Trips, subtrips: str) -> np.ndarray:
    """Positions of a sub-trip for each trip, int64[trips]; 0 for none. The paper's two schemes."""
    hops = np.maximum(0, np.diff(trips.offset) - 1)
    if subtrips == "none":
        return np.zeros(len(hops), np.int64)
    if subtrips == "sqrt-mean":
        runs = np.diff(trips.run_offset)
        hops = np.full(len(hops), (hops * runs).sum() / max(1, runs.sum()))
    return np.maximum(2, np.rint(np.sqrt(hops))).astype(np.int64)


def _expand(timetable: Timetable, subtrips: str, spread: _Spread) -> RawConnections:
    trips = timetable.trips
    piece = _pieces(trips, subtrips)
    inputs = (
        trips.offset,
        trips.vertex,
        trips.arrival,
        trips.departure,
        trips.flags,
        trips.run_offset,
        trips.shift,
        timetable.horizon,
        piece,
    )
    work = np.concatenate([[0], np.cumsum(np.diff(trips.offset) * np.diff(trips.run_offset))])

    def fill(some: tuple[int, int]) -> tuple[np.ndarray, ...]:
        size = kernel.fill(some, *inputs, _columns(0))
        out = _columns(size)
        kernel.fill(some, *inputs, out)
        return out

    parts = spread(work, fill)
    return RawConnections(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _columns(size: int) -> tuple[np.ndarray, ...]:
    return tuple(np.empty(size, kind) for kind in (np.uint32, np.uint32, np.int32, np.int32, np.uint32))


def _types(
    raw: RawConnections, vertices: int, spread: _Spread
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Connections]:
    """Tail, head and duration of each type, and the distinct connections."""
    head_bits = max(1, int(vertices - 1).bit_length())
    leave_bits = max(1, int(raw.departure.max()).bit_length())
    last_bits = max(1, int(raw.duration.max()).bit_length())
    if head_bits + leave_bits + last_bits > 64:
        raise HeadwayError("stops x horizon x longest hop are too large to sort; build with fewer --days")
    offset, order = group(raw.tail, vertices)

    def sort(some: tuple[int, int]) -> None:
        """By tail, head, duration, departure; stable, so that runs stay in order."""
        part = order[offset[some[0]] : offset[some[1]]]
        key = raw.head[part].astype(np.uint64) << np.uint64(leave_bits + last_bits)
        key |= raw.duration[part].astype(np.uint64) << np.uint64(leave_bits)
        key |= raw.departure[part].astype(np.uint64)
        part[:] = part[np.lexsort((key, raw.tail[part]))]

    spread(offset, sort)
    size = len(order)
    out = (
        np.empty(size, np.uint32),
        np.empty(size, np.uint32),
        np.empty(size, np.int32),
        np.empty(size + 1, np.int64),
        np.empty(size, np.int32),
        np.empty(size + 1, np.int64),
        np.empty(size, np.uint32),
    )
    run = raw.run if len(raw.run) else np.zeros(size, np.uint32)
    types, count = kernel.group_types(order, raw.tail, raw.head, raw.departure, raw.duration, run, out)
    tail, head, duration, type_offset, departure, run_offset, runs = out
    if not len(raw.run):
        run_offset, runs = np.zeros(count + 1, np.int64), runs[:0]
    found = Connections(type_offset[: types + 1].copy(), departure[:count].copy(), run_offset[: count + 1].copy(), runs)
    return tail[:types].copy(), head[:types].copy(), duration[:types].copy(), found


def _cover(
    tail: np.ndarray,
    head: np.ndarray,
    duration: np.ndarray,
    connections: Connections,
    vertices: int,
    width: int,
    spread: _Spread,
) -> ClusterAp:
    new_edge = np.ones(len(tail), np.bool_)
    new_edge[1:] = (tail[1:] != tail[:-1]) | (head[1:] != head[:-1])
    edge_type = np.append(np.flatnonzero(new_edge), len(tail))
    edge_tail = tail[edge_type[:-1]]
    offset, departure = connections.offset, connections.departure

    def cover(some: tuple[int, int]) -> tuple[np.ndarray, ...]:
        size = int(offset[some[1]] - offset[some[0]])
        out = (
            np.zeros(some[1] - some[0], np.int64),
            np.empty(size, np.uint16),
            np.empty(size, np.int64),
            *(np.empty(size, np.int32) for _ in range(3)),
        )
        clusters, total = progressions.cover_types(some, offset, departure, width, np.zeros(width + 1, np.bool_), out)
        return out[0], out[1][:clusters], out[2][:clusters], *(column[:total] for column in out[3:])

    parts = spread(offset, cover)
    per_type, number, per_cluster, start, end, step = (np.concatenate(column) for column in zip(*parts, strict=True))
    return ClusterAp(
        width,
        np.searchsorted(edge_tail, np.arange(vertices + 1)).astype(np.int64),
        head[edge_type[:-1]],
        edge_type.astype(np.int64),
        duration,
        np.concatenate([[0], np.cumsum(per_type)]),
        number,
        np.concatenate([[0], np.cumsum(per_cluster)]),
        start,
        end,
        step,
    )


def _profiles(graph: ClusterAp, connections: Connections, spread: _Spread) -> EdgeProfile:
    edges = len(graph.edge_to)

    begins = connections.offset[graph.edge_type]
    type_edge = graph.type_edge

    def pareto(some: tuple[int, int]) -> tuple[np.ndarray, ...]:
        types = slice(graph.edge_type[some[0]], graph.edge_type[some[1]])
        per_type = np.diff(connections.offset[types.start : types.stop + 1])
        offset = begins[some[0] : some[1] + 1] - begins[some[0]]
        departure = connections.departure[begins[some[0]] : begins[some[1]]]
        # Stable, and an edge's types ascend by duration: so do connections of one second.
        order = np.lexsort((departure, np.repeat(type_edge[types], per_type)))
        duration = np.repeat(graph.duration[types], per_type)[order]
        counts = np.empty(some[1] - some[0], np.int64)
        leave, lasts = np.empty_like(departure), np.empty_like(departure)
        total = profiles.pareto(offset, departure[order], duration, counts, leave, lasts)
        return counts, leave[:total].copy(), lasts[:total].copy()

    parts = spread(begins, pareto)
    counts, leave, lasts = (np.concatenate(column) for column in zip(*parts, strict=True))
    shift = max(1, int(lasts.max()).bit_length())
    slots = int(leave.max()) // SLOT + 1
    # Any second of the last slot is looked up, so all must fit; and then no departure's word has all bits set,
    # which means "none".
    narrow = (slots * SLOT).bit_length() + shift <= 32
    kind = np.uint32 if narrow else np.uint64
    size = len(leave) + slots * edges
    index = np.empty(slots * edges + 1, np.uint32 if size < 2**32 else np.int64)
    word = np.empty(size, kind)
    offset = np.concatenate([[0], np.cumsum(counts)])
    none = kind(np.iinfo(kind).max)
    profiles.by_slot(offset, leave, lasts, slots, SLOT, kind(shift), none, index, word)
    return EdgeProfile(SLOT, shift, index, word, graph.duration[graph.edge_type[:-1]])
