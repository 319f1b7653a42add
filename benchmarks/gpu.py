"""The batch kernel on a GPU, beside the connection scan and the CPU engine of the same machine, in one run.

    python benchmarks/gpu.py --stores FOLDER --name city    # writes results/gpu-city.json

FOLDER holds NAME.store. All kinds of answers of the first queries are compared with the connection scan's.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from batch import batch, write_queries
from harness import machine, record
from headway.pipeline.asked import Answer
from headway.pipeline.cpu import CpuEngine
from headway.pipeline.engines import Engine
from headway.pipeline.gpu import Buffer, GpuEngine
from headway.pipeline.query_file import Queries
from headway.storage.store import Store, load
from numba import cuda

ARRIVALS, REACH = Answer("arrivals"), Answer("reach", np.array([900, 1800, 2700, 3600], np.int32))
REPEATS = 5
OUTPUT = 2**34  # bytes of arrivals that are kept in device memory at once
BATCH = 10_000_000  # queries from Parquet to Parquet


def random_queries(store: Store, count: int, seed: int) -> Queries:
    """Stops that a vehicle leaves, and departures from 6:00 to 22:00."""
    rng = np.random.default_rng(seed)
    places = store.timetable.places
    served = np.diff(store.cluster_ap.vertex_edge)[places.vertex[places.offset[: places.stops]]] > 0
    origin, destination = rng.choice(np.flatnonzero(served), (2, count)).astype(np.int32)
    return Queries(np.arange(count), origin, destination, rng.integers(6 * 3600, 22 * 3600, count).astype(np.int32))


def minute_by_minute(store: Store, origins: int) -> Queries:
    """32 departures a minute apart from each origin."""
    one = random_queries(store, origins, 2)
    later = np.tile(np.arange(32, dtype=np.int32) * 60, origins)
    each = np.repeat(np.arange(origins), 32)
    return Queries(np.arange(32 * origins), one.origin[each], one.destination[each], one.departure[each] + later)


def on_device(engine: GpuEngine, queries: Queries, asked: Answer) -> float:
    """Seconds of the kernel, results staying in device memory; the fastest of a few."""
    run, _, _ = engine.prepared(queries, asked, Buffer())
    run()
    cuda.synchronize()
    return min(clocked(lambda: (run(), cuda.synchronize())) for _ in range(REPEATS))


def device_memory_free() -> int:
    """Bytes."""
    return cuda.current_context().get_memory_info()[0]


def clocked(work: Callable[[], object]) -> float:
    """Seconds of a call."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def on_threads(engine: Engine, queries: Queries, threads: int) -> float:
    """Seconds of a CPU engine."""
    with ThreadPoolExecutor(threads) as pool:
        pieces = list(engine.pieces(queries, ARRIVALS))
        list(pool.map(lambda piece: piece[1](), pieces[:1]))  # compiled
        return clocked(lambda: list(pool.map(lambda piece: piece[1](), pieces)))


def found(engine: Engine, queries: Queries, asked: Answer) -> list[np.ndarray]:
    """All results, in the order of the queries."""
    results = [compute() for _, compute in engine.pieces(queries, asked)]
    return [np.concatenate(part) for part in (zip(*results, strict=True) if asked.kind == "reach" else [results])]


def measure(place: Path, count: int, checked: int, work: Path) -> dict:
    """Rates in queries a second, latencies in milliseconds."""
    store = load(place)
    free = device_memory_free()
    gpu, scan, fast = GpuEngine(store), CpuEngine(store, "connection-scan"), CpuEngine(store)
    taken = free - device_memory_free()
    count = min(count, OUTPUT // (4 * len(store.timetable.places.table)))
    few, many = random_queries(store, checked, 0), random_queries(store, count, 1)
    for asked in (ARRIVALS, Answer("od"), REACH):
        for got, expected in zip(found(gpu, few, asked), found(scan, few, asked), strict=True):
            if not np.array_equal(got, expected):
                raise AssertionError(f"{asked.kind} differs from the connection scan's")
    cores = machine()["cores"]
    single = []
    for k in range(min(200, checked)):
        run, _, _ = gpu.prepared(few.take(slice(k, k + 1)), ARRIVALS, Buffer())
        run()
        cuda.synchronize()
        single.append(clocked(lambda run=run: (run(), cuda.synchronize())) * 1e3)
    one_core = len(few) / on_threads(scan, few, 1)
    arrivals = count / on_device(gpu, many, ARRIVALS)
    range_queries = minute_by_minute(store, count // 32)
    results = {
        "stops": store.timetable.vertices,
        "footpaths": len(store.timetable.footpaths.to),
        "equal to the connection scan, queries of each kind": len(few),
        "connection scan, 1 core, queries/s": round(one_core, 1),
        "connection scan, all cores, queries/s": round(len(few) / on_threads(scan, few, cores), 1),
        "CPU engine, all cores, queries/s": round(len(many) / on_threads(fast, many, cores), 1),
        "arrivals into device memory, queries/s": round(arrivals),
        "reach, on the device, queries/s": round(count / on_device(gpu, many, REACH)),
        "32 departures a minute apart, queries/s": round(len(range_queries) / on_device(gpu, range_queries, ARRIVALS)),
        "one query, kernel, median ms": round(statistics.median(single), 3),
        "GPU over connection scan on 1 core": round(arrivals / one_core, 1),
        "queries on the device at once": count,
        "device memory of the store, MiB": round(taken / 2**20),
    }
    queries = work / "queries.parquet"
    write_queries(store, BATCH, queries)
    results["reach, Parquet to Parquet"] = batch(place, queries, work / "a", "--answer", "reach", "--device", "cuda")
    return results


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stores", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--queries", type=int, default=65_536)
    parser.add_argument("--checked", type=int, default=1000)
    given = parser.parse_args()
    work = Path(tempfile.mkdtemp())
    try:
        results = measure(given.stores / f"{given.name}.store", given.queries, given.checked, work)
    finally:
        shutil.rmtree(work)
    print(results)
    config = {"departures": "06:00 to 22:00, uniform", "queries": given.queries, "repeats": REPEATS}
    print(f"wrote {record(f'gpu-{given.name}', results, config=config).name}")


if __name__ == "__main__":
    main()
