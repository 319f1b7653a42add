"""From trips to connections, sub-trips, types, edges and runs, against double loops and dictionaries."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from conftest import build, real_feed
from headway.cluster.dask import workers
from headway.pipeline import graph, network
from headway.pipeline.graph import On, build_store, expand
from headway.pipeline.gtfs.report import Report
from headway.storage.store import Store
from headway.storage.timetable import ALIGHT, BOARD, Footpaths, Places, Timetable, Trips
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

HORIZON = 86400
VERTICES = 7
SCHEMES = ("none", "sqrt-trip", "sqrt-mean")


class Trip(NamedTuple):
    stops: list[int]
    arrival: list[int]
    departure: list[int]
    flags: list[int]
    shifts: list[int]


@st.composite
def trips(draw: st.DrawFn) -> Trip:
    """Up to 20 positions, some of zero seconds; runs that begin before second 0 and that pass the horizon."""
    size = draw(st.integers(1, 20))
    restricted = draw(st.booleans())
    now, arrival, departure = draw(st.integers(0, 3 * HORIZON)), [], []
    for _ in range(size):
        now += draw(st.sampled_from([0, 60, 60, 61, 1800]))
        arrival.append(now)
        now += draw(st.sampled_from([0, 0, 0, 30]))
        departure.append(now)
    flags = st.sampled_from([0, BOARD, ALIGHT, *[BOARD | ALIGHT] * 3] if restricted else [BOARD | ALIGHT])
    inside = st.one_of(st.integers(-1800, 1800), st.integers(HORIZON - 7200, HORIZON), st.integers(0, HORIZON))
    return Trip(
        draw(st.lists(st.integers(0, VERTICES - 1), min_size=size, max_size=size)),
        arrival,
        departure,
        draw(st.lists(flags, min_size=size, max_size=size)),
        [second - departure[0] for second in draw(st.lists(inside, min_size=1, max_size=4))],
    )


walks = st.dictionaries(
    st.tuples(st.integers(0, VERTICES - 1), st.integers(0, VERTICES - 1)), st.integers(0, 900), max_size=8
)


def timetable(many: list[Trip], paths: dict[tuple[int, int], int] | None = None) -> Timetable:
    """Vertex p is place p; there are no stations."""
    names = [str(p) for p in range(VERTICES)]
    nothing = pa.nulls(VERTICES, pa.float64())
    table = pa.table(
        {
            "id": names,
            "name": names,
            "lat": nothing,
            "lon": nothing,
            "is_station": [False] * VERTICES,
            "station": [""] * VERTICES,
        }
    )

    def joined(field: str, kind: type) -> np.ndarray:
        return np.array([value for trip in many for value in getattr(trip, field)], kind)

    where = Places(table, np.arange(VERTICES + 1), np.arange(VERTICES, dtype=np.uint32))
    rows = Trips(
        pa.array([f"t{n}" for n in range(len(many))], pa.string()),
        np.cumsum([0] + [len(trip.stops) for trip in many]),
        joined("stops", np.uint32),
        joined("arrival", np.int32),
        joined("departure", np.int32),
        joined("flags", np.uint8),
        np.cumsum([0] + [len(trip.shifts) for trip in many]),
        joined("shifts", np.int32),
    )
    pairs = sorted((paths or {}).items())
    offset = np.searchsorted([u for (u, _), _ in pairs], np.arange(VERTICES + 1)).astype(np.int64)
    to = np.array([v for (_, v), _ in pairs], np.uint32)
    footpaths = Footpaths(offset, to, np.array([seconds for _, seconds in pairs], np.int32))
    return Timetable(HORIZON, VERTICES, where, rows, footpaths)


def rows(given_: Timetable, subtrips: str, threads: int) -> Counter[tuple[int, ...]]:
    """All connections; those of each part lie in ranges of tails, whose borders they must keep to."""
    found: Counter[tuple[int, ...]] = Counter()
    with workers("threads", None, None, None, threads) as crew:
        number = np.arange(VERTICES, dtype=np.uint32)
        tasks, _, cuts = expand(network.network_of(given_), number, subtrips, On(crew))
        for part in crew.compute(tasks):
            assert (np.repeat(cuts[:-1], np.diff(part.begin)) <= part.tail).all()
            assert (part.tail < np.repeat(cuts[1:], np.diff(part.begin))).all()
            found += Counter(zip(*(column.tolist() for column in part[1:]), strict=True))
    return found


def store_of(given_: Timetable, subtrips: str, minutes: int = 60, threads: int = 1, gpu: bool = False) -> Store | None:
    with workers("threads", None, None, None, threads) as crew:
        return build_store(network.network_of(given_), subtrips, minutes, On(crew, gpu), Report())


def parts_of(trips: int, connections: int):
    """Parts of so few trips, ranges of tails with about so few connections."""
    stack = ExitStack()
    stack.enter_context(patch.object(network, "TRIPS_A_PART", trips))
    stack.enter_context(patch.object(graph, "CONNECTIONS_A_PART", connections))
    return stack


def expected_rows(many: list[Trip], subtrips: str) -> Counter[tuple[int, ...]]:
    """The contract word by word: (u, v, t, lambda, run)."""
    out: Counter[tuple[int, ...]] = Counter()
    hops = [len(trip.stops) - 1 for trip in many for _ in trip.shifts]  # of each run
    run = 0
    for trip in many:
        last = len(trip.stops) - 1
        board = [bool(flag & BOARD) for flag in trip.flags]
        alight = [bool(flag & ALIGHT) for flag in trip.flags]
        for shift in trip.shifts:
            for i in range(last + 1):
                for j in range(i + 1, last + 1):
                    between = any(board[p] and alight[p] for p in range(i + 1, j))
                    if board[i] and alight[j] and not between:
                        add(out, trip, i, j, shift, run)
            if subtrips != "none":
                k = last if subtrips == "sqrt-trip" else sum(hops) / len(hops)
                r = max(2, round(math.sqrt(k)))
                cuts = [*range(0, last, r), last]
                for p, q in pairwise(cuts):
                    through = all(
                        board[x] and alight[x] and trip.departure[x] + shift < HORIZON for x in range(p + 1, q)
                    )
                    if q - p >= 2 and board[p] and alight[q] and through:
                        add(out, trip, p, q, shift, run)
            run += 1
    return out


def add(out: Counter, trip: Trip, i: int, j: int, shift: int, run: int) -> None:
    second = trip.departure[i] + shift
    if 0 <= second < HORIZON:
        out[trip.stops[i], trip.stops[j], second, trip.arrival[j] - trip.departure[i], run] += 1


@settings(max_examples=250, deadline=None)
@given(
    st.lists(trips(), min_size=1, max_size=6),
    st.sampled_from(SCHEMES),
    st.integers(1, 3),
    st.integers(1, 6),
    st.integers(1, 40),
)
def test_connections_and_subtrips(
    many: list[Trip], subtrips: str, threads: int, trips_a_part: int, connections_a_part: int
) -> None:
    with parts_of(trips_a_part, connections_a_part):
        assert rows(timetable(many), subtrips, threads) == expected_rows(many, subtrips)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("subtrips", SCHEMES)
def test_no_trip_at_all(subtrips: str) -> None:
    """All trips of a feed may be dropped: no connection, and no mean of nothing."""
    assert not rows(timetable([]), subtrips, 2)
    assert store_of(timetable([]), subtrips) is None


@settings(max_examples=120, deadline=None)
@given(st.lists(trips(), min_size=1, max_size=6), walks, st.sampled_from(SCHEMES), st.sampled_from([1, 5, 60]))
def test_types_edges_and_runs(many: list[Trip], paths: dict, subtrips: str, minutes: int) -> None:
    """Every level of the store as dictionaries, and vertices renumbered everywhere alike."""
    connections = expected_rows(many, subtrips)
    if not connections:
        assert store_of(timetable(many, paths), subtrips) is None
        return
    store = store_of(timetable(many, paths), subtrips, minutes)
    assert store is not None
    number = store.timetable.places.vertex.tolist()  # of place p, which was vertex p
    assert sorted(number) == list(range(VERTICES))
    assert store.timetable.trips.vertex.tolist() == [number[v] for trip in many for v in trip.stops]
    assert footpaths(store) == {(number[u], number[v]): seconds for (u, v), seconds in paths.items()}

    types: dict[tuple[int, int, int], dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for u, v, second, lasts, run in connections:
        types[number[u], number[v], lasts][second].add(run)
    assert list(levels(store).items()) == sorted(
        (kind, {second: sorted(runs) for second, runs in sorted(departures.items())})
        for kind, departures in types.items()
    )
    assert store.facts["raw connections"] == connections.total()
    assert store.facts["connections"] == sum(map(len, types.values()))
    assert store.facts["connection types"] == len(types)
    assert store.facts["edges"] == len({(u, v) for u, v, _ in types})
    assert store.facts["stops without departures"] == VERTICES - len({u for u, _, _ in types})
    assert store.facts["connected components"] == components(many, paths)


def levels(store: Store) -> dict[tuple[int, int, int], dict[int, list[int]]]:
    """(u, v, lambda) -> departure -> its runs, walked from the vertices down in the order of the arrays."""
    graph, connections = store.cluster_ap, store.connections
    out = {}
    for u in range(store.timetable.vertices):
        for edge in range(graph.vertex_edge[u], graph.vertex_edge[u + 1]):
            assert graph.edge_from[edge] == u
            for kind in range(graph.edge_type[edge], graph.edge_type[edge + 1]):
                assert graph.type_edge[kind] == edge
                departures = {}
                for c in range(connections.offset[kind], connections.offset[kind + 1]):
                    some = connections.run[connections.run_offset[c] : connections.run_offset[c + 1]].tolist()
                    # A run that serves one connection twice over (stops u, v, u, v within a second) counts once.
                    departures[int(connections.departure[c])] = sorted(set(some))
                out[u, int(graph.edge_to[edge]), int(graph.duration[kind])] = departures
    assert len(out) == len(graph.duration), "a type is there twice or unreachable"
    return out


def footpaths(store: Store) -> dict[tuple[int, int], int]:
    walks_ = store.timetable.footpaths
    out = {}
    for u in range(store.timetable.vertices):
        for f in range(walks_.offset[u], walks_.offset[u + 1]):
            out[u, int(walks_.to[f])] = int(walks_.seconds[f])
    assert len(out) == len(walks_.to)
    return out


def components(many: list[Trip], paths: dict[tuple[int, int], int]) -> int:
    """Pieces that hang together by neighbours of trips, boardable or not, and footpaths."""
    piece = list(range(VERTICES))
    pairs = [*paths, *((u, v) for trip in many for u, v in pairwise(trip.stops))]
    for u, v in pairs:
        piece = [piece[v] if one == piece[u] else one for one in piece]
    return len(set(piece))


def files(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(many=st.lists(trips(), min_size=1, max_size=12), paths=walks, subtrips=st.sampled_from(SCHEMES))
def test_same_bytes_for_any_number_of_threads(tmp_path: Path, many: list[Trip], paths: dict, subtrips: str) -> None:
    if not expected_rows(many, "none"):
        return
    saved = []
    for threads in (1, 2, 3):
        store = store_of(timetable(many, paths), subtrips, 60, threads)
        assert store is not None
        replace(store, facts={**store.facts, "rebuild": ""}).save(tmp_path / "store", overwrite=True)
        saved.append(files(tmp_path / "store"))
    assert saved[0] == saved[1] == saved[2]


@pytest.mark.parametrize(("name", "day"), [("bart", "2023-04-13"), ("sncf_2016", "2013-12-13")])
def test_same_bytes_of_a_real_feed(tmp_path: Path, name: str, day: str) -> None:
    for threads in (1, 2, 3):
        build([real_feed(name)], day, threads=threads).save(tmp_path / str(threads))
    assert files(tmp_path / "1") == files(tmp_path / "2") == files(tmp_path / "3")
