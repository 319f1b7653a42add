"""What the lanes of a warp do together. The CUDA simulator knows no such thing: there a warp is one thread."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import cuda, int32, int64, types, uint32

from .jit import CACHE

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
WIDTH = 1 if SIMULATED else 32
ALL = 0xFFFFFFFF

if not SIMULATED:
    from numba.cuda.core import config  # pyright: ignore[reportMissingImports]

    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # a query alone is a small grid


def jit(function: Callable[..., Any]) -> Any:
    """`cuda.jit` for a kernel, cached where those of the CPU are; numba-cuda can't do that for closures."""
    if SIMULATED:
        return cuda.jit(function)
    from numba.cuda.core import config  # pyright: ignore[reportMissingImports]

    before, config.CACHE_DIR = config.CACHE_DIR, CACHE  # read once, when the decorator runs
    try:
        return cuda.jit(cache=True)(function)
    finally:
        config.CACHE_DIR = before


device = cuda.jit(device=True) if SIMULATED else cuda.jit(device=True, forceinline=True)


def _union():
    """Device function: the bits (uint32) that any lane has. Numba has no call for this instruction."""
    from numba.cuda.extending import intrinsic

    @intrinsic
    def union(typing, value):
        def generate(context, builder, signature, args):
            word = ir.IntType(32)
            call = ir.InlineAsm(
                ir.FunctionType(word, [word]), f"redux.sync.or.b32 $0, $1, {ALL};", "=r,r", side_effect=True
            )
            return builder.call(call, args)

        return types.uint32(types.uint32), generate

    @device
    def call(value):
        return union(value)  # pyright: ignore[reportCallIssue]  # the typing context is Numba's

    return call


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
def votes(truth):
    """A bit (of a uint32) for each lane in which `truth` holds."""
    if SIMULATED:
        return uint32(1) if truth else uint32(0)
    return uint32(cuda.ballot_sync(ALL, truth))


if SIMULATED:

    @device
    def union(value):
        return value

else:
    union = _union()


@device
def before(votes):
    """How many lanes before this one have their bit in `votes`."""
    lower = uint32(uint32(uint32(1) << uint32(cuda.threadIdx.x % WIDTH)) - uint32(1))
    return int32(cuda.popc(uint32(votes & lower)))


@device
def deal(words, room, first, payload, count, lane):
    """Deal out `count` (int32) consecutive items of each lane, from `first` on, evenly over all lanes.

    Returns where the lane's items start among all, and how many there are; `dealt` says which item is whose. Both
    are left in `words` (uint32, shared memory), in the last 2 WIDTH of 8 WIDTH words from `room` on.
    """
    until = running_sum(count, lane)
    start = int32(until - count)
    owners = votes(count > 0)
    if count > 0:
        place = uint32(room + uint32(before(owners)) + uint32(6 * WIDTH))
        words[place] = uint32(first - uint32(start))
        words[uint32(place + uint32(WIDTH))] = uint32(payload)
    together()
    return start, pick(until, WIDTH - 1)


@device
def dealt(words, room, start, count, done, lane):
    """Of items dealt out, that with number `done` + lane, with its owner's payload."""
    ahead = int32(start - done)
    begins = uint32(0)
    if count > 0 and ahead >= 0 and ahead < WIDTH:
        begins = uint32(uint32(1) << uint32(ahead))
    owner = int32(cuda.popc(votes(count > 0 and ahead < 0)))
    up_to_here = uint32(uint32(uint32(2) << uint32(lane)) - uint32(1))
    owner = int32(owner + int32(cuda.popc(uint32(union(begins) & up_to_here))) - 1)
    place = uint32(room + uint32(owner) + uint32(6 * WIDTH))
    return uint32(words[place] + uint32(done + lane)), int32(words[uint32(place + uint32(WIDTH))])


@device
def places(counters, first, second, in_first, in_second):
    """Places in two lists for the lanes that want one in either: numbers from `counters`[first] or [second] on."""
    wants = in_first or in_second
    if SIMULATED:
        return uint32(cuda.atomic.add(counters, first if in_first else second, uint32(1))) if wants else uint32(0)
    firsts, seconds = votes(in_first), votes(in_second)
    at = uint32(0)
    if firsts | seconds:
        lane = uint32(cuda.threadIdx.x) % uint32(WIDTH)
        asked = int32(0)
        if lane < uint32(2):  # at once
            asked = int32(
                cuda.atomic.add(counters, second if lane else first, uint32(cuda.popc(seconds if lane else firsts)))
            )
        at = uint32(pick(asked, 0 if in_first else 1) + before(firsts if in_first else seconds))
    return at


@device
def total(value):
    """Sum of `value` (int64) over all lanes, known to all."""
    step = WIDTH >> 1
    while step:
        value = int64(value + cuda.shfl_xor_sync(ALL, value, step))
        step >>= 1
    return value
