"""Covers of departures by progressions: exact for any cluster, and hardly more than the fewest possible."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from headway.kernels.few import FEW, cover_few
from headway.kernels.progressions import ALL_CANDIDATES, cover, cover_many, cover_types
from headway.storage import cluster_ap
from headway.storage.cluster_ap import ClusterAp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from minimum import minimum

WIDTHS = (5, 7, 60, 180, 1440)  # minutes


def covered(terms: list[int], base: int = 0) -> list[tuple[int, int, int]]:
    """The kernel's progressions (start, end, step) of one cluster's departures."""
    out = np.full((3, len(terms)), -1, np.int32)
    present = np.zeros(terms[-1] - base + 1, np.bool_)
    used = cover(np.array(terms, np.int32), base, present, *out)
    assert not present.any(), "scratch was not cleaned"
    return [tuple(column) for column in out[:, :used].T.tolist()]


def expanded(progressions: list[tuple[int, int, int]]) -> set[int]:
    """All terms, with what every progression must fulfil."""
    for start, end, step in progressions:
        assert step >= 1
        assert start <= end
        assert (end - start) % step == 0
    return {term for start, end, step in progressions for term in range(start, end + 1, step)}


def assert_exact(terms: list[int], base: int = 0) -> int:
    found = covered(terms, base)
    assert expanded(found) == set(terms)
    assert all(a[0] <= b[0] for a, b in pairwise(found)), "not sorted by first term"
    assert len(found) <= (len(terms) + 1) // 2, "more than pairs would take"
    return len(found)


clusters = st.sets(st.integers(0, 3599), min_size=1, max_size=60).map(sorted)
# A grid of few seconds is full of progressions.
crowded = st.sets(st.integers(0, 40), min_size=1).map(sorted)
headways = st.tuples(st.integers(0, 900), st.sampled_from([1, 60, 90, 120, 300, 301, 600, 1200]), st.integers(1, 12))


@st.composite
def periodic(draw: st.DrawFn) -> list[int]:
    """Up to three headways over each other, with a few departures more or fewer."""
    terms = {
        start + step * k
        for start, step, count in draw(st.lists(headways, min_size=1, max_size=3))
        for k in range(count)
    }
    terms ^= draw(st.sets(st.sampled_from(sorted(terms)), max_size=2))
    terms |= draw(st.sets(st.integers(0, 3599), max_size=2))
    return sorted(terms or {0})


@settings(max_examples=300)
@given(st.one_of(clusters, crowded, periodic()), st.integers(0, 3 * 86400))
@example([0], 0)
@example([7], 90000)
@example([0, 3599], 0)
def test_cover_is_exactly_the_departures(terms: list[int], base: int) -> None:
    assert_exact([base + term for term in terms], base)


@pytest.mark.parametrize(
    ("terms", "fewest"),
    [
        ([5], 1),
        ([5, 6], 1),
        (list(range(0, 3600, 600)), 1),
        (sorted([*range(0, 3600, 600), *range(100, 3600, 700)]), 2),  # two headways
        (sorted({*range(0, 3600, 300), *range(0, 3600, 400)}), 2),  # with departures in common
        ([0, 60, 120, 180, 1000], 2),
        ([0, 1, 3, 7, 15, 31], 3),  # no three in a row: pairs
    ],
)
def test_structured_clusters(terms: list[int], fewest: int) -> None:
    assert assert_exact(terms) == fewest


@settings(max_examples=300)
@given(st.one_of(clusters, crowded, periodic()), st.integers(0, 3))
def test_few_departures_as_many(terms: list[int], first: int) -> None:
    """Both ways to cover a cluster find the same, among others' departures too."""
    terms = terms[:FEW]
    around = np.array([5] * first + terms + [7], np.int32)
    end, step = np.full((2, len(around)), -1, np.int32)
    cover_few(around, first, len(terms), end, step)
    assert (step[:first] == -1).all()
    assert step[-1] == -1
    found = [(t, e, d) for t, e, d in zip(terms, end[first:].tolist(), step[first:].tolist(), strict=False) if d]
    if len(terms) > 2:
        out = np.empty((3, len(terms)), np.int32)
        used = cover_many(np.array(terms, np.int32), 0, np.zeros(terms[-1] + 1, np.bool_), *out)
        assert found == [tuple(column) for column in out[:, :used].T.tolist()]
    else:
        assert found == [(terms[0], terms[-1], max(1, terms[-1] - terms[0]))]


@pytest.mark.parametrize("minutes", WIDTHS)
def test_every_second(minutes: int) -> None:
    """One progression, on either side of the size above which the cover is found another way."""
    seconds = minutes * 60
    assert assert_exact(list(range(seconds))) == 1
    assert assert_exact(list(range(min(seconds, ALL_CANDIDATES)))) == 1


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from([1200, 3600, 86400]), st.integers(-1, 60))
def test_large_clusters(seed: int, width: int, beyond: int) -> None:
    """Around and above the size where another way is taken; random, and two headways with gaps."""
    rng = random.Random(seed)
    size = ALL_CANDIDATES + beyond
    assert_exact(sorted(rng.sample(range(width), size)))
    two = sorted({*range(rng.randrange(9), width, 7), *range(rng.randrange(9), width, 11)})[: size + 40]
    assert_exact(sorted(rng.sample(two, min(size, len(two)))))


@settings(max_examples=150)
@given(
    st.one_of(
        st.sets(st.integers(0, 3599), min_size=1, max_size=12), st.sets(st.integers(0, 30), min_size=1, max_size=12)
    )
)
def test_never_fewer_than_the_minimum(terms: set[int]) -> None:
    assert assert_exact(sorted(terms)) >= minimum(sorted(terms))


@settings(max_examples=60)
@given(st.sets(st.integers(0, 14), min_size=1, max_size=6).map(sorted))
def test_minimum_is_the_minimum(terms: list[int]) -> None:
    """The search for the minimum against all families of all progressions, made-shorter ones included."""
    inside = []
    for a in terms:
        for step in range(1, 15):
            run = {a}
            inside.append(frozenset(run))
            while max(run) + step in terms:
                run.add(max(run) + step)
                inside.append(frozenset(run))
    reached = {frozenset()}
    count = 0
    while frozenset(terms) not in reached:
        reached = {one | other for one in reached for other in set(inside)}
        count += 1
    assert minimum(terms) == count


def test_close_to_the_minimum_on_realistic_clusters() -> None:
    """An hour of one line: a headway, seldom two, times in whole minutes, now and then one departure off."""
    rng = random.Random(20260930)
    ours = fewest = 0
    for _ in range(3000):
        step = rng.choice([240, 300, 360, 480, 600, 720, 900, 1200])
        start = rng.randrange(0, step, 60)
        terms = {t for t in range(start, 3600, step)}
        if rng.random() < 0.3:
            half = rng.randrange(900, 2700, 60)
            other = rng.choice([300, 600, 900])
            terms = {t for t in terms if t < half} | set(range(half, 3600, other))
        if rng.random() < 0.4:
            terms ^= {rng.randrange(0, 3600, 60)}
        if not 1 <= len(terms) <= 12:
            continue
        ours += assert_exact(sorted(terms))
        fewest += minimum(sorted(terms))
    assert fewest <= ours <= 1.002 * fewest


@pytest.mark.parametrize("minutes", WIDTHS)
@settings(max_examples=40)
@given(
    types=st.lists(st.sets(st.integers(0, 2 * 86400 - 1), min_size=1, max_size=40).map(sorted), min_size=1, max_size=5)
)
def test_types_into_clusters(minutes: int, types: list[list[int]]) -> None:
    """Each type's departures by cluster, as a dict does it; the dense form of the same."""
    width = minutes * 60
    departure = np.array([term for terms in types for term in terms], np.int32)
    offset = np.cumsum([0] + [len(terms) for terms in types])
    size = len(departure)
    per_type = np.zeros(len(types), np.int64)
    number, per_cluster = np.empty(size, np.uint16), np.empty(size, np.int64)
    columns = [np.empty(size, np.int32) for _ in range(3)]
    scratch = np.zeros(width + 1, np.bool_)
    out = (per_type, number, per_cluster, *columns)
    clusters, total = cover_types((0, len(types)), offset, departure, width, scratch, out)
    assert clusters == per_type.sum()
    graph = make(width, per_type, number[:clusters], per_cluster[:clusters], [column[:total] for column in columns])

    count = -(-2 * 86400 // width)
    dense = graph.dense(count)
    for i, terms in enumerate(types):
        expected: dict[int, set[int]] = {}
        for term in terms:
            expected.setdefault(term // width, set()).add(term)
        assert number[graph.type_cluster[i] : graph.type_cluster[i + 1]].tolist() == sorted(expected)
        for c in range(graph.type_cluster[i], graph.type_cluster[i + 1]):
            some = slice(graph.cluster_first[c], graph.cluster_first[c + 1])
            assert expanded(rows(graph, some)) == expected[graph.cluster_number[c]]
        for j in range(count):
            some = slice(dense[i * count + j], dense[i * count + j + 1])
            assert expanded(rows(graph, some)) == expected.get(j, set())


def test_dense_form_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    one = [np.array([5], np.int32), np.array([5], np.int32), np.array([1], np.int32)]
    graph = make(60, np.array([1]), np.array([0], np.uint16), np.array([1]), one)
    assert graph.dense(3).tolist() == [0, 1, 1, 1]
    monkeypatch.setattr(cluster_ap, "DENSE_LIMIT", 8 * 3)
    assert graph.dense(3).tolist() == [0, 1, 1, 1]
    with pytest.raises(MemoryError, match="1 types x 4 clusters"):
        graph.dense(4)


def make(width: int, per_type: np.ndarray, number: np.ndarray, per_cluster: np.ndarray, columns: list) -> ClusterAp:
    """Types of one edge, as many as there are."""
    types = len(per_type)
    return ClusterAp(
        width,
        np.array([0, 1]),
        np.array([0], np.uint32),
        np.array([0, types]),
        np.arange(types, dtype=np.int32),
        np.cumsum([0, *per_type]),
        number,
        np.cumsum([0, *per_cluster]),
        *columns,
    )


def rows(graph: ClusterAp, some: slice) -> list[tuple[int, int, int]]:
    return list(zip(graph.start[some].tolist(), graph.end[some].tolist(), graph.step[some].tolist(), strict=True))
