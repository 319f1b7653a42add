"""The paper's algorithms on a real device, whoever finds that nothing falls; skipped where there is none."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from conftest import build, real_feed
from headway.cluster.devices import cuda_device
from headway.kernels import relax
from headway.pipeline.device import open_engine
from headway.pipeline.engines import ON_CUDA
from headway.pipeline.settings import Settings
from headway.storage.store import Store
from kernel_checks import assert_equal_to_scan, assert_rounds_equal_to_scan, random_queries, small_store

import headway as hw

pytestmark = pytest.mark.skipif(bool(cuda_device().trouble), reason=cuda_device().trouble)

ROUNDS = [*relax.ALGORITHMS, *relax.VIRTUAL_WARPS]
DAYS = {"bart": "2023-04-13", "cairns": "2014-06-10", "nyc_mta_subway": "2026-09-30"}
SYNCS = ["device", 1, 8]


@cache
def real_store(name: str) -> Store:
    return build([real_feed(name)], DAYS[name], walk__mode="none")


@pytest.mark.parametrize("name", DAYS)
@pytest.mark.parametrize("algorithm", ROUNDS)
def test_real_feeds(algorithm: str, name: str) -> None:
    store = real_store(name)
    for sync in SYNCS:
        assert_rounds_equal_to_scan(store, algorithm, sync, random_queries(store, 1000, 1))


@pytest.mark.parametrize("sync", SYNCS)
@pytest.mark.parametrize("algorithm", ROUNDS)
def test_walking(algorithm: str, sync: str | int) -> None:
    """Races show as differences between repetitions."""
    store = small_store(300, 6000, True, 2)
    assert_rounds_equal_to_scan(store, algorithm, sync, random_queries(store, 20, 3), times=20)


@pytest.mark.parametrize("vertices", [2, 33, 5000])
def test_sizes_of_a_grid(vertices: int) -> None:
    """From one warp to more positions than the device has threads."""
    store = small_store(vertices, 40 * vertices, False, 4)
    for algorithm in ("connection", "cluster-ap", "edge", "edge-32"):
        assert_rounds_equal_to_scan(store, algorithm, "device", random_queries(store, 10, 5), times=3)


@pytest.mark.parametrize("algorithm", sorted(ON_CUDA))
def test_answers(algorithm: str) -> None:
    """All kinds, by the names that users type."""
    store = small_store(50, 800, False, 6)
    engine, where = open_engine(store, "auto", algorithm, Settings())
    assert where.startswith("cuda: ")
    assert_equal_to_scan(engine, store, random_queries(store, 40, 7))


def test_many_threads() -> None:
    """One engine, called from several at once."""
    store = small_store(100, 2000, True, 8)
    engine, plain = (hw.Engine(store, device, "cluster-ap", threads=4) for device in ("cuda", "cpu"))
    origins, departures = [str(k % 100) for k in range(2000)], np.arange(2000).tolist()
    assert np.array_equal(engine.arrivals(origins, departures), plain.arrivals(origins, departures))
