"""Query engines by name: each computes the same arrivals from a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..kernels import baselines, label_correcting
from ..storage.store import Store

Kernel = Callable[[tuple[int, int], tuple[np.ndarray, np.ndarray], np.ndarray, np.ndarray], None]

# Queries that one thread answers in one call: enough to hide the call, few enough to share out evenly.
CHUNK = 16


def _cluster_ap(store: Store) -> Kernel:
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
    spread = _spread(store)

    def run(queries, sources, leave, out):
        label_correcting.cluster_ap(queries, edges, levels, paths, spread, sources, leave, out)

    return run


def _connection_scan(store: Store) -> Kernel:
    graph, connections = store.cluster_ap, store.connections
    edge = graph.type_edge
    per_type = np.diff(connections.offset)
    duration = np.repeat(graph.duration, per_type)
    order = baselines.scan_order(connections.departure, duration, store.timetable.horizon)
    departure = connections.departure[order]
    arrival = departure + duration[order]
    tail = np.repeat(graph.edge_from[edge], per_type)[order]
    head = np.repeat(graph.edge_to[edge], per_type)[order]
    scanned = (tail, head, departure, arrival)
    if len(store.timetable.footpaths.to):
        paths, spread = _footpaths(store), _spread(store)

        def walking(queries, sources, leave, out):
            baselines.scan_walking(queries, scanned, paths, spread, sources, leave, out)

        return walking
    groups = baselines.zero_groups(departure, arrival)

    def run(queries, sources, leave, out):
        baselines.scan(queries, scanned, groups, sources, leave, out)

    return run


ALGORITHMS: dict[str, Callable[[Store], Kernel]] = {
    "cluster-ap": _cluster_ap,
    "connection-scan": _connection_scan,
}
DEFAULT = "cluster-ap"


class Arrivals:
    """One algorithm on one store, on CPU threads."""

    def __init__(self, store: Store, algorithm: str, threads: int) -> None:
        self._kernel = ALGORITHMS[algorithm](store)
        self._vertices = store.timetable.vertices
        self._threads = threads

    def __call__(self, sources: tuple[np.ndarray, np.ndarray], leave: np.ndarray) -> np.ndarray:
        """Earliest arrivals int32[queries, vertices], `2**31 - 1` where unreachable.

        Query q starts at second `leave[q]` (int32) at the vertices `sources[1][sources[0][q] :
        sources[0][q + 1]]` (int64 offsets, uint32).
        """
        out = np.empty((len(leave), self._vertices), np.int32)
        chunks = list(_chunks(len(leave), self._threads))
        if self._threads == 1 or len(chunks) == 1:
            self._kernel((0, len(leave)), sources, leave, out)
            return out
        with ThreadPoolExecutor(self._threads) as pool:
            for done in [pool.submit(self._kernel, chunk, sources, leave, out) for chunk in chunks]:
                done.result()
        return out


def _chunks(queries: int, threads: int) -> Iterator[tuple[int, int]]:
    size = max(1, min(CHUNK, -(-queries // threads)))
    for first in range(0, queries, size):
        yield first, min(first + size, queries)


def _footpaths(store: Store) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    paths = store.timetable.footpaths
    return paths.offset, paths.to, paths.seconds


def _spread(store: Store) -> int:
    """The most seconds by which a label can lie ahead of the earliest one that still waits."""
    longest = int(store.cluster_ap.duration.max(initial=0))
    walk = int(store.timetable.footpaths.seconds.max(initial=0))
    return max(store.timetable.horizon + longest, walk)
