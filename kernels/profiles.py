"""Edge profiles: Pareto lists of (departure, arrival) per edge, laid out by time slot, then edge."""

from __future__ import annotations

import numpy as np

from .jit import njit


@njit
def pareto(edges, edge_type, duration, type_offset, departure, counts, leave, lasts):
    """Departures of the edges `edges` (first, after last) that no later one beats, by departure.

    `edge_type` int64[edges + 1], `duration` int32[types], `type_offset` int64[types + 1], `departure` int32.
    Writes `counts` int64[edges in range] and from 0 `leave`, `lasts` int32 with room for all; returns how many.
    """
    total = 0
    for e in range(edges[0], edges[1]):
        first, last = type_offset[edge_type[e]], type_offset[edge_type[e + 1]]
        keys = np.empty(last - first, np.int64)
        k = 0
        for i in range(edge_type[e], edge_type[e + 1]):
            for p in range(type_offset[i], type_offset[i + 1]):
                keys[k] = (np.int64(departure[p]) << 32) | duration[i]
                k += 1
        if edge_type[e + 1] - edge_type[e] > 1:
            keys.sort()
        best = np.int64(2**62)
        size = 0
        for k in range(len(keys) - 1, -1, -1):  # backwards: whatever leaves later is known
            t, lam = keys[k] >> 32, keys[k] & 0xFFFFFFFF
            if t + lam < best:
                if size and t == leave[total + size - 1]:
                    size -= 1
                leave[total + size], lasts[total + size] = t, lam
                best = t + lam
                size += 1
        leave[total : total + size] = leave[total : total + size][::-1].copy()
        lasts[total : total + size] = lasts[total : total + size][::-1].copy()
        counts[e - edges[0]] = size
        total += size
    return total


@njit
def by_slot(offset, leave, lasts, slots, slot, shift, none, index, word):
    """Lay Pareto lists out by slot, then edge; see `storage.edge_profile`.

    `offset` int64[edges + 1] into `leave`, `lasts` int32. `none` is the word with all bits set. Fills `index`
    [slots * edges + 1] and `word`, whose dtype is the word's.
    """
    edges = len(offset) - 1
    place = offset[:-1].copy()
    count = 0
    for s in range(slots):
        for e in range(edges):
            index[s * edges + e] = count
            k = place[e]
            while k < offset[e + 1] and leave[k] < (s + 1) * slot:
                word[count] = (word.dtype.type(leave[k]) << shift) | word.dtype.type(lasts[k])
                count += 1
                k += 1
            place[e] = k
            if k < offset[e + 1]:
                word[count] = (word.dtype.type(leave[k]) << shift) | word.dtype.type(lasts[k])
            else:
                word[count] = none
            count += 1
    index[slots * edges] = count
