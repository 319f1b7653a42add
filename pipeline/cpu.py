"""Queries on the threads of a CPU, or on a GPU that finds labels only."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..kernels import answers as kernel
from ..storage.store import Store
from .asked import Answer
from .engines import DEFAULT, Arrivals, Kernel, Piece, Result, vertices_of
from .query_file import Queries

# Labels of one piece, queries x vertices; as many again by place, and of arrivals up to five times that in rows.
CELLS = 500_000
# Queries of one piece where each gives few rows: enough to hide the call, few enough that progress is seen.
FEWEST, MOST = 16, 512


class CpuEngine:
    """One algorithm on one store; pieces may be computed on many threads at once."""

    keeps_order = False  # neighbours in time read the same slots of the profiles: give it queries in that order

    def __init__(self, store: Store, algorithm: str | Kernel = DEFAULT) -> None:
        self._store, self._labels = store, Arrivals(store, algorithm)

    def pieces(self, queries: Queries, asked: Answer) -> Iterator[Piece]:
        """Queries in pieces of bounded size, each with the call that computes it."""
        size = CELLS // max(1, self._store.timetable.vertices)
        size = max(1, size) if asked.kind == "arrivals" else min(max(size, FEWEST), MOST)
        for first in range(0, len(queries), size):
            some = queries.take(slice(first, first + size))
            yield some, lambda some=some: self._compute(some, asked)

    def _compute(self, some: Queries, asked: Answer) -> Result:
        places = self._store.timetable.places
        targets = vertices_of(self._store, some.destination) if asked.kind == "od" else None
        limit = some.departure + asked.cutoffs.max() if asked.kind == "reach" else None
        labels = self._labels(vertices_of(self._store, some.origin), some.departure, targets, limit)
        # A station without stops reaches nothing, and nothing else starts at no vertex.
        by_place = kernel.by_place(labels, places.offset, places.vertex)
        if asked.kind == "arrivals":
            return by_place
        if asked.kind == "od":
            return by_place[np.arange(len(some)), some.destination]
        reached = np.empty((len(some), len(asked.cutoffs)), np.int32)
        sums = np.empty((*reached.shape, len(asked.weights.names)), np.int64)
        kernel.reach(by_place, some.departure, asked.cutoffs, asked.weights.by_stop(places.stops), reached, sums)
        return reached, sums
