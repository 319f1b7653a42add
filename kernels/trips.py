"""The rules of a trip's rows, trip by trip, on integer columns."""

from __future__ import annotations

import numpy as np

from .jit import njit
from .text import BLANK, MALFORMED

# Why a trip is dropped whole; the first cause met in this order counts.
OK = 0
BAD_TIME = 1
UNKNOWN_STOP = 2
BAD_SEQUENCE = 3
REPEATED_SEQUENCE = 4
UNTIMED_END = 5
BACKWARDS = 6


@njit
def group(keys, count):
    """Stable counting sort: `keys` int[rows] in [0, count) -> offsets int64[count + 1], order int64[rows]."""
    offsets = np.zeros(count + 1, np.int64)
    for k in range(len(keys)):
        offsets[keys[k] + 1] += 1
    for k in range(count):
        offsets[k + 1] += offsets[k]
    place = offsets[:-1].copy()
    order = np.empty(len(keys), np.int64)
    for k in range(len(keys)):
        order[place[keys[k]]] = k
        place[keys[k]] += 1
    return offsets, order


@njit
def departures(offsets, vertex, runs):
    """How often a run leaves each vertex up to the largest: `vertex` uint32[rows], `runs` int64[trips] -> int64."""
    most = -1
    for row in range(len(vertex)):
        most = max(most, np.int64(vertex[row]))
    out = np.zeros(most + 1, np.int64)
    for trip in range(len(runs)):
        for row in range(offsets[trip], offsets[trip + 1] - 1):
            out[vertex[row]] += runs[trip]
    return out


@njit
def are_sorted(offsets, order, sequence):
    """Whether each group of `order` ascends by `sequence`; most feeds are sorted already."""
    for g in range(len(offsets) - 1):
        for k in range(offsets[g] + 1, offsets[g + 1]):
            if sequence[order[k]] < sequence[order[k - 1]]:
                return False
    return True


@njit
def repeats(offsets, order, sequence):
    """Rows that share trip and sequence with a neighbour -> bool[rows], by position in `order`."""
    out = np.zeros(len(order), np.bool_)
    for g in range(len(offsets) - 1):
        for k in range(offsets[g] + 1, offsets[g + 1]):
            if sequence[order[k]] == sequence[order[k - 1]]:
                out[k] = out[k - 1] = True
    return out


@njit
def clean(offsets, sequence, stop, arrival, departure, flags):
    """Apply the rules of untimed rows, interpolation and dropped trips.

    `offsets` int64[trips + 1] over rows sorted by sequence; `stop` int32 (-1 unknown), times int32 (`BLANK`,
    `MALFORMED`), all [rows], changed in place: rows that stay move to the front. Returns the offsets of what
    stays, int64[trips + 1], and the cause for each trip, uint8[trips]; a dropped trip keeps no row.
    """
    trips = len(offsets) - 1
    kept = np.zeros(trips + 1, np.int64)
    causes = np.zeros(trips, np.uint8)
    end = 0
    for trip in range(trips):
        first, last = offsets[trip], offsets[trip + 1]
        begin = end
        cause = OK
        for k in range(first, last):
            if arrival[k] == MALFORMED or departure[k] == MALFORMED:
                cause = BAD_TIME
                break
            if cause == OK and stop[k] < 0:
                cause = UNKNOWN_STOP
        if cause == OK:
            for k in range(first, last):
                if sequence[k] < 0:
                    cause = BAD_SEQUENCE
                    break
                if k > first and sequence[k] == sequence[k - 1]:
                    cause = REPEATED_SEQUENCE
                    break
        if cause == OK:
            end = _merge_runs(first, last, end, stop, arrival, departure, flags)
            cause = _fill(begin, end, arrival, departure)
        if cause != OK:
            end = begin
        causes[trip] = cause
        kept[trip + 1] = end
    return kept, causes


@njit
def _merge_runs(first, last, end, stop, arrival, departure, flags):
    """In each run of rows at one stop keep the timed ones, or the first; move what stays to `end`."""
    k = first
    while k < last:
        after = k
        timed = False
        while after < last and stop[after] == stop[k]:
            timed = timed or arrival[after] != BLANK or departure[after] != BLANK
            after += 1
        for row in range(k, after):
            if (arrival[row] != BLANK or departure[row] != BLANK) if timed else row == k:
                stop[end], flags[end] = stop[row], flags[row]
                arrival[end], departure[end] = arrival[row], departure[row]
                end += 1
        k = after
    return end


@njit
def _fill(begin, end, arrival, departure):
    """Missing times of one trip; returns the cause for which it is dropped."""
    for k in range(begin, end):
        if arrival[k] == BLANK:
            arrival[k] = departure[k]
        elif departure[k] == BLANK:
            departure[k] = arrival[k]
    if begin < end and (arrival[begin] == BLANK or arrival[end - 1] == BLANK):
        return UNTIMED_END
    before = begin
    for k in range(begin + 1, end):
        if arrival[k] == BLANK:
            continue
        if arrival[k] < departure[before]:
            return BACKWARDS
        span, hops = arrival[k] - departure[before], k - before
        for between in range(before + 1, k):
            arrival[between] = departure[before] + span * (between - before) // hops
            departure[between] = arrival[between]
        before = k
    for k in range(begin, end):
        if departure[k] < arrival[k]:
            return BACKWARDS
    return OK
