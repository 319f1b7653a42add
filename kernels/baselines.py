"""Connection scan: one pass over all connections in order of departure (the paper's serial baseline)."""

from __future__ import annotations

import numpy as np

from . import buckets
from .jit import njit
from .levels import NEVER
from .trips import group


@njit
def scan_order(departure, duration, horizon):
    """Connections by departure, those of no duration first within a second: int64[connections].

    Zero-second connections of one second may depend on each other; all others only on labels of earlier
    seconds and on them.
    """
    keys = np.empty(len(departure), np.int64)
    for c in range(len(departure)):
        keys[c] = 2 * np.int64(departure[c]) + (duration[c] > 0)
    return group(keys, 2 * horizon)[1]


@njit
def zero_groups(departure, arrival):
    """Runs of zero-second connections of one second, in scan order: int64[groups, 2] (first, after last)."""
    out = np.empty((len(departure), 2), np.int64)
    count = 0
    k = 0
    while k < len(departure):
        after = k
        while after < len(departure) and arrival[after] == departure[k] and departure[after] == departure[k]:
            after += 1
        if after > k:
            out[count, 0], out[count, 1] = k, after
            count += 1
        k = max(after, k + 1)
    return out[:count].copy()


@njit
def scan(queries, connections, groups, sources, leave, out):
    """Earliest arrivals without walking.

    `queries` int64 (which, in order of work). `connections` (tail, head uint32, departure, arrival int32) in scan
    order, `groups` their `zero_groups`. Query q starts at second `leave[q]` (int32) from all vertices
    `sources[1][sources[0][q] : sources[0][q + 1]]` (int64 offsets, uint32). `out` int32[queries, vertices].
    """
    tail, head, departure, arrival = connections
    for q in queries:
        label = out[q]
        label[:] = NEVER
        for s in range(sources[0][q], sources[0][q + 1]):
            label[sources[1][s]] = leave[q]
        k = np.searchsorted(departure, leave[q])
        g = np.searchsorted(groups[:, 0], k)
        while k < len(tail):
            stop = groups[g, 0] if g < len(groups) else len(tail)
            for c in range(np.uint64(k), np.uint64(stop)):
                if label[tail[c]] <= departure[c] and arrival[c] < label[head[c]]:
                    label[head[c]] = arrival[c]
            k = stop
            if g < len(groups):
                k = groups[g, 1]
                changed = True
                while changed:
                    changed = False
                    for c in range(stop, k):
                        if label[tail[c]] <= departure[c] and arrival[c] < label[head[c]]:
                            label[head[c]] = arrival[c]
                            changed = True
                g += 1


@njit
def scan_walking(queries, connections, footpaths, spread, sources, leave, out):
    """Earliest arrivals with walking: footpaths are settled second by second between the connections.

    Arguments as of `scan`; `footpaths` (offset int64, to uint32, seconds int32); `spread` is the most by which
    a label can lie ahead of the second at work.
    """
    tail, goal, departure, arrival = connections
    offset, to, seconds = footpaths
    head, after, before, place = buckets.make(out.shape[1], spread + 2)
    for q in queries:
        label = out[q]
        label[:] = NEVER
        waiting = 0
        for s in range(sources[0][q], sources[0][q + 1]):
            label[sources[1][s]] = leave[q]
            waiting += buckets.put(head, after, before, place, sources[1][s], leave[q])
        second = np.int64(leave[q])
        k = np.searchsorted(departure, leave[q])
        while k < len(tail):
            now = departure[k]
            waiting = _settle(head, after, before, place, second, now, offset, to, seconds, label, waiting)
            second = np.int64(now)
            begin = k
            again = True
            while again:  # zero-second connections and zero-second footpaths feed each other
                again = False
                k = begin
                while k < len(tail) and departure[k] == now and arrival[k] == now:
                    if label[tail[k]] <= now and now < label[goal[k]]:
                        label[goal[k]] = now
                        waiting += buckets.put(head, after, before, place, goal[k], now)
                        again = True
                    k += 1
                if again:
                    waiting = _settle(head, after, before, place, second, now, offset, to, seconds, label, waiting)
            while k < len(tail) and departure[k] == now:
                if label[tail[k]] <= now and arrival[k] < label[goal[k]]:
                    label[goal[k]] = arrival[k]
                    waiting += buckets.put(head, after, before, place, goal[k], arrival[k])
                k += 1
        while waiting:
            waiting = _settle(head, after, before, place, second, second, offset, to, seconds, label, waiting)
            second += 1


@njit
def _settle(head, after, before, place, second, until, offset, to, seconds, label, waiting):
    """Walk from every vertex whose label is at most `until`; returns how many still wait."""
    while waiting and second <= until:
        v = buckets.pop(head, after, before, place, second)
        if v == buckets.NONE:
            second += 1
            continue
        waiting -= 1
        for f in range(offset[v], offset[v + 1]):
            reached = label[v] + seconds[f]
            if reached < label[to[f]]:
                label[to[f]] = reached
                waiting += buckets.put(head, after, before, place, to[f], reached)
    return waiting
