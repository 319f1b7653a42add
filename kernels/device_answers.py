"""What a block writes when a query's labels are settled: arrivals by place, one destination's, or what is reached."""

from __future__ import annotations

from numba import cuda, int32, int64, uint32

from . import warp
from .device_labels import NEVER
from .warp import WIDTH, device


def make(kind, second_of):
    """Device function that writes row `r` of the answer `kind`, one of `arrivals`, `od`, `reach`.

    `second_of(labels, scratch, vertices, control, v)` is a vertex's arrival.
    """

    @device
    def earliest(labels, scratch, vertices, control, offset, vertex, p):
        """Arrival at place p: the earliest of its vertices."""
        i, end = offset[p], offset[p + uint32(1)]
        best = int32(NEVER)
        while i < end:
            best = min(best, second_of(labels, scratch, vertices, control, vertex[i]))
            i = uint32(i + uint32(1))
        return best

    @device
    def arrivals(
        labels,
        scratch,
        vertices,
        control,
        start,
        size,
        place_offset,
        place_vertex,
        target_offset,
        target,
        q,
        r,
        cutoffs,
        weights,
        out,
        sums,
    ):
        p = uint32(cuda.threadIdx.x)
        while p < uint32(place_offset.size - 1):
            out[r, p] = earliest(labels, scratch, vertices, control, place_offset, place_vertex, p)
            p = uint32(p + size)

    @device
    def od(
        labels,
        scratch,
        vertices,
        control,
        start,
        size,
        place_offset,
        place_vertex,
        target_offset,
        target,
        q,
        r,
        cutoffs,
        weights,
        out,
        sums,
    ):
        if cuda.threadIdx.x == 0:
            out[r, 0] = earliest(labels, scratch, vertices, control, target_offset, target, q)

    @device
    def reach(
        labels,
        scratch,
        vertices,
        control,
        start,
        size,
        place_offset,
        place_vertex,
        target_offset,
        target,
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
                        best = earliest(labels, scratch, vertices, control, place_offset, place_vertex, p)
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

    return {"arrivals": arrivals, "od": od, "reach": reach}[kind]
