"""What a feed says, as arrays: places, trips and their runs, footpaths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

BOARD = 1
ALIGHT = 2


@dataclass(frozen=True)
class Footpaths:
    """CSR by vertex: `offset` int64[vertices + 1], `to` uint32, `seconds` int32 [footpaths]."""

    offset: np.ndarray
    to: np.ndarray
    seconds: np.ndarray

    @staticmethod
    def none(vertices: int) -> Footpaths:
        """No walking."""
        return Footpaths(np.zeros(vertices + 1, np.int64), np.empty(0, np.uint32), np.empty(0, np.int32))


@dataclass(frozen=True)
class Places:
    """Stops, then stations, and the vertices that each stands for: the one map from vertices to answers.

    `table` has `id`, `name` (text), `lat`, `lon` (float64, null without coordinates), `is_station` (bool),
    `station` (text, empty without one), a row a place. A place's vertices are `vertex[offset[p] :
    offset[p + 1]]` (offset int64[places + 1], vertex uint32): a query from it starts at all of them, and its
    arrival is the earliest of theirs.
    """

    table: pa.Table
    offset: np.ndarray
    vertex: np.ndarray

    @property
    def stops(self) -> int:
        """How many places are stops; they come first."""
        return len(self.table) - int(np.count_nonzero(self.table["is_station"].to_numpy()))


@dataclass(frozen=True)
class Trips:
    """Trips with at least one run, in the order of the feeds, and their runs.

    `ids` text[trips] (with the feed's prefix). Rows of trip t are `offset[t] : offset[t + 1]` (int64[trips +
    1]): `vertex` uint32, `arrival` and `departure` int32 seconds of the service day, `flags` uint8 of `BOARD`
    and `ALIGHT`. Runs of trip t are `run_offset[t] : run_offset[t + 1]` (int64[trips + 1]); `shift` int32
    [runs] is added to the trip's times to give seconds of the store's clock.
    """

    ids: pa.Array
    offset: np.ndarray
    vertex: np.ndarray
    arrival: np.ndarray
    departure: np.ndarray
    flags: np.ndarray
    run_offset: np.ndarray
    shift: np.ndarray


@dataclass(frozen=True)
class Timetable:
    """Everything before connections. `horizon` in seconds; `vertices` counts them."""

    horizon: int
    vertices: int
    places: Places
    trips: Trips
    footpaths: Footpaths
