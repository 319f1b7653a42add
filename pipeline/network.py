"""A timetable whose trips lie in parts, wherever the workers keep them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from dask.delayed import Delayed, delayed

from ..kernels import trips as kernel
from ..storage.timetable import Footpaths, Places, Timetable
from .partition import TripPart
from .vertex_order import distinct_pairs

TRIPS_A_PART = 1 << 15
"""Trips that are together in a part. Fixed: what a build makes must not depend on who makes it."""


class PartFacts(NamedTuple):
    """What the driver has to know of a part.

    How many trips, rows and runs it has, and hops of all its runs; its neighbours as `vertex_order.distinct_pairs`;
    `vertex` uint32 and `departures` int64: how often a run leaves each of its vertices.
    """

    trips: int
    rows: int
    runs: int
    hops: int
    pairs: np.ndarray
    vertex: np.ndarray
    departures: np.ndarray


@dataclass(frozen=True)
class Network:
    """As `storage.timetable.Timetable`; `parts` are tasks that give `TripPart`s, in the order of the trips `ids`."""

    horizon: int
    vertices: int
    places: Places
    footpaths: Footpaths
    ids: pa.Array
    parts: list[Delayed]
    facts: list[PartFacts]


def facts_of(part: TripPart) -> PartFacts:
    """What is to be known of a part."""
    runs = np.diff(part.run_offset)
    length = np.diff(part.offset)
    last = np.zeros(len(part.vertex), np.bool_)
    last[part.offset[1:][length > 0] - 1] = True
    tail, head = part.vertex[:-1][~last[:-1]], part.vertex[1:][~last[:-1]]
    departures = kernel.departures(part.offset, part.vertex, runs)
    vertex = np.flatnonzero(departures)
    hops = int((np.maximum(0, length - 1) * runs).sum())
    return PartFacts(
        len(length),
        len(part.vertex),
        len(part.shift),
        hops,
        distinct_pairs(tail, head),
        vertex.astype(np.uint32),
        departures[vertex],
    )


def network_of(timetable: Timetable) -> Network:
    """The network of a whole timetable, its trips cut into parts."""
    trips = timetable.trips
    parts = []
    for first in range(0, len(trips.ids), TRIPS_A_PART):
        offset, run_offset = (
            every[first : first + TRIPS_A_PART + 1].astype(np.int64) for every in (trips.offset, trips.run_offset)
        )
        rows, runs = slice(offset[0], offset[-1]), slice(run_offset[0], run_offset[-1])
        parts.append(
            TripPart(
                offset - offset[0],
                trips.vertex[rows],
                trips.arrival[rows],
                trips.departure[rows],
                trips.flags[rows],
                run_offset - run_offset[0],
                trips.shift[runs],
            )
        )
    return Network(
        timetable.horizon,
        timetable.vertices,
        timetable.places,
        timetable.footpaths,
        trips.ids,
        [delayed(part, traverse=False) for part in parts],
        [facts_of(part) for part in parts],
    )
