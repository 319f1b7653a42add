"""Edge-scan-dependency graph and the paper's quantities, against their definitions word by word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command import STOPS, TIMETABLE, done, refused
from conftest import NEVER, answers, build, connections_store, real_feed
from headway.pipeline.cpu import CpuEngine
from headway.pipeline.engines import Arrivals, vertices_of
from headway.pipeline.ordered import by_level
from headway.pipeline.quantities import diameter, processed, quantities
from headway.pipeline.query_file import Queries
from headway.storage.errors import HeadwayError
from headway.storage.store import Store
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kernel_checks import random_queries
from tiny import feed

Connection = tuple[int, int, int, int]

VERTICES = 4
# Seconds so few that departures tie, overtake each other and wait for no time at all.
connection = st.tuples(
    st.integers(0, VERTICES - 1), st.integers(0, VERTICES - 1), st.integers(0, 9), st.sampled_from([0, 0, 1, 2, 3, 7])
)
timetables = st.lists(connection, min_size=1, max_size=24)
CYCLE = [(0, 1, 5, 0), (1, 2, 5, 0), (2, 0, 5, 0)]


def graph_of(connections: list[Connection]) -> dict[Connection, list[Connection]]:
    """The graph, with every quantifier of its definition a loop."""
    return {
        c: [
            d
            for d in connections
            if c[1] == d[0]
            and d[2] >= c[2] + c[3]
            and not any(o[:2] == d[:2] and o[2] >= c[2] + c[3] and o[2] + o[3] < d[2] + d[3] for o in connections)
        ]
        for c in connections
    }


def levels_of(graph: dict[Connection, list[Connection]]) -> tuple[dict[Connection, int], set[int]]:
    """Levels by relaxing longest paths until stable, cycles as one; and the levels that hold a cycle."""
    reach = {c: {c} for c in graph}
    for _ in graph:
        reach = {c: set().union({c}, *(reach[d] for d in graph[c])) for c in graph}
    one = {c: frozenset(d for d in reach[c] if c in reach[d]) for c in graph}
    level = dict.fromkeys(one.values(), 0)
    for _ in graph:
        for c in graph:
            for d in graph[c]:
                if one[c] != one[d]:
                    level[one[d]] = max(level[one[d]], level[one[c]] + 1)
    return {c: level[one[c]] for c in graph}, {level[one[c]] for c in graph if c in graph[c] or len(one[c]) > 1}


def stored(store: Store, connections: list[Connection]) -> tuple[list[Connection], dict[int, int]]:
    """Distinct connections by the store's own numbers of vertices, and the numbers of the file's."""
    number = dict(zip(map(int, store.stops), store.timetable.places.vertex.tolist(), strict=True))
    return sorted({(number[u], number[v], t, lasts) for u, v, t, lasts in connections}), number


@settings(max_examples=400)
@given(timetables)
@example(CYCLE)
@example([*CYCLE, (3, 0, 1, 2), (3, 1, 5, 0), (2, 3, 5, 0)])  # two cycles that share connections are one
@example([*CYCLE, (0, 0, 5, 0), (1, 1, 4, 1), (1, 3, 5, 4), (3, 2, 9, 0)])
@example([(0, 1, 0, 1), (1, 2, 1, 6), (1, 2, 3, 4), (1, 2, 4, 5), (1, 2, 5, 2), (1, 2, 5, 3), (2, 3, 7, 0)])
@example([(0, 1, 3, 0), (1, 2, 3, 0), (2, 3, 3, 0), (3, 3, 3, 0)])
def test_levels(connections: list[Connection]) -> None:
    store = connections_store(connections, VERTICES)
    found = by_level(store)
    level, cyclic = levels_of(graph_of(stored(store, connections)[0]))
    of = np.repeat(np.arange(len(found.cyclic)), np.diff(found.offset)).tolist()
    columns = (found.tail, found.head, found.departure, found.arrival - found.departure)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    assert len(rows) == len(level)
    assert dict(zip(rows, of, strict=True)) == level
    assert set(np.flatnonzero(found.cyclic).tolist()) == cyclic


@settings(max_examples=200)
@given(timetables, st.lists(st.tuples(st.integers(0, VERTICES - 1), st.integers(0, 12)), min_size=1, max_size=5))
@example(CYCLE, [(0, 5), (1, 5), (2, 0)])
def test_arrivals_equal_connection_scan(connections: list[Connection], asked: list[tuple[int, int]]) -> None:
    store = connections_store(connections, VERTICES)
    queries = [(str(u), second) for u, second in asked]
    assert answers(store, queries, "esdg") == answers(store, queries, "connection-scan")


def last_round(connections: list[Connection], origin: int, second: int) -> int:
    """All connections in every round, labels read as they were before it."""
    before, rounds = {origin: second}, 0
    while True:
        label = dict(before)
        for u, v, t, lasts in connections:
            if before.get(u, NEVER) <= t:
                label[v] = min(label.get(v, NEVER), t + lasts)
        if label == before:
            return rounds
        before, rounds = label, rounds + 1


@settings(max_examples=200)
@given(timetables, st.lists(st.tuples(st.integers(0, VERTICES - 1), st.integers(0, 12)), max_size=5))
def test_quantities(connections: list[Connection], asked: list[tuple[int, int]]) -> None:
    store = connections_store(connections, VERTICES)
    rows, number = stored(store, connections)
    origin, departure = np.array(asked, np.int32).reshape(-1, 2).T
    some = quantities(store, Queries(np.arange(len(asked)), origin, origin, departure))
    assert some.connections == len(rows)
    assert some.diameter == max((last_round(rows, number[u], second) for u, second in asked), default=0)
    level, cyclic = levels_of(graph_of(rows))
    assert some.longest_path == max(level.values()) + 1
    assert some.level_parallel_factor == len(rows) / some.longest_path
    whole = quantities(store, None)
    assert whole.diameter == max(last_round(rows, u, t) for u in range(VERTICES) for t in range(11))
    assert (some.exact, whole.exact) == (False, True)
    assert some.diameter <= whole.diameter
    assert cyclic or whole.diameter <= whole.longest_path
    assert some.parallel_factor == (len(rows) / some.diameter if some.diameter else None)


def relaxed(connections: list[Connection], origin: int, second: int) -> tuple[int, int]:
    """Connections relaxed in all rounds, and of them those that are their type's first and come soon enough."""
    label, active, counts = {origin: second}, {origin}, [0, 0]
    types = {(u, v, lasts): sorted(t for *ends, t, d in connections if (*ends, d) == (u, v, lasts))
             for u, v, _, lasts in connections}  # fmt: skip
    while active:
        before = dict(label)
        for (u, v, lasts), departures in types.items():
            caught = [t for t in departures if u in active and t >= before[u]]
            counts[0] += len(caught)
            counts[1] += bool(caught) and departures[0] <= before.get(v, NEVER)
            for t in caught:
                label[v] = min(label.get(v, NEVER), t + lasts)
        active = {v for v in label if label[v] != before.get(v)}
    return counts[0], counts[1]


@settings(max_examples=200)
@given(timetables, st.lists(st.tuples(st.integers(0, VERTICES - 1), st.integers(0, 12)), min_size=1, max_size=5))
@example(CYCLE, [(0, 5), (1, 5), (2, 0)])
@example([(0, 1, 2, 0), (0, 1, 4, 7), (1, 0, 3, 2), (0, 1, 9, 0)], [(0, 0), (0, 3)])
def test_processed(connections: list[Connection], asked: list[tuple[int, int]]) -> None:
    """Counts by the definition, round by round."""
    store = connections_store(connections, VERTICES)
    rows, number = stored(store, connections)
    origin, departure = np.array(asked, np.int32).T
    found = processed(store, vertices_of(store, origin), departure)
    expected = np.array([relaxed(rows, number[u], second) for u, second in asked]) / len(rows)
    assert np.array_equal(found["connection"], expected[:, 0])
    for name in ("connection-type", "connection-type-ap", "cluster-ap", "edge"):
        assert np.array_equal(found[name], expected[:, 1])
    assert found["esdg"].tolist() == [1.0] * len(asked)
    scanned = [sum(t >= second for _, _, t, _ in rows) / len(rows) for _, second in asked]
    assert found["connection-scan"].tolist() == scanned


def test_chain() -> None:
    """A chain of ten hops: ten levels, ten rounds, one connection at a time."""
    found = quantities(connections_store([(k, k + 1, 10 * k, 10) for k in range(10)], 11), None)
    assert (found.longest_path, found.diameter, found.parallel_factor, found.level_parallel_factor) == (10, 10, 1, 1)


def test_more_levels_than_rounds() -> None:
    """A shuttle makes a long path in the graph; from anywhere an arrival takes one ride."""
    found = quantities(connections_store([(k % 2, 1 - k % 2, 10 * k, 10) for k in range(20)], 2), None)
    assert (found.longest_path, found.diameter) == (20, 1)


@pytest.mark.parametrize(("fast", "slow", "start"), [(1, 2, 0), (2, 1, 100)])
def test_rounds_read_the_labels_before(fast: int, slow: int, start: int) -> None:
    """The detour over `fast` lowers `slow` in the second round, and what follows `slow` in the third, in any order."""
    connections = [
        row
        for one, other, t in ((1, 2, 0), (2, 1, 100))
        for row in (
            (0, one, t, 1),
            (0, other, t, 10),
            (one, other, t + 1, 1),
            (other, 3, t + 2, 1),
            (other, 3, t + 10, 1),
        )
    ]
    store = connections_store(connections, VERTICES)
    assert diameter(store, vertices_of(store, np.zeros(1, np.int32)), np.array([start], np.int32)) == 3
    assert answers(store, [("0", start)], "esdg") == [
        {"0": start, str(fast): start + 1, str(slow): start + 2, "3": start + 3}
    ]


@pytest.mark.parametrize("options", [{}, {"build__subtrips": "sqrt-mean"}])
@pytest.mark.parametrize(("name", "day"), [("bart", "2023-04-13"), ("cairns", "2014-12-05")])
def test_real_feeds(name: str, day: str, options: dict) -> None:
    store = build([real_feed(name)], day, walk__mode="none", **options)
    queries = random_queries(store, 200, 3)
    sources = vertices_of(store, queries.origin)
    labels, expected = (Arrivals(store, name)(sources, queries.departure) for name in ("esdg", "connection-scan"))
    assert np.array_equal(labels, expected)
    found = quantities(store, queries)
    assert 1 < found.diameter <= found.longest_path


def test_walking_is_refused(tmp_path: Path) -> None:
    """In one line, by the engine and by the quantities."""
    path = feed(tmp_path, "t: A 8:00, B 8:10", stops="stop_id,stop_lat,stop_lon\nA,50,8\nB,50.001,8")
    store = build([path])
    assert len(store.timetable.footpaths.to)
    with pytest.raises(HeadwayError, match=r"^the edge-scan-dependency graph is defined .* with --walk none$"):
        CpuEngine(store, "esdg")
    with pytest.raises(HeadwayError, match=r"^the temporal diameter is defined .* with --walk none$"):
        quantities(store, None)
    with pytest.raises(HeadwayError, match=r"^the share of connections processed is defined .* with --walk none$"):
        processed(store, vertices_of(store, np.zeros(1, np.int32)), np.zeros(1, np.int32))


def test_command_line(tmp_path: Path) -> None:
    """The same answer as any engine's; a store with footpaths is refused in one line."""
    path = feed(tmp_path, TIMETABLE, stops=STOPS)
    for walk in ("none", "default"):
        done("build", path, "-o", tmp_path / walk, "--date", "2026-06-10", "--walk", walk, "-q")
    query = ("--from", "A", "--at", "8:00")
    answer = done("query", tmp_path / "none", "--algorithm", "esdg", *query)
    assert answer == done("query", tmp_path / "none", *query)
    assert refused("query", tmp_path / "default", "--algorithm", "esdg", *query).endswith("build one with --walk none")


def test_exact_is_for_small_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    store = connections_store(CYCLE, 3)
    monkeypatch.setattr("headway.pipeline.quantities.EXACT", 4)
    assert quantities(store, None).exact
    monkeypatch.setattr("headway.pipeline.quantities.EXACT", 3)
    with pytest.raises(HeadwayError, match="takes less than 3 connections, and the store has 3"):
        quantities(store, None)
