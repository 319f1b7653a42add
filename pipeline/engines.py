"""Query engines by name: each computes the same arrivals from a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from ..kernels import baselines, dependency_graph, label_correcting, profile_search, relax
from ..kernels.levels import NEVER
from ..storage.store import Store
from . import relaxation
from .asked import Answer
from .ordered import by_departure, by_level
from .query_file import Queries

Rows = tuple[np.ndarray, np.ndarray]  # CSR: offset int64[rows + 1], vertex uint32


# By kind of answer: int32[queries, places] arrivals; int32[queries]; (int32[queries, cut-offs] stops, int64[queries,
# cut-offs, columns] sums of weights).
Result = Any
Piece = tuple[Queries, Callable[[], Result]]


class Engine(Protocol):
    """What answers queries: on a CPU, or on a GPU."""

    keeps_order: bool  # it orders the work itself, and gives results in the order of the queries

    def pieces(self, queries: Queries, asked: Answer) -> Iterator[Piece]:
        """Queries in pieces of bounded size, each with the call that gives its results, on any thread."""
        ...


@dataclass(frozen=True)
class Task:
    """Queries in the order of work (`order` int64), as the kernels take them; see `Arrivals`."""

    order: np.ndarray
    sources: Rows
    leave: np.ndarray
    targets: Rows
    limit: np.ndarray
    out: np.ndarray


Kernel = Callable[[Task], object]


def _edge_profile(store: Store) -> Kernel:
    graph, lists, paths = store.cluster_ap, store.profile, _footpaths(store)
    edges = (graph.vertex_edge, graph.edge_to)
    profile = (lists.slot, lists.slots, lists.shift, lists.index, lists.word, lists.least)
    spread, bits = _spread(store), bucket_bits(lists.least)

    def run(task: Task) -> None:
        profile_search.search(
            task.order,
            edges,
            profile,
            paths,
            spread,
            bits,
            task.sources,
            task.leave,
            task.targets,
            task.limit,
            task.out,
        )

    return run


def _label_correcting(store: Store) -> Kernel:
    graph, paths = store.cluster_ap, _footpaths(store)
    edges = (graph.vertex_edge, graph.edge_to, graph.edge_type, graph.duration)
    levels = (
        graph.width,
        graph.type_cluster,
        graph.cluster_number,
        graph.cluster_first,
        graph.start,
        graph.end,
        graph.step,
    )
    spread, bits = _spread(store), bucket_bits(store.profile.least)

    def run(task: Task) -> None:
        label_correcting.cluster_ap(task.order, edges, levels, paths, spread, bits, task.sources, task.leave, task.out)

    return run


def _connection_scan(store: Store) -> Kernel:
    graph, found = store.cluster_ap, by_departure(store)
    scanned = (graph.edge_from[found.edge], graph.edge_to[found.edge], found.departure, found.arrival)
    if len(store.timetable.footpaths.to):
        paths, spread = _footpaths(store), _spread(store)

        def walking(task: Task) -> None:
            baselines.scan_walking(task.order, scanned, paths, spread, task.sources, task.leave, task.out)

        return walking
    groups = baselines.zero_groups(found.departure, found.arrival)

    def run(task: Task) -> None:
        baselines.scan(task.order, scanned, groups, task.sources, task.leave, task.out)

    return run


def _esdg(store: Store) -> Kernel:
    found = by_level(store)
    connections = (found.tail, found.head, found.departure, found.arrival)

    def run(task: Task) -> None:
        dependency_graph.scan(task.order, connections, found.offset, found.cyclic, task.sources, task.leave, task.out)

    return run


def _relaxation(algorithm: str, store: Store) -> Kernel:
    one = relaxation.Relaxation(store, algorithm)
    return lambda task: one.search(task.order, task.sources, task.leave, task.out)


ALGORITHMS: dict[str, Callable[[Store], Kernel]] = {
    "edge-profile": _edge_profile,
    "label-correcting": _label_correcting,
    "connection-scan": _connection_scan,
    "esdg": _esdg,  # edge-scan-dependency graph
    **{name: partial(_relaxation, name) for name in relax.ALGORITHMS},
}
DEFAULT = "edge-profile"
ON_CUDA = {DEFAULT, "esdg", *relax.ALGORITHMS, *relax.VIRTUAL_WARPS}
ON_CUDA_ALONE = {*relax.VIRTUAL_WARPS}
NAMES = (*ALGORITHMS, *relax.VIRTUAL_WARPS)
ON_CONNECTIONS_ALONE = {"esdg"}  # these refuse a store with footpaths


def algorithms_for(store: Store) -> list[str]:
    """The algorithms that answer this store on a CPU."""
    refused = ON_CONNECTIONS_ALONE if len(store.timetable.footpaths.to) else set()
    return [name for name in ALGORITHMS if name not in refused]


class Arrivals:
    """One algorithm on one store, by name or made elsewhere. A call uses one thread, and many may be made at once."""

    def __init__(self, store: Store, algorithm: str | Kernel = DEFAULT) -> None:
        self._kernel = ALGORITHMS[algorithm](store) if isinstance(algorithm, str) else algorithm
        self.vertices = store.timetable.vertices

    def __call__(
        self, sources: Rows, leave: np.ndarray, targets: Rows | None = None, limit: np.ndarray | None = None
    ) -> np.ndarray:
        """Earliest arrivals int32[queries, vertices], `2**31 - 1` where unreachable.

        Query q starts at second `leave[q]` (int32) at the vertices `sources[1][sources[0][q] :
        sources[0][q + 1]]` (int64 offsets, uint32). An engine may stop early: labels up to second `limit[q]`
        (int32) are exact, and of `targets` (as sources) the earliest; any other is exact or too late.
        """
        count = len(leave)
        if targets is None:
            targets = np.zeros(count + 1, np.int64), np.empty(0, np.uint32)
        if limit is None:
            limit = np.full(count, NEVER, np.int32)
        out = np.empty((count, self.vertices), np.int32)
        # Neighbours in time read the same slots of the profiles.
        order = np.argsort(leave, kind="stable")
        self._kernel(Task(order, sources, leave, targets, limit, out))
        return out


def bucket_bits(least: np.ndarray) -> int:
    """Width of the queue's buckets as a power of two: about the median of the edges' least durations, so that few
    labels fall again within the bucket in which they are relaxed."""
    median = float(np.median(least)) if len(least) else 1.0
    return int(np.clip(np.log2(max(median, 1.0)), 3, 8))


def _footpaths(store: Store) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    paths = store.timetable.footpaths
    return paths.offset, paths.to, paths.seconds


def _spread(store: Store) -> int:
    """The most seconds by which a label can lie ahead of the earliest one that still waits."""
    longest = int(store.cluster_ap.duration.max(initial=0))
    walk = int(store.timetable.footpaths.seconds.max(initial=0))
    return max(store.timetable.horizon + longest, walk)


def vertices_of(store: Store, rows: np.ndarray) -> Rows:
    """The vertices that these places stand for, as an engine takes sources and targets."""
    places = store.timetable.places
    counts = np.diff(places.offset)[rows]
    offset = np.concatenate([[0], np.cumsum(counts)])
    inside = np.arange(offset[-1]) - np.repeat(offset[:-1], counts)
    return offset, places.vertex[np.repeat(places.offset[:-1][rows], counts) + inside]
