"""Connections of a store in the orders in which the scans take them: by departure, and by level of dependency."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..kernels import baselines
from ..kernels import dependency_graph as kernel
from ..kernels.trips import group
from ..storage.errors import HeadwayError
from ..storage.store import Store


@dataclass(frozen=True)
class Ordered:
    """`edge` uint32, `departure`, `arrival` int32 [connections] by departure, within a second those of no duration
    first."""

    edge: np.ndarray
    departure: np.ndarray
    arrival: np.ndarray


@dataclass(frozen=True)
class Levels:
    """Connections by level of the edge-scan-dependency graph, within a level by departure.

    tail, head          uint32[connections]
    departure, arrival  int32[connections]
    offset              int64[levels + 1]: connections of level l are offset[l] : offset[l + 1]
    cyclic              bool[levels]: whether zero-second connections of the level form a cycle
    """

    tail: np.ndarray
    head: np.ndarray
    departure: np.ndarray
    arrival: np.ndarray
    offset: np.ndarray
    cyclic: np.ndarray


def by_departure(store: Store) -> Ordered:
    """All connections, in the order of connection scan."""
    graph, connections = store.cluster_ap, store.connections
    per_type = np.diff(connections.offset)
    duration = np.repeat(graph.duration, per_type)
    order = baselines.scan_order(connections.departure, duration, store.timetable.horizon)
    departure = connections.departure[order]
    edge = np.repeat(graph.type_edge.astype(np.uint32), per_type)
    return Ordered(edge[order], departure, departure + duration[order])


def by_level(store: Store) -> Levels:
    """All connections by level. Raises `HeadwayError` for a store with footpaths."""
    refuse_walking(store, "the edge-scan-dependency graph")
    graph, found = store.cluster_ap, by_departure(store)
    tail, head = graph.edge_from[found.edge], graph.edge_to[found.edge]
    role = kernel.roles(len(graph.edge_to), found.edge, found.departure, found.arrival)
    zero = np.flatnonzero(found.departure == found.arrival)
    cycle = _cycles(tail[zero], head[zero], found.departure[zero], store.timetable.vertices)
    level = kernel.levels(
        graph.vertex_edge,
        graph.edge_to,
        found.edge,
        found.departure,
        found.arrival,
        role,
        cycle,
        store.timetable.horizon,
    )
    levels = int(level.max()) + 1
    cyclic = np.zeros(levels, np.bool_)
    cyclic[level[zero[cycle != kernel.NO_CYCLE]]] = True
    offset, order = group(level, levels)
    return Levels(tail[order], head[order], found.departure[order], found.arrival[order], offset, cyclic)


def refuse_walking(store: Store, what: str) -> None:
    """Raises `HeadwayError` for a store with footpaths."""
    if len(store.timetable.footpaths.to):
        raise HeadwayError(
            f"{what} is defined on connections alone, and this store has footpaths; build one with --walk none"
        )


def _cycles(tail: np.ndarray, head: np.ndarray, second: np.ndarray, vertices: int) -> np.ndarray:
    """Which cycle each zero-second connection is in, or `NO_CYCLE`: int32[zero-second connections]."""
    if len(second) == 0:
        return np.empty(0, np.int32)
    base = second.astype(np.int64) * vertices
    node = np.unique(np.concatenate([base + tail, base + head]), return_inverse=True)[1]
    one, other = np.split(node, 2)
    links = coo_array((np.ones(len(one), np.bool_), (one, other)), shape=(node.max() + 1,) * 2)
    number = connected_components(links, connection="strong")[1]
    return np.where(number[one] == number[other], number[one], kernel.NO_CYCLE).astype(np.int32)
