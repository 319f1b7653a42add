"""Numbers out of text columns, against regular expressions."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
from headway.kernels import text
from headway.kernels.text import BLANK, MALFORMED
from headway.pipeline.blocks import text_buffers
from headway.pipeline.times import parse_departure, show_time
from hypothesis import example, given
from hypothesis import strategies as st

TIME = re.compile(r"[ \t]*([0-9]{1,3}):([0-5][0-9]):([0-5][0-9])[ \t]*")
COUNT = re.compile(r"[ \t]*([0-9]{1,18})[ \t]*")

blanks = st.sampled_from(["", "", "", " ", "\t", " \t "])
digits = st.text("0123456789", min_size=1, max_size=4)
clocks = st.builds(
    "{}:{}:{}".format, digits, st.integers(0, 75).map("{:02}".format), st.integers(0, 75).map("{:02}".format)
)
# Whatever is nearly a time or a number: signs, other digits, characters beside 0 and 9, blanks inside.
nearly = st.text("0159:/;. \t-+eE'\"²٣é", max_size=10)
numbers = st.one_of(st.integers(0, 2**33), st.integers(0, 10**20)).map(str)
fields = st.one_of(clocks, clocks, nearly, numbers, st.just(""), st.just("1")).flatmap(
    lambda field: st.tuples(blanks, blanks).map(lambda around: around[0] + field + around[1])
)
columns = st.lists(fields, max_size=12)


def time_of(field: str) -> int:
    match = TIME.fullmatch(field)
    if match:
        hours, minutes, seconds = map(int, match.groups())
        return hours * 3600 + minutes * 60 + seconds
    return MALFORMED if field.strip(" \t") else BLANK


def count_of(field: str) -> int:
    match = COUNT.fullmatch(field)
    if match and int(match[1]) < 2**31:
        return int(match[1])
    return MALFORMED if field.strip(" \t") else BLANK


def buffers(column: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """As they come from a reader: a part of a longer column."""
    return text_buffers(pa.array(["7:00:00", *column, "8"], pa.string()).slice(1, len(column)))


@given(columns, st.randoms(use_true_random=False))
@example(["999:59:59", "0:00:00", "1000:00:00", ":00:00", "8:05", "08:05:60", "08:60:05", "8:5:00", " 8 :00:00"], None)
@example(["1/:00:00", "1;:00:00", "00:00:0/", "0 :00:00", "-1:00:00", "٣:00:00"], None)
@example(["2147483647", "2147483648", "9" * 18, "9" * 19, "0" * 18, "0" * 19, "+1", "-1", "1 1", "1.0"], None)
def test_parsers(column: list[str], rng) -> None:
    data, offsets = buffers(column)
    rows = list(range(len(column)))
    if rng:  # only some rows, in any order
        rng.shuffle(rows)
        rows = rows[: rng.randint(0, len(rows))]
    some = np.array(rows, np.int64)
    assert text.parse_times(data, offsets, some).tolist() == [time_of(column[row]) for row in rows]
    assert text.parse_counts(data, offsets, some).tolist() == [count_of(column[row]) for row in rows]
    assert text.is_one(data, offsets, some).tolist() == [column[row].strip(" \t") == "1" for row in rows]


@given(st.lists(st.integers(0, 3), max_size=20), st.lists(st.booleans(), min_size=4, max_size=4))
def test_rows_of(codes: list[int], wanted: list[bool]) -> None:
    found = text.rows_of(np.array(codes, np.int32), np.array(wanted, np.bool_))
    assert found.tolist() == [row for row, code in enumerate(codes) if wanted[code]]


@given(
    st.lists(st.tuples(fields, st.integers(0, 2)), max_size=12),
    st.lists(st.integers(0, 90 * 3600), min_size=3, max_size=3),
)
def test_mark_late(rows: list[tuple[str, int]], need: list[int]) -> None:
    """Never missed: a time at or after what is needed. Never marked: codes all of whose times are an hour before."""
    data, offsets = buffers([field for field, _ in rows])
    late = np.zeros(3, np.bool_)
    text.mark_late(data, offsets, np.array([code for _, code in rows], np.int32), np.array(need), late)
    for code in range(3):
        mine = [field for field, of in rows if of == code]
        if need[code] and any(time_of(field) >= need[code] for field in mine):
            assert late[code]
        hours = [int((re.match(r"[ \t]*([0-9]*)", field) or [""])[1] or 0) for field in mine]
        if not need[code] or all(hour * 3600 + 3599 < need[code] for hour in hours):
            assert not late[code]


def test_mark_late_keeps_what_is_marked() -> None:
    data, offsets = buffers(["1:00:00", "30:00:00"])
    late = np.array([True, False])
    text.mark_late(data, offsets, np.array([0, 1], np.int32), np.array([90000, 90000]), late)
    assert late.tolist() == [True, True]


@given(st.integers(0, 999 * 3600 + 3599))
def test_times_as_people_write_them(second: int) -> None:
    shown = show_time(second)
    assert parse_departure(shown) == second == parse_departure(f" {second} ")
    if second % 60 == 0:
        assert parse_departure(shown[:-3]) == second


@pytest.mark.parametrize("written", ["", "8", "8:5", "08:05:", "8:60", "8:05:61", "-5", "1000:00", "noon", "8.30"])
def test_departures_that_are_no_time(written: str) -> None:
    second = parse_departure(written)
    assert second == 8 if written == "8" else second < 0


@given(st.binary(max_size=300), st.integers(0, 255))
def test_bytes(data: bytes, byte: int) -> None:
    array = np.frombuffer(data, np.uint8)
    assert text.count(array, byte) == data.count(byte)
    assert text.is_ascii(array) == data.isascii()
