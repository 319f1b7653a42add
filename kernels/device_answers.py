"""What a block writes when a query's labels are settled: arrivals by place, one destination's, or what is reached."""

from __future__ import annotations

from numba import cuda, int32, int64, uint32, uint64

from . import warp
from .device_labels import NEVER
from .warp import WIDTH, device


def make(kind, second_of):
    """Device functions: the earliest arrival at some vertices; writing row `r` of `kind`, `arrivals`, `od` or `reach`.

    `second_of(labels, kept, control, v)` is a vertex's arrival.
    """

    @device
    def earliest(labels, kept, control, some, vertex):
        """The earliest arrival at `some` vertices (uint64): where in `vertex` and how many, or the only one."""
        i, count = uint32(some), uint32(some >> uint64(32))
        if count == uint32(1):
            return second_of(labels, kept, control, i)
        best = int32(NEVER)
        end = uint32(i + count)
        while i < end:
            best = min(best, second_of(labels, kept, control, vertex[i]))
            i = uint32(i + uint32(1))
        return best

    @device
    def arrivals(
        labels,
        kept,
        control,
        start,
        size,
        place,
        place_vertex,
        target,
        target_vertex,
        q,
        r,
        cutoffs,
        weights,
        out,
        sums,
    ):
        p = uint32(cuda.threadIdx.x)
        while p < uint32(place.size):
            out[r, p] = earliest(labels, kept, control, place[p], place_vertex)
            p = uint32(p + size)

    @device
    def od(
        labels,
        kept,
        control,
        start,
        size,
        place,
        place_vertex,
        target,
        target_vertex,
        q,
        r,
        cutoffs,
        weights,
        out,
        sums,
    ):
        if cuda.threadIdx.x == 0:
            out[r, 0] = earliest(labels, kept, control, target[q], target_vertex)

    @device
    def reach(
        labels,
        kept,
        control,
        start,
        size,
        place,
        place_vertex,
        target,
        target_vertex,
        q,
        r,
        cutoffs,
        weights,
        out,
        sums,
    ):
        # Column 0 counts stops, column c sums their weights c - 1. Lane k adds up for cut-off `some` + k.
        count, columns = cutoffs.size, weights.shape[1]
        tid, lane = uint32(cuda.threadIdx.x), int32(cuda.threadIdx.x % WIDTH)
        i = tid
        while i < uint32(count):
            out[r, i] = int32(0)
            for c in range(columns):
                sums[r, i, c] = int64(0)
            i = uint32(i + size)
        cuda.syncthreads()
        stops = uint32(weights.shape[0])
        for c in range(columns + 1):
            some = 0
            while some < count:
                within = int64(0)
                first = uint32(0)
                while first < stops:
                    p = uint32(first + tid)
                    best = int32(NEVER)
                    if p < stops:
                        best = earliest(labels, kept, control, place[p], place_vertex)
                    for k in range(some, min(some + WIDTH, count)):
                        hit = best != NEVER and int32(best - start) <= cutoffs[k]
                        amount = int64(cuda.popc(warp.votes(hit)))
                        if amount and c:
                            amount = warp.total(weights[p, c - 1] if hit else int64(0))
                        if lane == k - some:
                            within = int64(within + amount)
                    first = uint32(first + size)
                k = some + lane
                if k < count:
                    if c == 0:
                        cuda.atomic.add(out, (r, k), int32(within))
                    else:
                        cuda.atomic.add(sums, (r, k, c - 1), within)
                some += WIDTH

    return earliest, {"arrivals": arrivals, "od": od, "reach": reach}[kind]
