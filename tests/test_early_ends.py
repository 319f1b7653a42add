"""Engines that may stop early: what is promised of labels when a limit or targets are given."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import NEVER, build, connections_store, real_feed
from headway.pipeline.engines import ALGORITHMS, Arrivals
from headway.storage.store import Store
from hypothesis import given, settings
from hypothesis import strategies as st

VERTICES = 6

rows = st.lists(
    st.tuples(
        st.integers(0, VERTICES - 1),
        st.integers(0, VERTICES - 1),
        st.one_of(st.integers(0, 60), st.integers(0, 6000)),
        st.sampled_from([0, 1, 7, 8, 9, 60, 255, 256, 257, 3000, 90_000]),
    ),
    min_size=1,
    max_size=40,
)


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[list[int]], list[int], list[list[int]], list[int]]:
    """Sources (a vertex twice, or several), seconds, targets (none, one, several, a source), limits, of up to 5."""
    size = draw(st.integers(1, 5))

    def each(one: st.SearchStrategy) -> list:
        return draw(st.lists(one, min_size=size, max_size=size))

    vertices = st.lists(st.integers(0, VERTICES - 1), max_size=3)
    leave = each(st.integers(0, 3000))
    limit = [max(0, second + more) for second, more in zip(leave, each(st.integers(-5, 4000)), strict=True)]
    return each(vertices), leave, each(vertices), [NEVER if second % 5 == 0 else second for second in limit]


def csr(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.cumsum([0] + [len(one) for one in lists]), np.array([v for one in lists for v in one], np.uint32)


def assert_promises(store: Store, sources: list, leave: list[int], targets: list, limit: list[int]) -> None:
    start, second, end = csr(sources), np.array(leave, np.int32), np.array(limit, np.int32)
    exact = Arrivals(store, "connection-scan")(start, second)
    for algorithm in ALGORITHMS:
        engine = Arrivals(store, algorithm)
        assert np.array_equal(engine(start, second), exact), algorithm

        limited = engine(start, second, limit=end)
        assert (limited >= exact).all(), "an arrival that no one can make"
        up_to = exact <= end[:, None]
        assert np.array_equal(limited[up_to], exact[up_to])

        aimed = engine(start, second, csr(targets))
        assert (aimed >= exact).all()
        for q, some in enumerate(targets):
            if some:
                assert aimed[q, some].min() == exact[q, some].min(), (algorithm, q)
            else:
                assert np.array_equal(aimed[q], exact[q]), "nothing was aimed at, so all is wanted"

        both = engine(start, second, csr(targets), end)
        assert (both >= exact).all()
        for q, some in enumerate(targets):
            wanted = min([*exact[q, some].tolist(), limit[q]])
            assert np.array_equal(both[q, exact[q] <= wanted], exact[q, exact[q] <= wanted])


@settings(max_examples=200, deadline=None)
@given(rows, questions())
def test_limits_and_targets(connections: list[tuple[int, int, int, int]], asked: tuple) -> None:
    store = connections_store(connections, VERTICES)
    assert_promises(store, *asked)


@pytest.mark.parametrize("walk", ["none", "default"])
def test_limits_and_targets_on_a_real_feed(walk: str) -> None:
    """With footpaths, and many queries one after another, so that what one leaves behind would show."""
    store = build([real_feed("bart")], "2023-04-13", walk__mode=walk)
    rng = np.random.default_rng(7)
    vertices = store.timetable.vertices
    sources = rng.integers(0, vertices, (150, 2)).tolist()
    leave = rng.integers(0, 172800, 150).tolist()
    targets = rng.integers(0, vertices, (150, 3)).tolist()
    limit = [second + int(more) for second, more in zip(leave, rng.integers(0, 7200, 150), strict=True)]
    assert_promises(store, sources, leave, targets, limit)
