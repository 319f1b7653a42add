"""Edge profiles: for any edge and second what the connections themselves say; both widths of words."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import NEVER, answers, build, connections_store, real_feed
from headway.pipeline.engines import ALGORITHMS
from headway.pipeline.partition import SLOT
from headway.storage.edge_profile import EdgeProfile
from headway.storage.store import Store
from hypothesis import example, given, settings
from hypothesis import strategies as st

HOURS = 3600


def lookup(profile: EdgeProfile, edge: int, second: int) -> int:
    """The earliest arrival over an edge, word by word as the layout says; `NEVER` without one."""
    edges = len(profile.least)
    slot = second // profile.slot
    if slot >= profile.slots:
        return NEVER
    group = slot * edges + edge
    none = 2 ** (8 * profile.word.itemsize) - 1
    for word in profile.word[int(profile.index[group]) : int(profile.index[group + 1])].tolist():
        if word == none:
            return NEVER
        departure, duration = word >> profile.shift, word % 2**profile.shift
        if departure >= second:
            return departure + duration
    raise AssertionError("the group has no word that ends it")


def departures(store: Store) -> list[list[tuple[int, int]]]:
    """For each edge all (departure, arrival) of its connections."""
    graph, connections = store.cluster_ap, store.connections
    out = []
    for edge in range(len(graph.edge_to)):
        pairs = []
        for kind in range(graph.edge_type[edge], graph.edge_type[edge + 1]):
            for t in connections.departure[connections.offset[kind] : connections.offset[kind + 1]].tolist():
                pairs.append((t, t + int(graph.duration[kind])))
        out.append(pairs)
    return out


def assert_exact(store: Store, seconds: set[int] | None = None) -> None:
    """The profile at each departure, beside it, at borders of slots and at the given seconds."""
    profile = store.profile
    borders = {SLOT * k + d for k in range(profile.slots + 2) for d in (-1, 0, 1)}
    everywhere = {s for s in borders | (seconds or set()) if s >= 0}
    for edge, pairs in enumerate(departures(store)):
        assert profile.least[edge] == min(arrival - t for t, arrival in pairs)
        for second in everywhere | {max(0, t + d) for t, _ in pairs for d in (-1, 0, 1)}:
            expected = min((arrival for t, arrival in pairs if t >= second), default=NEVER)
            assert lookup(profile, edge, second) == expected, (edge, second)


# Few seconds, so that departures tie and beat each other; borders of slots; anything.
seconds = st.one_of(
    st.integers(0, 40),
    st.builds(lambda k, d: max(0, SLOT * k + d), st.integers(0, 60), st.integers(-1, 1)),
    st.integers(0, 2 * 86400 - 1),
)
durations = st.one_of(st.integers(0, 30), st.integers(0, 4000), st.sampled_from([14 * HOURS, 41 * HOURS]))
rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), seconds, durations), min_size=1, max_size=40)


@settings(max_examples=120)
@given(rows, st.sets(st.integers(0, 3 * 86400), max_size=10))
@example([(0, 1, 0, 0)], set())
@example([(0, 1, SLOT - 1, 5), (0, 1, SLOT, 4), (0, 1, SLOT + 1, 2)], set())
@example([(0, 1, 10, 100), (0, 1, 10, 50), (0, 1, 20, 40), (0, 1, 30, 30), (0, 1, 31, 30)], set())
def test_profile_equals_brute_force(connections: list[tuple[int, int, int, int]], others: set[int]) -> None:
    assert_exact(connections_store(connections, 4), others)


@pytest.mark.parametrize(("longest", "kind"), [(2 * HOURS, np.uint32), (41 * HOURS, np.uint64)])
def test_width_of_words(longest: int, kind: type) -> None:
    """A hop of 41 hours and departures up to 48 hours take 18 + 18 bits; every engine is exact with either."""
    connections = [(0, 1, 47 * HOURS, longest), (0, 1, 8 * HOURS, longest), (1, 2, 47 * HOURS, 60), (2, 0, 90_000, 1)]
    store = connections_store(connections, 3)
    assert store.profile.word.dtype == kind
    assert_exact(store)
    early = {"0": 8 * HOURS, "1": 8 * HOURS + longest}
    late = {"0": 8 * HOURS + 1, "1": 47 * HOURS + longest}
    if early["1"] <= 47 * HOURS:
        early["2"] = 47 * HOURS + 60
    for algorithm in ALGORITHMS:
        assert answers(store, [("0", 8 * HOURS), ("0", 8 * HOURS + 1)], algorithm) == [early, late]


def test_just_as_wide_as_a_narrow_word() -> None:
    """Departures and durations that fill 32 bits exactly, one second less and one more."""
    for last, longest, kind in (
        (2**17, 2**14 - 1, np.uint32),
        (2**17, 2**14, np.uint64),
        (2**16 - 2 * SLOT, 2**16 - 1, np.uint32),
        (2**16, 2**16 - 1, np.uint64),
    ):
        store = connections_store([(0, 1, last, longest), (0, 1, 5, 1)], 2)
        assert store.profile.word.dtype == kind
        assert_exact(store)
        for algorithm in ALGORITHMS:
            found = answers(store, [("0", 0), ("0", 6), ("0", last), ("0", last + 1)], algorithm)
            assert [len(one) for one in found] == [2, 2, 2, 1]
            assert [one["1"] for one in found[:3]] == [6, last + longest, last + longest]


def test_query_after_the_last_departure_in_its_slot(algorithm: str) -> None:
    """The last departure is at 18:05, which takes 16 bits, and lasts 10 hours: 16 more. 18:12:20 takes 17 bits.

    A key that doesn't fit the word would find the vehicle that has left.
    """
    last = 18 * HOURS + 300
    store = connections_store([(0, 1, last, 10 * HOURS)], 2)
    asked = [("0", second) for second in (last, last + 1, 2**16 - 1, 2**16, 2**16 + 4, last + SLOT)]
    found = answers(store, asked, algorithm)
    assert found == [{"0": last, "1": last + 10 * HOURS}] + [{"0": second} for _, second in asked[1:]]


@settings(max_examples=100)
@given(rows, st.lists(st.tuples(st.integers(0, 3), seconds), min_size=1, max_size=6))
def test_engines_equal_relaxing_until_stable(connections: list, asked: list[tuple[int, int]]) -> None:
    """Also with durations up to 41 hours, ties and zero seconds, at departures, beside them and at borders."""
    store = connections_store(connections, 4)
    horizon = store.timetable.horizon
    asked = [(u, t) for u, t in asked + [(u, max(0, t + d)) for u, _, t, _ in connections[:3] for d in (0, 1)]]
    asked = [(u, t) for u, t in asked if t < horizon]
    expected = [relax(connections, *query) for query in asked]
    for algorithm in ALGORITHMS:
        assert answers(store, [(str(u), t) for u, t in asked], algorithm) == expected


def relax(connections: list, origin: int, second: int) -> dict[str, int]:
    best = {origin: second}
    for _ in range(len(connections) + 1):
        for u, v, t, lasts in connections:
            if best.get(u, NEVER) <= t:
                best[v] = min(best.get(v, NEVER), t + lasts)
    return {str(v): t for v, t in best.items()}


@pytest.mark.parametrize(("name", "day"), [("sncf_2016", "2013-12-13"), ("bart", "2023-04-13")])
def test_profiles_of_a_real_feed(name: str, day: str) -> None:
    """sncf_2016 has trains of up to 41 hours."""
    store = build([real_feed(name)], day)
    profile, pairs = store.profile, departures(store)
    rng = np.random.default_rng(1)
    for edge in rng.choice(len(pairs), min(len(pairs), 150), replace=False).tolist():
        times = {t + d for t, _ in pairs[edge] for d in (0, 1)} | set(rng.integers(0, 172800 + 2 * SLOT, 30).tolist())
        for second in times:
            expected = min((arrival for t, arrival in pairs[edge] if t >= second), default=NEVER)
            assert lookup(profile, edge, second) == expected
