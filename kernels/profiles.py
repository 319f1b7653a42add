"""Edge profiles: Pareto lists of (departure, arrival) per edge, laid out by time slot, then edge."""

from __future__ import annotations

import numpy as np

from .jit import njit


@njit
def pareto(offset, departure, duration, counts, leave, lasts):
    """Departures of each edge that no later one beats, by departure.

    Edge e has `departure`, `duration` int32[offset[e] : offset[e + 1]] (int64[edges + 1]), sorted by both.
    Writes `counts` int64[edges] and from 0 `leave`, `lasts` int32 with room for all; returns how many.
    """
    total = 0
    keep = np.zeros(len(departure), np.bool_)
    for e in range(len(offset) - 1):
        mark_best(offset[e], offset[e + 1], departure, duration, keep)
        before = total
        for k in range(offset[e], offset[e + 1]):
            if keep[k]:
                leave[total], lasts[total] = departure[k], duration[k]
                total += 1
        counts[e] = total - before
    return total


@njit
def mark_best(first, after, departure, duration, keep):
    """Mark in `keep` (bool, all false) the departures of one edge, `first` up to `after`, that `pareto` finds."""
    best = np.int64(2**62)
    for k in range(after - 1, first - 1, -1):  # backwards: whatever leaves later is known
        arrival = np.int64(departure[k]) + duration[k]
        if arrival < best:
            best = arrival
            keep[k] = True
            if k + 1 < after and departure[k + 1] == departure[k]:
                keep[k + 1] = False


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
