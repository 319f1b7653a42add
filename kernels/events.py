"""Events to DT-CSR on the CPU: stable radix sorting, the next occurrence of a pair, presences from changes."""

from __future__ import annotations

import numpy as np

from .jit import njit

DIGIT = 11  # bits: counters of a pass stay in the first-level cache
NEVER = 2**32 - 1


@njit
def radix_sort(key, order, bits):
    """Sort `key` uint64[n] of so many bits, stably, and `order` uint32[n] along with it; both are overwritten.

    Returns the order.
    """
    n = len(key)
    other_key, other_order = np.empty_like(key), np.empty_like(order)
    mask = np.uint64((1 << DIGIT) - 1)
    for first in range(0, bits, DIGIT):
        shift = np.uint64(first)
        place = np.zeros(1 << DIGIT, np.int64)
        for i in range(n):
            place[(key[i] >> shift) & mask] += 1
        if n == 0 or place.max() == n:
            continue
        total = 0
        for digit in range(1 << DIGIT):
            count = place[digit]
            place[digit] = total
            total += count
        for i in range(n):
            digit = (key[i] >> shift) & mask
            other_key[place[digit]] = key[i]
            other_order[place[digit]] = order[i]
            place[digit] += 1
        key, other_key = other_key, key
        order, other_order = other_order, order
    return order


@njit
def next_ticks(row_offset, starts, ticks, columns, out):
    """Fill `out` uint32[M]: the tick of the pair's next event in the (row, tick, column) order, or NEVER.

    `row_offset` uint32[N + 1] into entries, which start at `starts` uint32[K + 1] and have `ticks` uint32[K];
    `columns` uint32[M], all below N.
    """
    nodes = len(row_offset) - 1
    seen, of_row = np.empty(nodes, np.uint32), np.zeros(nodes, np.uint32)
    for row in range(nodes):
        for entry in range(np.int64(row_offset[row + 1]) - 1, np.int64(row_offset[row]) - 1, -1):
            for i in range(np.int64(starts[entry + 1]) - 1, np.int64(starts[entry]) - 1, -1):
                column = columns[i]
                out[i] = seen[column] if of_row[column] == row + 1 else NEVER
                seen[column], of_row[column] = ticks[entry], row + 1


@njit
def presences(new_pair, tick, insert, value, event, begin, end, held):
    """Ticks [begin, end) at which pairs are present, from changes sorted by pair, then time.

    `new_pair` bool[M] marks a pair's first change, `tick` uint32, `insert` bool (or a deletion), `value` float64. What
    is so at the end of a tick counts; a presence ends where the value changes. Fills `event` int64 (a change of that
    pair), `begin`, `end` uint32 and `held` float64 with room for M. Returns how many presences, deletions of pairs
    that were absent, and insertions of pairs that were present.
    """
    count, absent, present = 0, 0, 0
    was, now, current = False, False, 0.0
    for i in range(len(tick)):
        if new_pair[i]:
            was, now = False, False
        if insert[i]:
            present += now
            now, current = True, value[i]
        else:
            absent += not now
            now = False
        if i + 1 < len(tick) and not new_pair[i + 1] and tick[i + 1] == tick[i]:
            continue
        if was and not (now and held[count - 1] == current):
            end[count - 1] = tick[i]
            was = False
        if now and not was:
            event[count], begin[count], end[count], held[count] = i, tick[i], NEVER, current
            count += 1
        was = now
    return count, absent, present
