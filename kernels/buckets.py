"""A queue of vertices in buckets of time, for labels that only fall.

Each vertex is in one bucket at most, so the queue needs a fixed amount of memory. Buckets are used in a circle:
there are more of them than the labels in the queue can spread over.
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
def put(queue, v, bucket):
    """Put vertex v into a bucket, out of the one that it is in. Returns 1 if it was in none, else 0."""
    head, after, before, place = queue
    slot = np.int32(bucket & (len(head) - 1))
    if place[v] == slot:
        return 0
    fresh = 1
    if place[v] != NONE:
        _unlink(queue, v)
        fresh = 0
    first = head[slot]
    after[v], before[v], place[v] = first, NONE, slot
    if first != NONE:
        before[first] = v
    head[slot] = v
    return fresh


@njit
def pop(queue, bucket):
    """Take a vertex out of a bucket, or `NONE` from an empty one."""
    head, after, before, place = queue
    slot = bucket & (len(head) - 1)
    v = head[slot]
    if v != NONE:
        head[slot] = after[v]
        if after[v] != NONE:
            before[after[v]] = NONE
        place[v] = NONE
    return v


@njit
def _unlink(queue, v):
    head, after, before, place = queue
    if before[v] != NONE:
        after[before[v]] = after[v]
    else:
        head[place[v]] = after[v]
    if after[v] != NONE:
        before[after[v]] = before[v]
