"""A queue of vertices in buckets of time, for labels that only fall.

Each vertex is in one bucket at most, so the queue needs a fixed amount of memory. Buckets are used in a circle:
there are more of them than the labels in the queue can spread over. Functions take the queue's four arrays one by
one: Numba counts references of arrays in a tuple at every call, which costs more than the work.
"""

from __future__ import annotations

import numpy as np

from .jit import njit

NONE = np.int32(-1)


@njit
def make(vertices, buckets):
    """An empty queue: (head int32[buckets, a power of 2], after, before, place int32[vertices])."""
    size = 1
    while size < buckets:
        size *= 2
    links = np.full((3, vertices), NONE)
    return np.full(size, NONE), links[0], links[1], links[2]


@njit
def put(head, after, before, place, v, bucket):
    """Put vertex v into a bucket, out of the one that it is in. Returns 1 if it was in none, else 0."""
    slot = np.int32(bucket & (len(head) - 1))
    if place[v] == slot:
        return 0
    fresh = 1
    if place[v] != NONE:
        _unlink(head, after, before, place, v)
        fresh = 0
    first = head[slot]
    after[v], before[v], place[v] = first, NONE, slot
    if first != NONE:
        before[first] = v
    head[slot] = v
    return fresh


@njit
def pop(head, after, before, place, bucket):
    """Take a vertex out of a bucket, or `NONE` from an empty one."""
    slot = bucket & (len(head) - 1)
    v = head[slot]
    if v != NONE:
        head[slot] = after[v]
        if after[v] != NONE:
            before[after[v]] = NONE
        place[v] = NONE
    return v


@njit
def drain(head, after, place, bucket, out):
    """Take all vertices out of a bucket into `out` int32[vertices]; returns how many."""
    slot = bucket & (len(head) - 1)
    count = 0
    v = head[slot]
    while v != NONE:
        out[count] = v
        count += 1
        place[v] = NONE
        v = after[v]
    head[slot] = NONE
    return count


@njit
def clear(head, place):
    """Empty a queue."""
    head[:] = NONE
    place[:] = NONE


@njit
def _unlink(head, after, before, place, v):
    if before[v] != NONE:
        after[before[v]] = after[v]
    else:
        head[place[v]] = after[v]
    if after[v] != NONE:
        before[after[v]] = before[v]
