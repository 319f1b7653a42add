"""A partition on a real device, beside the host's; skipped where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import build, real_feed
from headway.cluster.devices import cuda_device
from hypothesis import given, settings
from hypothesis import strategies as st
from partition_checks import assert_assembled, assert_partitions, columns_of, connections, part_of
from test_graph import HORIZON, VERTICES, Trip, timetable, trips

pytestmark = pytest.mark.skipif(bool(cuda_device().trouble), reason=cuda_device().trouble)


@settings(max_examples=60)
@given(st.lists(trips(), max_size=6), st.data())
def test_trips(many: list[Trip], data: st.DataObject) -> None:
    piece = data.draw(st.lists(st.sampled_from([0, 2, 3]), min_size=len(many), max_size=len(many)))
    cuts = np.array([0, *sorted(data.draw(st.lists(st.integers(0, VERTICES), max_size=3))), VERTICES])
    assert_partitions(part_of(timetable(many).trips), np.array(piece, np.int64), HORIZON, cuts, 3600)


@settings(max_examples=60)
@given(connections, st.booleans(), st.sampled_from([300, 3600, 86400]))
def test_connections(rows: list[tuple[int, int, int, int]], with_runs: bool, width: int) -> None:
    assert_assembled(columns_of(rows, with_runs), 2, 5, 6, width)


@pytest.mark.parametrize("size", [25, 128, 400, 401, 3600, 86400])
def test_large_clusters(size: int) -> None:
    """On either side of where another rule begins, up to a departure in every second."""
    rng = np.random.default_rng(size)
    some = rng.choice(86400, size, replace=False)
    two = np.union1d(rng.integers(0, 9) + np.arange(0, 86400, 700), rng.integers(0, 9) + np.arange(0, 86400, 1100))
    rows = [(0, v, int(t), 60) for v, seconds in enumerate((some, two, two[: size - 1])) for t in seconds]
    assert_assembled(columns_of(rows, True), 0, 1, 3, 86400)


def test_keys_that_fit_no_word() -> None:
    rng = np.random.default_rng(4)
    rows = [(int(u), int(v), int(t), 2**20) for u, v, t in rng.integers(0, [2**15, 9, 2**17], (20_000, 3))]
    assert_assembled(columns_of(rows, True), 0, 2**15, 2**20, 3600)


@pytest.mark.parametrize(
    ("name", "day"), [("bart", "2023-04-13"), ("cairns", "2014-06-10"), ("nyc_mta_subway", "2026-09-30")]
)
@pytest.mark.parametrize("width", [300, 3600, 86400])
def test_real_feeds(name: str, day: str, width: int) -> None:
    found = build([real_feed(name)], day, walk__mode="none").timetable
    for piece in (0, 4):
        for ranges in (1, 3):
            cuts = np.linspace(0, found.vertices, ranges + 1).astype(np.int64)
            pieces = np.full(len(found.trips.ids), piece)
            assert_partitions(part_of(found.trips), pieces, found.horizon, cuts, width)
