"""Original times to ticks, the numbers of snapshots; a tick without events is a snapshot too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..storage.errors import HeadwayError

MOST_TICKS = 2**28  # 2 GiB of their times
FURTHEST = 2**62  # times beyond overflow when they are subtracted


@dataclass(frozen=True)
class Ticks:
    """How times become ticks; without any of these every distinct time is one.

    width   ticks of so many units of time, from a multiple of it, or from `start`, on
    ticks   so many ticks of equal width, from the first event to the last
    events  so many events a tick, in order of time
    times   tick k begins at times[k], and the last one goes on
    """

    width: int | None = None
    start: int | None = None
    ticks: int | None = None
    events: int | None = None
    times: Sequence[int] | np.ndarray | None = None

    def __post_init__(self) -> None:
        named = [name for name in ("width", "ticks", "events", "times") if getattr(self, name) is not None]
        if len(named) > 1:
            raise HeadwayError(f"{named[0]} and {named[1]} both make ticks; give one of them")
        for name in ("width", "ticks", "events"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int | np.integer) or value < 1):
                raise HeadwayError(f"{name} {value}: give an integer from 1 on")
        if self.start is not None and self.width is None:
            raise HeadwayError("start is for ticks of a width; give width too")
        if self.start is not None and not isinstance(self.start, int | np.integer):
            raise HeadwayError(f"start {self.start}: give an integer")

    def of(self, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ticks uint32[events] of ascending times int64[events], and the time of each tick, int64[ticks].

        Raises `HeadwayError` for times before the first tick, and for too many ticks.
        """
        if len(time) and not -FURTHEST < int(time[0]) <= int(time[-1]) < FURTHEST:
            raise HeadwayError(f"times from {time[0]} to {time[-1]}: they must lie within 2**62; subtract an offset")
        if self.times is not None:
            return self._given(time, np.asarray(self.times))
        if self.ticks is not None:
            span = int(time[-1] - time[0]) + 1 if len(time) else 1
            return self._even(time, int(time[0]) if len(time) else 0, -(-span // int(self.ticks)), int(self.ticks))
        if self.width is not None:
            width = int(self.width)
            if not len(time) and self.start is None:
                return np.empty(0, np.uint32), np.empty(0, np.int64)
            start = int(time[0]) // width * width if self.start is None else int(self.start)
            count = (int(time[-1]) - start) // width + 1 if len(time) else 0
            return self._even(time, start, width, count)
        if self.events is not None:
            tick = np.arange(len(time)) // int(self.events)
            return tick.astype(np.uint32), time[:: int(self.events)].copy()
        new = np.ones(len(time), np.bool_)
        np.not_equal(time[1:], time[:-1], out=new[1:])
        return (np.cumsum(new) - 1).astype(np.uint32), time[new]

    def _even(self, time: np.ndarray, start: int, width: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        if len(time) and time[0] < start:
            raise HeadwayError(f"time {time[0]} is before the start {start}; begin earlier, or leave such events out")
        if count > MOST_TICKS:
            raise HeadwayError(f"{count:,} ticks of width {width}, {MOST_TICKS:,} is the most; make them wider")
        return ((time - start) // width).astype(np.uint32), start + np.arange(count) * width

    def _given(self, time: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if times.ndim != 1 or not len(times) or times.dtype.kind not in "iu" or (np.diff(times) <= 0).any():
            raise HeadwayError("times of ticks: give at least one integer, each later than the one before")
        if len(time) and time[0] < times[0]:
            raise HeadwayError(f"time {time[0]} is before the first tick's, {times[0]}; begin earlier")
        return (np.searchsorted(times, time, "right") - 1).astype(np.uint32), times.astype(np.int64)
