"""What a GPU engine must get right, whatever runs its kernels: checked against the CPU's connection scan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from conftest import NEVER, connections_store
from headway.pipeline.asked import Answer, Weights
from headway.pipeline.cpu import CpuEngine
from headway.pipeline.engines import Arrivals, Engine, vertices_of
from headway.pipeline.ordered import by_level
from headway.pipeline.query_file import Queries
from headway.storage.store import Store
from headway.storage.timetable import Footpaths

CUTOFFS = np.array([600, 60, 0, 3600], np.int32)


def results(engine: Engine, queries: Queries, asked: Answer) -> list[np.ndarray]:
    """All that an engine finds, in order of the queries."""
    found = [compute() for _, compute in engine.pieces(queries, asked)]
    if asked.kind == "reach":
        return [np.concatenate(column) for column in zip(*found, strict=True)]
    return [np.concatenate(found)]


def random_queries(store: Store, count: int, seed: int) -> Queries:
    """Places of every kind and departures until nothing leaves any more; a third of them shortly after one another."""
    rng = np.random.default_rng(seed)
    places = len(store.timetable.places.table)
    origin, destination = rng.integers(0, places, (2, count)).astype(np.int32)
    last = min(store.timetable.horizon, int(store.connections.departure.max()) + 60)
    departure = rng.integers(0, last, count).astype(np.int32)
    for k in range(1, count):
        if rng.random() < 0.3:
            origin[k] = origin[k - 1]
            departure[k] = max(0, departure[k - 1] - rng.integers(0, 400))
    return Queries(np.arange(count), origin, destination, departure)


def assert_levels_equal_to_scan(store: Store, queries: Queries) -> None:
    """The edge-scan-dependency graph on a device, one query after another."""
    from headway.kernels.device_dependency_graph import LevelScan

    found, sources = by_level(store), vertices_of(store, queries.origin)
    columns = (found.tail, found.head, found.departure, found.arrival)
    scan = LevelScan(columns, found.offset, found.cyclic, store.timetable.vertices)
    expected = Arrivals(store, "connection-scan")(sources, queries.departure)
    for q, second in enumerate(queries.departure.tolist()):
        label = np.full(store.timetable.vertices, NEVER, np.int32)
        label[sources[1][sources[0][q] : sources[0][q + 1]]] = second
        scan.search(label)
        assert np.array_equal(label, expected[q])


def small_store(vertices: int, rows: int, walking: bool, seed: int) -> Store:
    """Random connections, a cycle of no duration among them; walking: some footpaths, of no duration too."""
    rng = np.random.default_rng(seed)
    made = np.column_stack(
        [rng.integers(0, vertices, (rows, 2)), rng.integers(0, 9000, rows), rng.integers(0, 900, rows)]
    ).tolist()
    store = connections_store([*made, (0, 1, 500, 0), (1, 0, 500, 0)], vertices)
    if not walking:
        return store
    degree = rng.integers(0, 3, vertices)
    offset = np.concatenate([[0], np.cumsum(degree)])
    paths = Footpaths(
        offset, rng.integers(0, vertices, offset[-1]).astype(np.uint32), rng.integers(0, 600, offset[-1], np.int32)
    )
    return replace(store, timetable=replace(store.timetable, footpaths=paths))


def assert_rounds_equal_to_scan(
    store: Store, algorithm: str, sync: str | int, queries: Queries, times: int = 1
) -> None:
    """A relaxation in rounds on a device, and how many rounds it says that it made."""
    from headway.pipeline.device_relaxation import DeviceRelaxation

    sources = vertices_of(store, queries.origin)
    expected = Arrivals(store, "connection-scan")(sources, queries.departure)
    engine = DeviceRelaxation(store, algorithm, sync)  # pyright: ignore[reportArgumentType]
    for _ in range(times):
        found = np.empty_like(expected)
        rounds = engine.search(np.arange(len(queries)), sources, queries.departure, found)
        assert np.array_equal(found, expected), np.argwhere(found != expected)[:5]
        assert (rounds >= 1).all()
        assert (rounds <= store.timetable.vertices + (1 if sync == "device" else int(sync))).all()


def weights(store: Store) -> Weights:
    """Two columns."""
    rng = np.random.default_rng(5)
    return Weights(("jobs", "beds"), rng.integers(-(2**40), 2**40, (len(store.stops), 2)), (0, 0))


def assert_equal_to_scan(engine: Engine, store: Store, queries: Queries) -> None:
    """All kinds of answers, bit for bit."""
    scan = CpuEngine(store, "connection-scan")
    asked = (Answer("arrivals"), Answer("od"), Answer("reach", CUTOFFS), Answer("reach", CUTOFFS, weights(store)))
    for one in asked:
        for found, expected in zip(results(engine, queries, one), results(scan, queries, one), strict=True):
            assert found.dtype == expected.dtype
            assert np.array_equal(found, expected), (one.kind, np.argwhere(found != expected)[:5])
