"""A partition's kernels in the CUDA simulator, where array code is NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from headway.kernels import device_cover
from headway.pipeline import device_graph
from headway.storage.errors import HeadwayError
from hypothesis import example, given, settings
from hypothesis import strategies as st
from partition_checks import assert_assembled, assert_partitions, assert_same, columns_of, connections, part_of
from test_graph import HORIZON, SCHEMES, VERTICES, Trip, parts_of, store_of, timetable, trips, walks

WIDTHS = (300, 3600, 86400)


@settings(max_examples=10)
@given(st.lists(trips(), max_size=4), st.data())
def test_trips(many: list[Trip], data: st.DataObject) -> None:
    """Sub-trips or none of each, ranges of vertices, empty ones among them."""
    piece = data.draw(st.lists(st.sampled_from([0, 2, 3]), min_size=len(many), max_size=len(many)))
    inner = sorted(data.draw(st.lists(st.integers(0, VERTICES), max_size=3)))
    cuts = np.array([0, *inner, VERTICES])
    assert_partitions(part_of(timetable(many).trips), np.array(piece, np.int64), HORIZON, cuts, 3600)


@settings(max_examples=50)
@given(connections, st.booleans(), st.sampled_from(WIDTHS), st.sampled_from([2, device_cover.FEW]))
@example([(2, 0, k, 60) for k in range(0, 60, 2)] + [(2, 0, k, 61) for k in range(1, 60, 3)], True, 3600, 2)
def test_connections(rows: list[tuple[int, int, int, int]], with_runs: bool, width: int, few: int) -> None:
    """Clusters that a thread covers, and those for a block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_cover, "FEW", few)
        assert_assembled(columns_of(rows, with_runs), 2, 5, 6, width)


def test_keys_that_fit_no_word() -> None:
    """Bits of vertices, seconds and durations that take two sorts."""
    rng = np.random.default_rng(4)
    rows = [(int(u), int(v), int(t), 2**20) for u, v, t in rng.integers(0, [2**15, 2, 40_000], (6, 3))]
    assert_assembled(columns_of([*rows, *rows], True), 0, 2**15, 2**20, 3600)


def test_more_departures_than_have_all_candidates() -> None:
    """The other rule, from front to back."""
    seconds = sorted({*range(0, 86400, 280), *range(60, 86400, 900), 77, 1234})
    assert len(seconds) > device_cover.ALL_CANDIDATES
    assert_assembled(columns_of([(0, 1, t, 60) for t in seconds], True), 0, 1, 2, 86400)


def test_a_gpu_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a line, and the next partition may work again."""

    class OutOfMemoryError(Exception):
        __module__ = "cupy.cuda.memory"

    def fail(*given: object) -> None:
        raise OutOfMemoryError("Out of\nmemory")

    columns = columns_of([(0, 1, 5, 5)], True)
    with monkeypatch.context() as patch:
        patch.setattr(device_graph, "sort_types", fail)
        with pytest.raises(HeadwayError, match=r"^the GPU failed: Out of memory; build on CPUs"):
            device_graph.assemble_part(*columns, 0, 1, 2, 3600)
    assert_assembled(columns, 0, 1, 2, 3600)


@settings(max_examples=10)
@given(st.lists(trips(), min_size=1, max_size=5), walks, st.sampled_from(SCHEMES))
def test_a_whole_store(many: list[Trip], paths: dict, subtrips: str) -> None:
    """Every array as on the host, from partitions that go through the GPU's functions."""
    with parts_of(2, 5):
        host, device = (store_of(timetable(many, paths), subtrips, gpu=gpu) for gpu in (False, True))
    assert (host is None) == (device is None)
    if host is None or device is None:
        return
    assert host.facts == device.facts
    for part in ("connections", "cluster_ap", "profile"):
        found, expected = (
            [value for value in vars(getattr(store, part)).values() if isinstance(value, np.ndarray)]
            for store in (device, host)
        )
        assert_same(found, expected)
