"""Labels of a block of threads, which its threads lower at once, and entries of its queues.

Narrow labels are 16-bit offsets from a base, two to a word of shared memory. Wide ones are seconds in device memory.
An entry is a vertex with the label that it was given: if the vertex has another by now, a later entry stands for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from numba import cuda, int32, uint32

from . import warp
from .warp import device

NEVER = 2**31 - 1
NARROW = 2**16  # vertices that an entry of narrow labels can name
ONE, LOW = uint32(1), uint32(0xFFFF)


class Labels(NamedTuple):
    """Device functions on labels (uint32 words) and what lies beside them; vertices are uint32.

    unknown                       the label of a vertex that was not reached
    get(labels, v)                its label, int32
    lower(labels, v, label, may)  lower it if one may, all lanes of a warp together; whether this lane did
    store(entries, at, v, label)  write an entry
    load(entries, at)             an entry's vertex and label
    """

    unknown: int
    get: Callable
    lower: Callable
    store: Callable
    load: Callable


def make(narrow: bool) -> Labels:
    """Labels in shared memory (`narrow`) or in device memory."""
    return _narrow() if narrow else _wide()


def _narrow() -> Labels:
    @device
    def get(labels, v):
        return int32(uint32(labels[uint32(v >> ONE)] >> uint32((v & ONE) << uint32(4))) & LOW)

    @device
    def lower(labels, v, label, may):
        pair, by = uint32(v >> ONE), uint32((v & ONE) << uint32(4))
        seen, lowered = labels[pair], False
        trying = may and label < int32(uint32(seen >> by) & LOW)
        while warp.votes(trying):  # lanes that leave a loop one by one would go on one by one
            if trying:
                new = uint32(uint32(seen & uint32(~uint32(LOW << by))) | uint32(uint32(label) << by))
                before = cuda.atomic.cas(labels, pair, seen, new)
                lowered = before == seen
                seen = before
                trying = not lowered and label < int32(uint32(seen >> by) & LOW)
        return lowered

    @device
    def store(entries, at, v, label):
        entries[at] = uint32(v | uint32(uint32(label) << uint32(16)))

    @device
    def load(entries, at):
        entry = entries[at]
        return uint32(entry & LOW), int32(entry >> uint32(16))

    return Labels(0xFFFF, get, lower, store, load)


def _wide() -> Labels:
    if warp.SIMULATED:

        @device
        def current(words, w):
            return words[w]

    else:
        from numba.cuda.cache_hints import ldcg  # pyright: ignore[reportMissingImports]  # numba-cuda's

        @device
        def current(words, w):
            return ldcg(words, w)  # atomics work in the second-level cache, which the first does not follow

    @device
    def get(labels, v):
        return int32(current(labels, v))

    @device
    def lower(labels, v, label, may):
        return may and uint32(cuda.atomic.min(labels, v, uint32(label))) > uint32(label)

    @device
    def store(entries, at, v, label):
        entries[uint32(at << ONE)] = v
        entries[uint32(uint32(at << ONE) + ONE)] = uint32(label)

    @device
    def load(entries, at):
        return entries[uint32(at << ONE)], int32(entries[uint32(uint32(at << ONE) + ONE)])

    return Labels(NEVER, get, lower, store, load)
