"""Numbers of vertices: what is joined by connections and footpaths lies close together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from ..storage.timetable import Footpaths, Timetable, Trips


def hops(trips: Trips) -> tuple[np.ndarray, np.ndarray]:
    """Neighbouring positions of all trips, as vertices."""
    last = np.zeros(len(trips.vertex) + 1, np.bool_)
    last[trips.offset - 1] = True
    inside = ~last[: max(0, len(trips.vertex) - 1)]
    return trips.vertex[:-1][inside], trips.vertex[1:][inside]


def order(timetable: Timetable, tail: np.ndarray, head: np.ndarray) -> tuple[np.ndarray, int]:
    """New number of each vertex, uint32[vertices], by reverse Cuthill-McKee; connected components."""
    n = timetable.vertices
    walkers = np.repeat(np.arange(n), np.diff(timetable.footpaths.offset))
    u = np.concatenate([tail.astype(np.int64), walkers])
    v = np.concatenate([head.astype(np.int64), timetable.footpaths.to.astype(np.int64)])
    pairs = np.unique(np.minimum(u, v) * n + np.maximum(u, v))
    u, v = pairs // n, pairs % n
    ends = (np.concatenate([u, v]), np.concatenate([v, u]))
    graph = coo_array((np.ones(2 * len(pairs), np.int8), ends), shape=(n, n)).tocsr()
    number = np.empty(n, np.uint32)
    number[reverse_cuthill_mckee(graph, symmetric_mode=True)] = np.arange(n, dtype=np.uint32)
    return number, int(connected_components(graph, directed=False, return_labels=False))


def renumber(timetable: Timetable, number: np.ndarray) -> Timetable:
    """The timetable with a new number (uint32) for each vertex."""
    places = replace(timetable.places, vertex=number[timetable.places.vertex])
    trips = replace(timetable.trips, vertex=number[timetable.trips.vertex])
    walks = timetable.footpaths
    tail = np.repeat(number, np.diff(walks.offset))
    head = number[walks.to]
    by_ends = np.lexsort((head, tail))
    offset = np.searchsorted(tail[by_ends], np.arange(timetable.vertices + 1))
    walks = Footpaths(offset.astype(np.int64), head[by_ends], walks.seconds[by_ends])
    return replace(timetable, places=places, trips=trips, footpaths=walks)
