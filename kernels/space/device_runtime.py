"""What generated CUDA kernels call beside: sums over lanes. Only they import CUDA's packages."""

from __future__ import annotations

import numpy as np
from numba import cuda, uint32

from .. import grid, warp
from .runtime import lower, upper


@cuda.jit
def fill(array, value):
    """All entries of a device's array."""
    for p in range(cuda.grid(1), array.size, cuda.gridsize(1)):
        array[p] = value


@warp.device
def lane_mask(width):
    """The lanes of this one's row."""
    if width == 32:
        return uint32(warp.ALL)
    return uint32(((uint32(1) << width) - uint32(1)) << (uint32(cuda.threadIdx.x) & uint32(warp.WIDTH - width)))


@warp.device
def row_add(value, width):
    """Sum of `value` over the `width` lanes of a row."""
    step = width >> 1
    while step:
        value += cuda.shfl_xor_sync(lane_mask(width), value, step)
        step >>= 1
    return value


@warp.device
def row_min(value, width):
    step = width >> 1
    while step:
        value = min(value, cuda.shfl_xor_sync(lane_mask(width), value, step))
        step >>= 1
    return value


@warp.device
def row_or(value, width):
    """Whether `value` holds in any lane of a row."""
    if width == 1:
        return value
    return cuda.ballot_sync(lane_mask(width), value) & lane_mask(width) != 0


@warp.device
def segment_add(array, at, row, value, count):
    """Add the values of `count` lanes to `array`: neighbours of one row are summed, the last one of them adds."""
    lane = cuda.threadIdx.x % warp.WIDTH
    active = warp.ALL if count >= warp.WIDTH else (1 << count) - 1
    row = np.int64(row)
    step = 1
    while step < warp.WIDTH:
        before, whose = cuda.shfl_up_sync(active, value, step), cuda.shfl_up_sync(active, row, step)
        if lane >= step and whose == row:
            value += before
        step <<= 1
    after = cuda.shfl_down_sync(active, row, 1) if warp.WIDTH > 1 else row  # by all lanes, also the last
    if lane == warp.WIDTH - 1 or lane >= count - 1 or after != row:
        cuda.atomic.add(array, at, value)


@warp.device
def lanes_of(rows):
    """How many lanes of a warp share a row, as the exponent of a power of two: as many as keep a block at work."""
    found = 0
    while 1 << found < warp.WIDTH and rows << found + 1 <= cuda.blockDim.x:
        found += 1
    return found


@warp.device
def term_at_once(start, step, earliest):
    """`term` without a branch: a GPU loads at once what it reads, and would wait for one load after the other."""
    gap = np.int64(earliest) - np.int64(start) + np.int64(step) - 1
    return np.int64(start) + max(gap, 0) // np.int64(step) * np.int64(step)


GPU = {
    "lower": warp.device(lower), "upper": warp.device(upper), "term": term_at_once,
    "cuda": cuda,
    "row_add": row_add, "row_min": row_min, "row_or": row_or,
    "segment_add": segment_add, "lanes_of": lanes_of, "int64": np.int64,
}  # fmt: skip
# And those of rounds.
GRID = {"fresh": grid.fresh, "any_fell": grid.any_fell, "tell": grid.tell, "LATEST": grid.LATEST}
