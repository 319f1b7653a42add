"""The batch kernel in the CUDA simulator, where a warp is one thread: `test_simulator.py` runs this file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command import STOPS, TIMETABLE
from conftest import build, connections_store
from headway.kernels import block
from headway.pipeline import gpu
from headway.pipeline.asked import Answer
from headway.pipeline.device import open_engine
from headway.pipeline.gpu import GpuEngine
from headway.pipeline.query_file import Queries
from headway.pipeline.settings import Settings
from headway.storage.errors import HeadwayError
from headway.storage.store import Store
from kernel_checks import assert_equal_to_scan, random_queries
from tiny import feed

DAY = 86_400


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Stations, footpaths, a stop alone."""
    return build([feed(tmp_path_factory.mktemp("town"), TIMETABLE, stops=STOPS)])


def random_store(seed: int, days: float, longest: int, vertices: int = 20, rows: int = 70) -> Store:
    rng = np.random.default_rng(seed)
    made = [
        (*rng.integers(0, vertices, 2).tolist(), int(rng.integers(0, days * DAY)), int(rng.integers(0, longest)))
        for _ in range(rows)
    ]
    return connections_store(made, vertices)


@pytest.mark.parametrize("asked", [Answer("arrivals"), Answer("od"), Answer("reach", np.array([900], np.int32))])
def test_nothing_is_allocated_for_another_query(town: Store, monkeypatch: pytest.MonkeyPatch, asked: Answer) -> None:
    """Memory of the one before is taken, and no thread is started; the answer is its own."""
    engine, some = GpuEngine(town), random_queries(town, 3, 4)
    whole = found(engine, some, asked)
    found(engine, some.take(slice(0, 1)), asked)
    taken: list[tuple] = []
    to_device = gpu.cuda.to_device
    monkeypatch.setattr(gpu, "run_ahead", None)
    monkeypatch.setattr(gpu.cuda, "device_array", lambda *given: taken.append(given))
    monkeypatch.setattr(
        gpu.cuda, "to_device", lambda array, stream: taken.append(array.shape) if array.size else to_device(array)
    )
    for k in (1, 2, 0):
        assert np.array_equal(found(engine, some.take(slice(k, k + 1)), asked)[0], whole[k])
    assert taken == []


def found(engine: GpuEngine, queries: Queries, asked: Answer) -> np.ndarray:
    """All results; of `reach` the counts."""
    results = [compute() for _, compute in engine.pieces(queries, asked)]
    return np.concatenate([result[0] if asked.kind == "reach" else result for result in results])


@pytest.mark.parametrize("narrow", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_random_connections(seed: int, narrow: bool) -> None:
    """A busy hour, where many labels fall within one bucket."""
    store = random_store(seed, 0.04, 300)
    assert_equal_to_scan(GpuEngine(store, narrow=narrow), store, random_queries(store, 5, seed))


@pytest.mark.parametrize("narrow", [True, False])
def test_beyond_sixteen_bits(narrow: bool) -> None:
    """Arrivals days later, durations that need words of 64 bits."""
    store = random_store(3, 3, 100_000, vertices=10, rows=40)
    assert store.profile.word.dtype == np.uint64
    assert_equal_to_scan(GpuEngine(store, narrow=narrow), store, random_queries(store, 4, 3))


def test_walking_and_stations(town: Store) -> None:
    assert_equal_to_scan(GpuEngine(town), town, random_queries(town, 8, 4))


@pytest.mark.parametrize("narrow", [True, False])
def test_more_than_a_queue_holds(narrow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What finds no room in the queue waits in a list, and what finds none there is found again by its label."""
    monkeypatch.setattr(block, "QUEUE", 3)
    monkeypatch.setattr(gpu, "list_room", lambda vertices: vertices)
    gpu.kernel_of.cache_clear()  # type: ignore[attr-defined]
    store = random_store(6, 0.02, 60)
    assert_equal_to_scan(GpuEngine(store, narrow=narrow), store, random_queries(store, 4, 6))
    gpu.kernel_of.cache_clear()  # type: ignore[attr-defined]


def test_more_than_a_sector_holds() -> None:
    """A departure every second: the lookup goes on in the lists, to their very end."""
    store = connections_store([(0, 1, t, 50) for t in range(0, 200)] + [(1, 2, t, 9) for t in range(150, 200, 3)], 4)
    queries = random_queries(store, 6, 7)
    queries.origin[:] = 0
    queries.departure[:] = [0, 100, 180, 198, 199, 200]
    assert_equal_to_scan(GpuEngine(store), store, queries)


def test_little_memory(town: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Smaller blocks give the same answers; a store that does not fit is refused by name of the way out."""
    monkeypatch.setattr(gpu, "HOST", 200)
    assert_equal_to_scan(GpuEngine(town, memory=60_000), town, random_queries(town, 7, 8))
    with pytest.raises(HeadwayError, match=r"raise gpu\.memory_gib, or use --device cpu"):
        GpuEngine(town, memory=1000)


def test_choice(town: Store, tmp_path: Path) -> None:
    """A GPU is taken where there is one; another algorithm runs on the CPU, or is refused."""
    assert open_engine(town, "auto", "edge-profile", Settings())[1] == "cuda: CUDA simulator"
    assert open_engine(town, "cpu", "edge-profile", Settings())[1] == "cpu, as told"
    assert open_engine(town, "auto", "edge-4", Settings())[1] == "cuda: CUDA simulator"
    assert open_engine(town, "auto", "label-correcting", Settings())[1] == (
        "cpu: algorithm label-correcting is for the CPU"
    )
    with pytest.raises(HeadwayError, match="build one with --walk none"):
        open_engine(town, "cuda", "esdg", Settings())
    with pytest.raises(HeadwayError, match="algorithm connection-scan is for the CPU; leave it out"):
        open_engine(town, "cuda", "connection-scan", Settings())


@pytest.mark.parametrize("kind", ["CudaDriverError", "CUDAError"])
def test_trouble_of_a_gpu(kind: str, town: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba's errors and those of NVIDIA's packages are one line; ours are not taken for theirs."""
    error = type(kind, (Exception,), {"__module__": "cuda.core"})

    def failing(raised: Exception):
        def to_device(*_, **__):
            raise raised

        return to_device

    monkeypatch.setattr(gpu.cuda, "to_device", failing(error("out of\n memory")))
    with pytest.raises(HeadwayError, match=r"^the GPU failed: out of memory; try a smaller gpu\.memory_gib"):
        GpuEngine(town)
    assert open_engine(town, "auto", "edge-profile", Settings())[1].startswith("cpu: the GPU failed: out of memory")
    monkeypatch.setattr(gpu.cuda, "to_device", failing(KeyError("a bug")))
    with pytest.raises(KeyError):
        GpuEngine(town)
