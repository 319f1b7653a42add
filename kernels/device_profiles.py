"""Edge profiles on a GPU: a thread an edge, then a thread for each slot of an edge."""

from __future__ import annotations

from numba import cuda, int64

from .levels import seek
from .profiles import mark_best
from .warp import device, jit

_mark_best = device(mark_best.py_func)
_seek = device(seek.py_func)


@jit
def mark(begin, departure, duration, keep):
    """`profiles.mark_best` for each edge, whose connections are `begin[e] : begin[e + 1]` (int64[edges + 1])."""
    e = int64(cuda.grid(1))
    if e < len(begin) - 1:
        _mark_best(begin[e], begin[e + 1], departure, duration, keep)


@jit
def count(offset, leave, slots, slot, counts):
    """How many words each group of `profiles.by_slot` has: `counts` int64[slots * edges]."""
    group, edges = int64(cuda.grid(1)), int64(len(offset) - 1)
    if group < slots * edges:
        s, e = group // edges, group % edges
        first = _seek(leave, offset[e], offset[e + 1], s * slot)
        counts[group] = _seek(leave, first, offset[e + 1], (s + 1) * slot) - first + 1


@jit
def by_slot(offset, leave, lasts, slots, slot, shift, none, index, word):
    """The words of `profiles.by_slot`, whose `index` is given."""
    group, edges = int64(cuda.grid(1)), int64(len(offset) - 1)
    if group < slots * edges:
        s, e = group // edges, group % edges
        k = _seek(leave, offset[e], offset[e + 1], s * slot)
        for at in range(index[group], index[group + 1]):
            if k < offset[e + 1]:
                word[at] = (word.dtype.type(leave[k]) << shift) | word.dtype.type(lasts[k])
            else:
                word[at] = none
            k += 1
