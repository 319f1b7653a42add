"""Times of day as people write them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..kernels import text
from .blocks import text_buffers, trimmed


def parse_departures(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Seconds, or `H:MM[:SS]`, as text -> int32[rows]; negative where it is neither."""
    texts = pc.fill_null(trimmed(column.cast(pa.string())), "")
    rows = np.arange(len(texts))
    short = pc.match_substring_regex(texts, r"^[0-9]+:[0-9]{2}$")
    clock = text.parse_times(
        *text_buffers(pc.if_else(short, pc.binary_join_element_wise(texts, ":00", ""), texts)), rows
    )
    seconds = text.parse_counts(*text_buffers(texts), rows)
    return np.where(clock >= 0, clock, seconds)


def parse_departure(value: str | int) -> int:
    """One departure as of `parse_departures`."""
    return int(parse_departures(pa.array([str(value)]))[0])


def show_time(second: int) -> str:
    """`H:MM:SS`; hours go on after 24."""
    return f"{second // 3600}:{second // 60 % 60:02}:{second % 60:02}"
