"""Labels of a block of threads, which its threads lower at once.

Narrow labels are 16-bit offsets from a base, two to a word of shared memory. Wide ones are seconds in device memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from numba import cuda, int32, uint32

from . import warp
from .warp import device

NEVER = 2**31 - 1
ONE, LOW = uint32(1), uint32(0xFFFF)


class Labels(NamedTuple):
    """Device functions on labels (uint32 words) and what lies beside them; vertices are uint32.

    unknown                   the label of a vertex that was not reached
    get(labels, v)            its label, int32
    lower(labels, v, label)   lower it; whether this thread did
    load(words, w)            a word that other threads write
    """

    unknown: int
    get: Callable
    lower: Callable
    load: Callable


def make(narrow: bool) -> Labels:
    """Labels in shared memory (`narrow`) or in device memory."""
    if narrow or warp.SIMULATED:

        @device
        def load(words, w):
            return words[w]

    else:
        from numba.cuda.cache_hints import ldcg  # pyright: ignore[reportMissingImports]  # numba-cuda's

        @device
        def load(words, w):
            return ldcg(words, w)  # atomics work in the second-level cache, which the first does not follow

    if narrow:

        @device
        def get(labels, v):
            return int32(uint32(labels[uint32(v >> ONE)] >> uint32((v & ONE) << uint32(4))) & LOW)

        @device
        def lower(labels, v, label):
            pair, by = uint32(v >> ONE), uint32((v & ONE) << uint32(4))
            seen = labels[pair]
            while label < int32(uint32(seen >> by) & LOW):
                new = uint32(uint32(seen & uint32(~uint32(LOW << by))) | uint32(uint32(label) << by))
                before = cuda.atomic.cas(labels, pair, seen, new)
                if before == seen:
                    return True
                seen = before
            return False

        return Labels(0xFFFF, get, lower, load)

    @device
    def get_wide(labels, v):
        return int32(load(labels, v))

    @device
    def lower_wide(labels, v, label):
        return uint32(cuda.atomic.min(labels, v, uint32(label))) > uint32(label)

    return Labels(NEVER, get_wide, lower_wide, load)
