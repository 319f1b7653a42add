"""Runs of snapshots and the parts of a graph that they need, against windows of the whole graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dynamic_graphs import changing, graph_of, graphs
from headway.cluster.dask import Workers, workers
from headway.pipeline.snapshots import Run, cut, part, runs, window_edges
from headway.storage.dt_csr import DTCSR
from headway.storage.errors import HeadwayError
from headway.storage.parts import load_part, save_parts
from headway.storage.window import Window
from hypothesis import given
from hypothesis import strategies as st

SIZES = st.lists(st.integers(0, 9), min_size=1, max_size=12)


@given(SIZES, st.integers(1, 15), st.integers(0, 3))
def test_runs_are_of_about_equal_sums(sizes: list[int], count: int, first: int) -> None:
    found = runs(np.array(sizes), count, first)
    assert len(found) == count
    assert [a for a, _ in found] == [first, *(b for _, b in found[:-1])]  # each begins where the one before it ends
    assert found[-1][1] == first + len(sizes)
    sums = [sum(sizes[a - first : b - first]) for a, b in found]
    assert max(sums) <= sum(sizes) / count + max(sizes)


def test_runs_by_edges_and_not_by_number() -> None:
    assert runs(np.array([5, 1, 1, 1, 1, 1]), 2) == [(0, 1), (1, 6)]
    assert runs(np.array([0, 0, 4, 4, 0]), 2) == [(0, 3), (3, 5)]
    assert runs(np.array([0, 0, 0, 0]), 2) == [(0, 2), (2, 4)]
    assert sorted(b - a for a, b in runs(np.array([1, 1]), 4)) == [0, 0, 1, 1]
    assert runs(np.array([], np.int64), 2) == [(0, 0), (0, 0)]


@given(st.one_of(graphs(), changing()), st.integers(1, 6))
def test_edges_of_windows(graph: DTCSR, length: int) -> None:
    assert window_edges(graph, length).tolist() == [len(one.edges()[2]) for one in graph.windows(length)]


@st.composite
def cases(draw: st.DrawFn) -> tuple[DTCSR, list[Run], int, int, bool]:
    """A graph, some runs of its ticks (empty ones too), the length of a window, ticks ahead, sets or multisets."""
    graph = draw(st.one_of(graphs(), changing()))
    borders = sorted(draw(st.lists(st.integers(0, graph.ticks), min_size=2, max_size=6)))
    some = list(zip(borders[::2], borders[1::2], strict=False))
    return graph, some, draw(st.integers(1, 7)), draw(st.integers(0, 2)), draw(st.booleans())


def same(mine: Window, whole: Window, ids: np.ndarray) -> None:
    """Edges both ways, ids and values."""
    ours, theirs = mine.edges(), whole.edges()
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_array_equal(ours[1], theirs[1])
    np.testing.assert_array_equal(ids[ours[2]], theirs[2])
    np.testing.assert_array_equal(mine.values(), whole.values())
    np.testing.assert_array_equal(mine.in_degrees(), whole.in_degrees())
    np.testing.assert_array_equal(mine.to_scipy().toarray(), whole.to_scipy().toarray())


@given(cases())
def test_windows_of_a_part(case: tuple[DTCSR, list[Run], int, int, bool]) -> None:
    graph, some, length, ahead, distinct = case
    found = part(graph, some, length, ahead)
    assert found.graph.times is graph.times
    for first, last in some:
        for tick in range(first, last):
            begin = max(0, tick - length + 1)
            same(found.graph.window(begin, tick, distinct), graph.window(begin, tick, distinct), found.edges)
        for tick in range(last, min(last + ahead, graph.ticks) if first < last else last):
            same(found.graph.snapshot(tick, True), graph.snapshot(tick, True), found.edges)
    for mine, whole in zip(found.graph.windows(length), graph.windows(length), strict=True):
        if any(first <= mine.last < last for first, last in some):
            same(mine, whole, found.edges)


@given(cases())
def test_windows_at_some_ticks(case: tuple[DTCSR, list[Run], int, int, bool]) -> None:
    """Those that a sweep over all ticks gives."""
    graph, some, length, _, distinct = case
    ends = [tick for first, last in some for tick in range(first, last)]
    whole = list(graph.windows(length, 1, distinct))
    for mine, end in zip(graph.windows_at(ends, length, distinct), ends, strict=True):
        assert (mine.first, mine.last) == (whole[end].first, end)
        same(mine, whole[end], np.arange(graph.events))


@given(cases())
def test_a_part_holds_no_more(case: tuple[DTCSR, list[Run], int, int, bool]) -> None:
    """Each of its events is in a window of the whole graph that is needed; its twin has the same events."""
    graph, some, length, ahead, _ = case
    found = part(graph, some, length, ahead)
    needed = [
        graph.window(max(0, first - length + 1), min(last + ahead, graph.ticks) - 1).edges()[2]
        for first, last in some
        if first < last
    ]
    assert found.edges.tolist() == sorted({int(one) for ids in needed for one in ids})
    twin, columns = found.graph.by_destination, found.graph.by_source.column_indices
    rows = np.repeat(np.arange(graph.nodes), np.diff(twin.starts[twin.row_offset].astype(np.int64)))
    np.testing.assert_array_equal(rows, columns[found.graph.perm])


def graph() -> DTCSR:
    rng = np.random.default_rng(0)
    return graph_of([tuple(row) for row in rng.integers(0, 12, (300, 3)).tolist()], 12, values=True)


def test_saved_parts(tmp_path: Path) -> None:
    whole = graph()
    cuts = runs(window_edges(whole, 3), 4)
    made = cut(whole, [[run] for run in cuts], 3, 0, Workers(2))
    save_parts(tmp_path / "parts", made)
    for number, (first, last) in enumerate(cuts):
        found = load_part(tmp_path / "parts", number)
        assert found.graph.ids.equals(whole.ids)
        for tick in range(first, last):
            begin = max(0, tick - 2)
            same(found.graph.window(begin, tick), whole.window(begin, tick), found.edges)
    with pytest.raises(HeadwayError, match="not a 'dt-csr'"):
        DTCSR.load(tmp_path / "parts")


def test_parts_by_processes() -> None:
    """The same arrays from Dask's workers."""
    whole = graph()
    each = [[(0, 4)], [(4, 12)]]
    with workers("processes", 2, None, None, 2) as there:
        made = cut(whole, each, 2, 1, there)
    for mine, here in zip(made, cut(whole, each, 2, 1, Workers(1)), strict=True):
        np.testing.assert_array_equal(mine.edges, here.edges)
        for name, array in here.graph.arrays().items():
            np.testing.assert_array_equal(mine.graph.arrays()[name], array)
