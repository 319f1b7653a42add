"""Numbers out of text columns, for the rows that matter only.

A text column is Arrow's: `data` uint8[bytes], `offsets` int32[rows + 1].
"""

from __future__ import annotations

import numpy as np

from .jit import njit

BLANK = -1
MALFORMED = -2


@njit
def _trim(data, offsets, row):
    begin, end = offsets[row], offsets[row + 1]
    while begin < end and (data[begin] == 32 or data[begin] == 9):
        begin += 1
    while end > begin and (data[end - 1] == 32 or data[end - 1] == 9):
        end -= 1
    return begin, end


@njit
def parse_times(data, offsets, rows):
    """`H:MM:SS` with one to three hour digits -> seconds int32[len(rows)], `BLANK` or `MALFORMED`."""
    out = np.empty(len(rows), np.int32)
    for k in range(len(rows)):
        begin, end = _trim(data, offsets, rows[k])
        if begin == end:
            out[k] = BLANK
            continue
        hours = end - begin - 6  # digits before ":MM:SS"
        good = 1 <= hours <= 3 and data[end - 6] == 58 and data[end - 3] == 58
        seconds = 0
        if good:
            for place in range(begin, end):
                digit = data[place]
                if place == end - 6 or place == end - 3:
                    continue
                good = good and 48 <= digit <= 57
            good = good and data[end - 5] <= 53 and data[end - 2] <= 53
            for place in range(begin, end - 6):
                seconds = seconds * 10 + data[place] - 48
            seconds = seconds * 3600 + (data[end - 5] - 48) * 600 + (data[end - 4] - 48) * 60
            seconds += (data[end - 2] - 48) * 10 + data[end - 1] - 48
        out[k] = seconds if good else MALFORMED
    return out


@njit
def parse_counts(data, offsets, rows):
    """Non-negative integers below 2**31 -> int32[len(rows)], `BLANK` or `MALFORMED`."""
    out = np.empty(len(rows), np.int32)
    for k in range(len(rows)):
        begin, end = _trim(data, offsets, rows[k])
        value = np.int64(0)
        good = end - begin <= 18
        if good:
            for place in range(begin, end):
                digit = data[place]
                good = good and 48 <= digit <= 57
                value = value * 10 + digit - 48
        good = good and value < 2**31
        out[k] = BLANK if begin == end else (value if good else MALFORMED)
    return out


@njit
def parse_integers(data, offsets, out):
    """Fill `out` int64[rows]; whether every field, blanks around it aside, is `0` or `-?[1-9][0-9]{0,17}`."""
    for k in range(len(out)):
        begin, end = _trim(data, offsets, k)
        negative = begin < end and data[begin] == 45
        begin += negative
        if not 0 < end - begin <= 18 or (data[begin] == 48 and (end - begin > 1 or negative)):
            return False
        value = np.int64(0)
        for place in range(begin, end):
            digit = data[place]
            if not 48 <= digit <= 57:
                return False
            value = value * 10 + digit - 48
        out[k] = -value if negative else value
    return True


@njit
def is_one(data, offsets, rows):
    """Whether a field is exactly `1` -> bool[len(rows)]."""
    out = np.empty(len(rows), np.bool_)
    for k in range(len(rows)):
        begin, end = _trim(data, offsets, rows[k])
        out[k] = end - begin == 1 and data[begin] == 49
    return out


@njit
def rows_of(codes, wanted):
    """Rows whose code is wanted: `codes` int32[rows], `wanted` bool[codes] -> int64[...]."""
    count = 0
    for k in range(len(codes)):
        count += wanted[codes[k]]
    rows = np.empty(count, np.int64)
    count = 0
    for k in range(len(codes)):
        if wanted[codes[k]]:
            rows[count] = k
            count += 1
    return rows


@njit
def count(data, byte):
    """How often a byte is there."""
    found = 0
    for place in range(len(data)):
        found += data[place] == byte
    return found


@njit
def is_ascii(data):
    """Whether all bytes are below 128."""
    either = np.uint8(0)
    for place in range(len(data)):
        either |= data[place]
    return either < 128


@njit
def line_ends(data):
    """Where the first and the last line that end outside quotes end (0: none does), and whether a quote is open.

    A quote opens a field only at its start, blanks aside; elsewhere it is a character. A line ends after
    `\\n`, `\\r\\n` or `\\r`; a `\\r` in the last place may be half an end and is none.
    """
    first = last = 0
    begins = True  # at the start of a field
    quoted = False
    place = 0
    while place < len(data):
        byte = data[place]
        place += 1
        if quoted:
            if byte == 34:
                if place < len(data) and data[place] == 34:
                    place += 1
                else:
                    quoted = False
        elif byte == 44:
            begins = True
        elif byte == 10 or (byte == 13 and place < len(data)):
            if byte == 13 and data[place] == 10:
                place += 1
            begins = True
            last = place
            first = first or last
        elif begins and byte == 34:
            quoted = True
            begins = False
        elif byte != 32 and byte != 9:
            begins = False
    return first, last, quoted


@njit
def mark_late(data, offsets, codes, need, late):
    """Set `late[code]` where a time of the code's rows may be at or after `need[code]` seconds (if not 0).

    Only the hours are read: a trip of earlier dates matters only by hours far past 24.
    """
    for row in range(len(codes)):
        bound = need[codes[row]]
        if bound == 0 or late[codes[row]]:
            continue
        begin, end = _trim(data, offsets, row)
        hours = 0
        while begin < end and 48 <= data[begin] <= 57 and hours < 1000:
            hours = hours * 10 + data[begin] - 48
            begin += 1
        if hours * 3600 + 3599 >= bound:
            late[codes[row]] = True
