"""Where text is found among known texts, by a hash table that is made once.

A text column is Arrow's: `data` uint8[bytes], `offsets` int32[rows + 1].

Source: open addressing with linear probing; FNV-1a (Fowler, Noll, Vo), its high bits.
"""

from __future__ import annotations

import numpy as np

from .jit import njit


@njit
def _slot(data, begin, end, bits):
    value = np.uint64(0xCBF29CE484222325)
    for place in range(begin, end):
        value = (value ^ np.uint64(data[place])) * np.uint64(0x100000001B3)
    value ^= value >> np.uint64(32)
    return np.int64((value * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - bits))


@njit
def _equal(one, begin, end, other, at):
    place = begin
    while place < end and one[place] == other[at + place - begin]:
        place += 1
    return place == end


@njit
def table_of(data, offsets):
    """Row of a known text, or -1, by slot: int32[a power of two]. Of equal texts the first."""
    rows = len(offsets) - 1
    bits = 4
    while (1 << bits) < 2 * rows:
        bits += 1
    table = np.full(1 << bits, -1, np.int32)
    for row in range(rows):
        slot = _look(table, data, offsets, data, offsets[row], offsets[row + 1], bits)
        if table[slot] < 0:
            table[slot] = row
    return table


@njit
def _look(table, data, offsets, text, begin, end, bits):
    """The slot of a text, or the empty one where it would be."""
    slot = _slot(text, begin, end, bits)
    while table[slot] >= 0:
        row = table[slot]
        if offsets[row + 1] - offsets[row] == end - begin and _equal(text, begin, end, data, offsets[row]):
            return slot
        slot = (slot + 1) & (len(table) - 1)
    return slot


@njit
def find(table, data, offsets, text, text_offsets):
    """Of each text the row of the known one that equals it, or -1: int32[texts]."""
    bits = 0
    while (1 << bits) < len(table):
        bits += 1
    out = np.empty(len(text_offsets) - 1, np.int32)
    for k in range(len(out)):
        out[k] = table[_look(table, data, offsets, text, text_offsets[k], text_offsets[k + 1], bits)]
    return out
