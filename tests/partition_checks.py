"""What the partition functions of a GPU must give: the arrays of those of the host, kind by kind and value by value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from headway.pipeline import partition
from headway.pipeline.partition import TripPart
from headway.storage.timetable import Trips
from hypothesis import strategies as st

Connection = tuple[int, int, int, int]

# Few seconds, so that progressions, ties and dominated departures abound; and any.
seconds = st.one_of(st.integers(0, 60), st.integers(0, 90).map(lambda k: 60 * k), st.integers(0, 2 * 86400 - 1))
connections = st.lists(
    st.tuples(st.integers(2, 4), st.integers(0, 1), seconds, st.sampled_from([0, 60, 61, 41 * 3600])), max_size=60
)


def part_of(trips: Trips) -> TripPart:
    """All trips of a timetable."""
    return TripPart(
        trips.offset, trips.vertex, trips.arrival, trips.departure, trips.flags, trips.run_offset, trips.shift
    )


def assert_same(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    assert len(found) == len(expected)
    names = getattr(expected, "_fields", range(len(expected)))
    for name, one, other in zip(names, found, expected, strict=True):
        assert isinstance(one, np.ndarray), name
        assert one.dtype == other.dtype, name
        assert one.flags.c_contiguous, name
        assert np.array_equal(one, other), (name, one, other)


def assert_assembled(columns: Sequence[np.ndarray], first: int, last: int, vertices: int, width: int) -> None:
    """Types, clusters and profiles of connections whose tails are in [first, last), and both layouts of the words."""
    from headway.pipeline import device_graph

    expected, steps = partition.assemble_part(*columns, first, last, vertices, width)
    found, seconds = device_graph.assemble_part(*columns, first, last, vertices, width)
    assert_same(found, expected)
    assert seconds.keys() == steps.keys()
    lists = expected.edge_leave, expected.leave, expected.lasts
    slots = int(expected.departure.max()) // partition.SLOT + 2 if len(expected.departure) else 1
    for wide in (False, True):
        words = partition.layout_part(*lists, slots, 18, wide)
        assert_same(device_graph.layout_part(*lists, slots, 18, wide), words)


def assert_partitions(trips: TripPart, piece: np.ndarray, horizon: int, cuts: np.ndarray, width: int) -> None:
    """All from trips on."""
    from headway.pipeline import device_graph

    expected = partition.expand_part(trips, piece, horizon, 7, cuts)
    assert_same(device_graph.expand_part(trips, piece, horizon, 7, cuts), expected)
    for r in range(len(cuts) - 1):
        some = slice(expected.begin[r], expected.begin[r + 1])
        columns = [column[some] for column in expected[1:]]
        assert_assembled(columns, int(cuts[r]), int(cuts[r + 1]), int(cuts[-1]), width)


def columns_of(rows: Sequence[Connection], with_runs: bool) -> list[np.ndarray]:
    """Connections (u, v, t, lambda) as columns, with runs that tell them apart or none."""
    kinds = (np.uint32, np.uint32, np.int32, np.int32)
    columns = [np.array([row[k] for row in rows], kind) for k, kind in enumerate(kinds)]
    return [*columns, np.arange(len(rows) if with_runs else 0, dtype=np.uint32)]
