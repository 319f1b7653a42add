"""From labels of vertices to what a query asks for."""

from __future__ import annotations

import numpy as np

from .jit import njit
from .levels import NEVER


@njit
def by_place(labels, offset, vertex):
    """Earliest label of each place's vertices: int32[queries, places], `NEVER` for a place without any.

    `labels` int32[queries, vertices]; place p has `vertex[offset[p] : offset[p + 1]]` (int64, uint32).
    """
    out = np.empty((labels.shape[0], len(offset) - 1), np.int32)
    for q in range(labels.shape[0]):
        for p in range(len(offset) - 1):
            best = NEVER
            for k in range(offset[p], offset[p + 1]):
                best = min(best, labels[q, vertex[k]])
            out[q, p] = best
    return out


@njit
def reach(arrivals, leave, cutoffs, weights, stops, sums):
    """Stops within each cut-off and the sums of their weights.

    `arrivals` int32[queries, stops or more], `leave` int32[queries], `cutoffs` int32 seconds, `weights` int64[stops,
    columns]. Fills `stops` int32[queries, cutoffs] and `sums` int64[queries, cutoffs, columns].
    """
    for q in range(arrivals.shape[0]):
        for c in range(len(cutoffs)):
            stops[q, c] = 0
            sums[q, c] = 0
            for p in range(weights.shape[0]):
                if arrivals[q, p] != NEVER and arrivals[q, p] - leave[q] <= cutoffs[c]:
                    stops[q, c] += 1
                    for w in range(weights.shape[1]):
                        sums[q, c, w] += weights[p, w]
