"""The GPU engine on a real device; skipped where there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import STOPS, TIMETABLE
from conftest import build, connections_store, real_feed
from headway.cluster.devices import cuda_device
from headway.pipeline.asked import Answer
from headway.pipeline.cpu import CpuEngine
from headway.storage.store import Store
from kernel_checks import CUTOFFS, assert_equal_to_scan, assert_levels_equal_to_scan, random_queries, results, weights
from tiny import feed

import headway as hw

pytestmark = pytest.mark.skipif(bool(cuda_device().trouble), reason=cuda_device().trouble)


def gpu_engine(store: Store, **options):
    from headway.pipeline.gpu import GpuEngine

    return GpuEngine(store, **options)


@pytest.mark.parametrize("walk", ["none", "default"])
@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("bart", "2023-04-13"),
        ("cairns", "2014-06-10"),
        ("nyc_mta_subway", "2026-09-30"),
        ("nyc_mta_bus_bk", "2026-09-30"),
    ],
)
def test_real_feeds(name: str, day: str, walk: str) -> None:
    store = build([real_feed(name)], day, walk__mode=walk)
    for narrow in (True, False):
        assert_equal_to_scan(gpu_engine(store, narrow=narrow), store, random_queries(store, 1000, 1))


@pytest.mark.parametrize("name", ["bart", "nyc_mta_subway"])
def test_dependency_graph(name: str) -> None:
    store = build([real_feed(name)], {"bart": "2023-04-13"}.get(name, "2026-09-30"), walk__mode="none")
    assert_levels_equal_to_scan(store, random_queries(store, 50, 2))


@pytest.mark.parametrize("seed", range(20))
def test_shapes_of_blocks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Races show as differences between repetitions: other threads, blocks and buckets each time."""
    from headway.pipeline import gpu

    rng = np.random.default_rng(seed)
    monkeypatch.setattr(gpu, "MULTIPROCESSOR", int(rng.choice([64, 256, 512, 1536])))
    monkeypatch.setattr(gpu, "BLOCKS", int(rng.choice([1, 4, 16])))
    monkeypatch.setattr(gpu, "WIDTHS", (int(rng.choice([1, 60, 600, 10_000])),) * 2)
    size = int(rng.integers(2, 400))
    span, longest = int(rng.choice([300, 7200, 400_000])), int(rng.choice([2, 500, 90_000]))
    made = np.column_stack(
        [rng.integers(0, size, (5000, 2)), rng.integers(0, span, 5000), rng.integers(0, longest, 5000)]
    ).tolist()
    store = connections_store(made, size)
    for narrow in (True, False):
        assert_equal_to_scan(gpu_engine(store, narrow=narrow), store, random_queries(store, 500, seed))


def test_blocks_of_a_batch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Little memory, and two buffers in turn: the same results as in one block."""
    from headway.pipeline import gpu

    store = build([feed(tmp_path, TIMETABLE, stops=STOPS)])
    queries = random_queries(store, 3000, 2)
    monkeypatch.setattr(gpu, "HOST", 5000)
    engine, whole = gpu_engine(store, memory=400_000), CpuEngine(store)
    for asked in (Answer("arrivals"), Answer("od"), Answer("reach", CUTOFFS, weights(store))):
        for found, expected in zip(results(engine, queries, asked), results(whole, queries, asked), strict=True):
            assert np.array_equal(found, expected)


def test_python_face(tmp_path: Path) -> None:
    """The same tables on both devices."""
    store = build([feed(tmp_path, TIMETABLE, stops=STOPS)])
    cpu, gpu = hw.Engine(store, device="cpu"), hw.Engine(store, device="cuda")
    assert gpu.device.startswith("cuda: ")
    origins, departures = ["A", "B", "S"] * 30, list(range(28_000, 32_500, 50))
    assert np.array_equal(cpu.arrivals(origins, departures), gpu.arrivals(origins, departures))
    pd.testing.assert_frame_equal(cpu.table(origins, departures), gpu.table(origins, departures))
    pd.testing.assert_frame_equal(cpu.od(origins, "C", departures), gpu.od(origins, "C", departures))
    jobs = {"A": 0.1, "B": 0.2, "C": 1e6}
    pd.testing.assert_frame_equal(
        cpu.reach(origins, departures, weights=jobs), gpu.reach(origins, departures, weights=jobs)
    )
