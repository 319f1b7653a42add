"""Exact cover of a cluster's departures by few arithmetic progressions.

Greedy: the progression that covers most departures not yet covered, overlaps allowed, then the next; what is
left goes in pairs (two departures are a progression). Only maximal progressions are candidates, since a part of
one covers no more. Their counts only fall, so a candidate is counted again only while its last count could
win. Source for the use of progressions: the paper's Connection-type-ap and Cluster-ap algorithms.
"""

from __future__ import annotations

import numpy as np

from .few import cover_few
from .jit import njit

# Above this many departures in one cluster, the candidates of the greedy cover (they grow with the square) are
# too many.
ALL_CANDIDATES = 400
FEWER = 8  # departures from which on it is slower to count candidates anew than to keep their counts


@njit
def cover_types(types, offset, departure, width, present, out):
    """Clusters and progressions of the types `types` (first, after last).

    `offset` int64[types + 1] into `departure` int32, sorted in each type. `present` bool[width + 1], all false,
    is scratch. `out` is a tuple with room for all: clusters_of_type int64[types], cluster_number uint16,
    cluster_count int64, start, end, step int32. Returns (clusters, progressions) written from 0.
    """
    clusters_of_type, cluster_number, cluster_count, start, end, step = out
    clusters = 0
    total = 0
    for i in range(types[0], types[1]):
        p = offset[i]
        while p < offset[i + 1]:
            number = departure[p] // width
            q = p
            while q < offset[i + 1] and departure[q] < (number + 1) * width:
                q += 1
            count = cover(departure[p:q], number * width, present, start[total:], end[total:], step[total:])
            cluster_number[clusters] = number
            cluster_count[clusters] = count
            clusters_of_type[i - types[0]] += 1
            clusters += 1
            total += count
            p = q
    return clusters, total


@njit
def cover(terms, base, present, start, end, step):
    """Cover the sorted, distinct `terms` int32[n]; returns how many progressions, sorted by first term.

    `present` is all false, indexed by term - base, and left so.
    """
    n = len(terms)
    if n > FEWER:
        return cover_many(terms, base, present, start, end, step)
    cover_few(terms, 0, n, end, step)
    used = 0
    for k in range(n):
        if step[k]:
            start[used], end[used], step[used] = terms[k], end[k], step[k]
            used += 1
    return used


@njit
def cover_many(terms, base, present, start, end, step):
    """`cover` for any number of terms from 3 on."""
    n = len(terms)
    for k in range(n):
        present[terms[k] - base] = True
    # `open_` says of each second of the cluster whether a departure there is not covered yet.
    open_ = present[: terms[n - 1] - base + 1].copy()
    if n <= ALL_CANDIDATES:
        used = _greedy(terms, base, present, open_, start, end, step)
    else:
        used = _from_first(terms, base, present, open_, start, end, step)
    used = _pairs(terms, base, open_, used, start, end, step)
    for k in range(n):
        present[terms[k] - base] = False
    _sort(used, start, end, step)
    return used


@njit
def _greedy(terms, base, present, open_, start, end, step):
    """Always the progression that covers most, down to three terms; returns how many were taken."""
    last = terms[-1]
    firsts, steps, counts = _candidates(terms, base, present)
    used = 0
    while True:
        best, which = 2, -1
        for c in range(len(firsts)):
            if counts[c] > best:
                counts[c] = _uncovered(firsts[c], steps[c], base, last, present, open_)
                if counts[c] > best:
                    best, which = counts[c], c
        if which < 0:
            return used
        _take(firsts[which], steps[which], base, last, present, open_, start, end, step, used)
        used += 1


@njit
def _candidates(terms, base, present):
    """All maximal progressions of three terms and more: first term, step, length."""
    n = len(terms)
    firsts = np.empty(n * n // 2, np.int32)
    steps = np.empty(n * n // 2, np.int32)
    counts = np.empty(n * n // 2, np.int32)
    size = 0
    last = terms[n - 1]
    for i in range(n - 2):
        for j in range(i + 1, n - 1):
            d = terms[j] - terms[i]
            if terms[j] + d > last:
                break
            if not present[terms[j] + d - base] or (terms[i] - d >= base and present[terms[i] - d - base]):
                continue
            firsts[size], steps[size] = terms[i], d
            counts[size] = _uncovered(terms[i], d, base, last, present, present)
            size += 1
    return firsts[:size], steps[:size], counts[:size]


@njit
def _from_first(terms, base, present, open_, start, end, step):
    """From front to back, the longest progression that starts at each departure not yet covered."""
    last = terms[-1]
    used = 0
    for i in range(len(terms)):
        if not open_[terms[i] - base]:
            continue
        best, best_step = 2, 0
        for j in range(i + 1, len(terms)):
            d = terms[j] - terms[i]
            if (last - terms[i]) // d + 1 <= best:
                break
            count = _uncovered(terms[i], d, base, last, present, open_)
            if count > best:
                best, best_step = count, d
        if best_step:
            _take(terms[i], best_step, base, last, present, open_, start, end, step, used)
            used += 1
    return used


@njit
def _uncovered(first, d, base, last, present, open_):
    count = 0
    t = first
    while t <= last and present[t - base]:
        count += open_[t - base]
        t += d
    return count


@njit
def _take(first, d, base, last, present, open_, start, end, step, used):
    """Cover by one progression, without the covered terms at its ends."""
    t = first
    begin, finish = -1, -1
    while t <= last and present[t - base]:
        if open_[t - base]:
            open_[t - base] = False
            if begin < 0:
                begin = t
            finish = t
        t += d
    start[used], end[used], step[used] = begin, finish, d


@njit
def _pairs(terms, base, open_, used, start, end, step):
    """Neighbours among what is left, two and two."""
    waiting = -1
    for k in range(len(terms)):
        if not open_[terms[k] - base]:
            continue
        if waiting < 0:
            waiting = terms[k]
            start[used], end[used], step[used] = waiting, waiting, 1
            used += 1
        else:
            end[used - 1], step[used - 1] = terms[k], terms[k] - waiting
            waiting = -1
    return used


@njit
def _sort(used, start, end, step):
    """Insertion sort by (start, step); a cluster has few."""
    for k in range(1, used):
        s, e, d = start[k], end[k], step[k]
        j = k - 1
        while j >= 0 and (start[j] > s or (start[j] == s and step[j] > d)):
            start[j + 1], end[j + 1], step[j + 1] = start[j], end[j], step[j]
            j -= 1
        start[j + 1], end[j + 1], step[j + 1] = s, e, d
