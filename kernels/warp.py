"""What the lanes of a warp do together. The CUDA simulator knows no such thing: there a warp is one thread."""

from __future__ import annotations

import os

from numba import cuda, int32, int64, uint32

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
WIDTH = 1 if SIMULATED else 32
ALL = 0xFFFFFFFF

device = cuda.jit(device=True) if SIMULATED else cuda.jit(device=True, forceinline=True)


@device
def together():
    """Wait for all lanes, and see what they wrote."""
    if not SIMULATED:
        cuda.syncwarp(ALL)


@device
def pick(value, lane):
    """`value` (int32) of another lane."""
    if SIMULATED:
        return value
    return cuda.shfl_sync(ALL, value, lane)


@device
def running_sum(value, lane):
    """Sum of `value` (int32) over the lanes up to this one."""
    step = 1
    while step < WIDTH:
        before = cuda.shfl_up_sync(ALL, value, step)
        if lane >= step:
            value = int32(value + before)
        step *= 2
    return value


@device
def owner(sums, item):
    """The first lane whose running sum passes `item`; the last lane if none does."""
    lane = int32(0)
    step = WIDTH >> 1
    while step:
        if cuda.shfl_sync(ALL, sums, int32(lane + step - 1)) <= item:
            lane = int32(lane + step)
        step >>= 1
    return lane


@device
def votes(truth):
    """A bit (of a uint32) for each lane in which `truth` holds."""
    if SIMULATED:
        return uint32(1) if truth else uint32(0)
    return uint32(cuda.ballot_sync(ALL, truth))


@device
def before(votes):
    """How many lanes before this one have their bit in `votes`."""
    lower = uint32(uint32(uint32(1) << uint32(cuda.threadIdx.x % WIDTH)) - uint32(1))
    return int32(cuda.popc(uint32(votes & lower)))


@device
def total(value):
    """Sum of `value` (int64) over all lanes, known to all."""
    step = WIDTH >> 1
    while step:
        value = int64(value + cuda.shfl_xor_sync(ALL, value, step))
        step >>= 1
    return value
