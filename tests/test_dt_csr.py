"""DT-CSR against lists and dictionaries per snapshot: building, windows, saving."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from snapshot_oracle import Row, check_arrays, check_window, edges_of, merged, presences, ticked, window_edges

import headway as hw

NODES = 6
VALUES = st.integers(-8, 8).map(lambda n: n / 4)  # sums of them are exact
NODE = st.integers(0, 2)  # few, so that pairs come again; the others are isolated
ROW = st.tuples(NODE, NODE, st.integers(-4, 11), VALUES)
ROWS = st.lists(ROW, max_size=3) | st.lists(ROW, min_size=10, max_size=40)
CHANGES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 12), st.sampled_from([1.0, 2.0]), st.booleans()),
    max_size=30,
)


def graph_of(rows: list[Row], values: bool = True, **options) -> hw.DTCSR:
    columns = list(map(np.array, zip(*rows, strict=True))) if rows else [np.empty(0, np.int64)] * 4
    return hw.DTCSR.from_events(tuple(columns[: 4 if values else 3]), nodes=NODES, **options)


@st.composite
def discretised(draw) -> tuple[list[Row], dict, list[int]]:
    """Rows, options that make ticks, and where those ticks begin by plain arithmetic."""
    rows = draw(ROWS)
    times = [row[2] for row in rows]
    kind = draw(st.sampled_from(["distinct", "width", "start", "ticks", "times", "events_per_tick"]))
    count = draw(st.integers(1, 9))
    if kind == "times":
        starts = sorted({-4, *draw(st.lists(st.integers(-4, 15), max_size=5))})
        return rows, {"times": starts}, starts
    if not rows:
        return rows, {}, []
    if kind == "distinct":
        return rows, {}, sorted(set(times))
    if kind == "ticks":
        width = (max(times) - min(times) + count) // count
        return rows, {"ticks": count}, [min(times) + k * width for k in range(count)]
    if kind == "events_per_tick":  # equal times would be told apart by their order alone
        rows = list({row[2]: row for row in rows}.values())
        return rows, {"events_per_tick": count}, sorted(row[2] for row in rows)[::count]
    first = -13 if kind == "start" else next(t for t in range(min(times), min(times) - count, -1) if t % count == 0)
    return (
        rows,
        {"width": count} | ({"start": -13} if kind == "start" else {}),
        list(range(first, max(times) + 1, count)),
    )


@pytest.mark.parametrize("duplicates", ["multi", "last", "sum"])
@given(case=discretised(), values=st.booleans(), data=st.data())
def test_events(duplicates: str, case, values: bool, data) -> None:
    """Every discretisation, every way with duplicates, with and without values, windows of both meanings."""
    rows, options, starts = case
    graph = graph_of(rows, values, duplicates=duplicates, **options)
    check_arrays(graph)
    assert graph.times.tolist() == starts
    plain = rows if values else [(*row[:3], 1.0) for row in rows]
    snapshots = merged(ticked(plain, starts), duplicates)
    assert graph.events == sum(map(len, snapshots))
    assert graph.facts["merged duplicates"] == len(rows) - graph.events
    for tick, expected in enumerate(snapshots):
        check_window(graph.snapshot(tick), expected)
    if starts:
        first = data.draw(st.integers(0, len(starts) - 1))
        last = data.draw(st.integers(first, len(starts) - 1))
        for distinct in (False, True):
            check_window(graph.window(first, last, distinct), window_edges(snapshots, first, last, distinct))


@given(discretised(), st.integers(1, 5), st.integers(1, 4), st.booleans())
def test_sweep(case, length: int, step: int, distinct: bool) -> None:
    """A sweep's windows are those found one by one, and stay as they are when it goes on."""
    rows, options, _ = case
    graph = graph_of(rows, **options)
    swept = list(graph.windows(length, step, distinct))
    assert [window.last for window in swept] == list(range(0, graph.ticks, step))
    for window in swept:
        alone = graph.window(max(0, window.last - length + 1), window.last, distinct)
        assert (window.first, window.distinct) == (alone.first, distinct)
        for here, there in zip(
            window.by_source + window.by_destination, alone.by_source + alone.by_destination, strict=True
        ):
            assert here.dtype == there.dtype == np.uint32
            assert (here == there).all()


@given(discretised(), st.integers(-15, 15), st.integers(-15, 15), st.booleans())
def test_windows_of_times(case, first: int, last: int, distinct: bool) -> None:
    rows, options, starts = case
    snapshots = merged(ticked(rows, starts), "multi")
    inside = [tick for tick, start in enumerate(starts) if first <= start <= last] or [0, -1]
    found = graph_of(rows, **options).window_of_times(first, last, distinct)
    check_window(found, window_edges(snapshots, inside[0], inside[-1], distinct))


@given(CHANGES, st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_insertions_and_deletions(changes, width: int, length: int, values: bool) -> None:
    """At each tick the edges that are there; over several, each presence, or the last of each pair."""
    starts = list(range(0, max((change[2] for change in changes), default=-1) + 1, width))
    plain = changes if values else [(*change[:3], 1.0, change[4]) for change in changes]
    snapshots = presences(plain, starts)
    frame = pd.DataFrame(changes, columns=["src", "dst", "time", "value", "op"])
    frame = frame.astype({"src": "int64", "dst": "int64", "time": "int64", "value": "float64"})
    frame = frame.assign(op=frame["op"].map({True: "insert", False: "delete"}).astype(str))
    frame = frame if values else frame.drop(columns="value")
    graph = hw.DTCSR.from_events(frame, op="op", nodes=3, width=width, start=0)
    check_arrays(graph)
    assert graph.ticks == len(starts)
    for tick, expected in enumerate(snapshots):
        by_pair = {edge[:2]: edge for edge in edges_of(graph.snapshot(tick))}
        assert sorted(by_pair.values()) == expected
        assert len(edges_of(graph.snapshot(tick))) == len(expected)
        window = graph.snapshot(tick)
        check_window(window, edges_of(window))
    for window in graph.windows(length):
        alone = graph.window(window.first, window.last)
        assert edges_of(window) == edges_of(alone)
        union = {edge[:2] for tick in range(window.first, window.last + 1) for edge in snapshots[tick]}
        assert {edge[:2] for edge in edges_of(alone)} == union
        latest = {edge[:2]: edge[2] for tick in range(window.first, window.last + 1) for edge in snapshots[tick]}
        distinct = edges_of(graph.window(window.first, window.last, distinct=True))
        assert sorted(distinct) == sorted((*pair, value) for pair, value in latest.items())


def test_changes_that_change_nothing() -> None:
    """Deletions of absent edges are counted and change no degree; an insertion of a present one is a new value."""
    changes = {"src": [0, 0, 0, 0, 1], "dst": [1, 1, 1, 2, 1], "time": [0, 1, 2, 2, 3], "value": [1, 2, 2, 9, 9]}
    graph = hw.DTCSR.from_events({**changes, "op": ["-", "+", "+", "-", "-"]}, op="op", nodes=3)
    assert [edges_of(graph.snapshot(tick)) for tick in range(4)] == [[], [(0, 1, 2)], [(0, 1, 2)], [(0, 1, 2)]]
    assert graph.facts["deletions of absent edges"] == 3
    assert graph.facts["insertions of present edges"] == 1
    assert graph.snapshot(3).in_degrees().tolist() == [0, 1, 0]
    assert graph.events == 1


def test_delete_then_insert_in_one_tick_is_present() -> None:
    columns = {"src": [0, 0, 0], "dst": [1, 1, 1], "time": [0, 10, 11], "op": ["+", "-", "+"]}
    graph = hw.DTCSR.from_events(columns, op="op", width=10)
    assert [edges_of(graph.snapshot(tick)) for tick in range(2)] == [[(0, 1, 1)]] * 2
    assert graph.events == 1
    other = hw.DTCSR.from_events({**columns, "op": ["+", "+", "-"]}, op="op", width=10)
    assert [edges_of(other.snapshot(tick)) for tick in range(2)] == [[(0, 1, 1)], []]


def test_last_edge_deleted() -> None:
    columns = {"src": [4, 4], "dst": [2, 2], "time": [0, 3], "op": [1, -1]}
    graph = hw.DTCSR.from_events(columns, op="op", nodes=6, width=1)
    assert [len(edges_of(graph.snapshot(tick))) for tick in range(4)] == [1, 1, 1, 0]
    assert graph.snapshot(3).to_scipy().nnz == 0
    assert graph.snapshot(3).out_degrees().tolist() == [0] * 6


def test_removal_keeps_the_ids_of_others() -> None:
    columns = {"src": [0, 1, 2, 1], "dst": [1, 2, 0, 2], "time": [0, 0, 0, 1], "op": ["+", "+", "+", "-"]}
    graph = hw.DTCSR.from_events(columns, op="op")
    before, after = (graph.snapshot(tick).edges() for tick in (0, 1))
    ids = {(int(s), int(d)): int(i) for s, d, i in zip(*before, strict=True)}
    assert [(int(s), int(d)) for s, d, _ in zip(*after, strict=True)] == [(0, 1), (2, 0)]
    assert all(ids[int(s), int(d)] == i for s, d, i in zip(*after, strict=True))


def test_an_edge_of_time_2_is_never_seen_at_time_1() -> None:
    graph = graph_of([(0, 1, 2, 1.0), (2, 3, 1, 1.0)])
    assert graph.times.tolist() == [1, 2]
    assert edges_of(graph.window_of_times(1, 1)) == [(2, 3, 1)]
    assert edges_of(graph.snapshot(0)) == [(2, 3, 1)]
    assert edges_of(graph.snapshot(1)) == [(0, 1, 1)]


def test_first_event_at_tick_5_and_empty_ticks() -> None:
    graph = graph_of([(0, 1, 57, 1.0), (0, 1, 99, 2.0)], width=10, start=0)
    assert graph.ticks == 10
    assert [len(edges_of(graph.snapshot(tick))) for tick in range(10)] == [0, 0, 0, 0, 0, 1, 0, 0, 0, 1]
    assert graph.snapshot(7).to_scipy().shape == (NODES, NODES)
    assert graph.snapshot(7).in_degrees().tolist() == [0] * NODES


def test_what_is_printed_is_short() -> None:
    assert repr(graph_of([(0, 1, 5, 1.0)] * 2000)) == "DTCSR(6 nodes, 2,000 events, 1 ticks)"


def test_one_node_without_events() -> None:
    none = np.empty(0, np.int64)
    graph = hw.DTCSR.from_events((none, none, none), nodes=1)
    check_arrays(graph)
    assert (graph.nodes, graph.events, graph.ticks) == (1, 0, 0)
    assert edges_of(graph.window_of_times(0, 10)) == []
    assert list(graph.windows()) == []
    graph = hw.DTCSR.from_events((none, none, none), nodes=1, times=[0, 5], duplicates="sum")
    check_window(graph.window(0, 1), [])


def test_trailing_isolated_nodes_and_absent_ones() -> None:
    graph = hw.DTCSR.from_events(([0, 1], [1, 0], [0, 1]), nodes=5)
    check_window(graph.snapshot(0), [(0, 1, 1)])
    check_window(graph.snapshot(1), [(1, 0, 1)])


def test_duplicates_out_of_order() -> None:
    """`last` is the last in time, and in the input where times are equal."""
    rows = [(0, 1, 8, 1.0), (0, 1, 9, 2.0), (0, 1, 9, 4.0), (0, 1, 7, 8.0)]
    assert edges_of(graph_of(rows, width=10, duplicates="last").snapshot(0)) == [(0, 1, 4)]
    assert edges_of(graph_of(rows, width=10, duplicates="sum").snapshot(0)) == [(0, 1, 15)]
    assert edges_of(graph_of(rows, False, width=10, duplicates="sum").snapshot(0)) == [(0, 1, 4)]
    assert edges_of(graph_of(rows, width=10).snapshot(0)) == [(0, 1, 8), (0, 1, 1), (0, 1, 2), (0, 1, 4)]


def test_double_self_loops() -> None:
    graph = graph_of([(3, 3, 0, 1.0), (3, 3, 0, 2.0), (3, 3, 0, 4.0)])
    check_window(graph.snapshot(0), [(3, 3, 1), (3, 3, 2), (3, 3, 4)])
    check_window(graph.snapshot(0, distinct=True), [(3, 3, 4)])


@pytest.mark.parametrize("offset", [2**31, 2**32, -(2**31), -(2**40), 1_700_000_000_123, 2**61])
def test_far_times(offset: int) -> None:
    rows = [(0, 1, offset + 3, 1.0), (1, 2, offset, 2.0), (2, 3, offset + 3, 3.0)]
    graph = graph_of(rows)
    assert graph.times.tolist() == [offset, offset + 3]
    check_window(graph.snapshot(0), [(1, 2, 2)])
    check_window(graph.window_of_times(offset + 3, offset + 3), [(0, 1, 1), (2, 3, 3)])
    assert graph_of(rows, width=2).times[0] == offset // 2 * 2


def test_snapshot_lists() -> None:
    """Edge arrays with values, matrices with theirs; a list of empty ones."""
    edges = [np.array([[0, 2], [1, 2]]), np.empty((2, 0), np.int64), np.array([[2, 2], [2, 2]])]
    graph = hw.DTCSR.from_snapshots(edges, [[1.5, 2], [], [3, 4]], nodes=4)
    check_arrays(graph)
    expected = [[(0, 1, 1.5), (2, 2, 2)], [], [(2, 2, 3), (2, 2, 4)]]
    for tick, snapshot in enumerate(expected):
        check_window(graph.snapshot(tick), snapshot)
    matrices = [scipy.sparse.random_array((5, 5), density=d, rng=k, format="csr") for k, d in enumerate((0.3, 0, 0.5))]
    graph = hw.DTCSR.from_snapshots(matrices, dtype=np.float64)
    for window, matrix in zip(graph.windows(), matrices, strict=True):
        assert (window.to_scipy().toarray() == matrix.toarray()).all()
    graph = hw.DTCSR.from_snapshots([[], []], nodes=2)
    assert (graph.nodes, graph.ticks, graph.events) == (2, 2, 0)


def test_save_and_load(tmp_path: Path) -> None:
    rows = [(0, 1, 2, 1.0), (2, 3, 1, 0.5), (0, 1, 4, 3.0)]
    changes = {"src": ["a", "b"], "dst": ["b", "a"], "time": [0, 1], "op": ["+", "-"]}
    for name, graph in (
        ("plain", graph_of(rows, values=False)),
        ("valued", graph_of(rows, dtype=np.float64)),
        ("changes", hw.DTCSR.from_events(changes, op="op")),
    ):
        graph.save(tmp_path / name)
        found = hw.load(tmp_path / name)
        assert isinstance(found, hw.DTCSR)
        assert found.arrays().keys() == graph.arrays().keys()
        for array, held in graph.arrays().items():
            assert found.arrays()[array].dtype == held.dtype
            assert (found.arrays()[array] == held).all()
            assert not found.arrays()[array].flags.writeable
        assert found.ids.equals(graph.ids)
        assert found.facts == graph.facts
        assert [edges_of(w) for w in found.windows(2)] == [edges_of(w) for w in graph.windows(2)]
        with pytest.raises(hw.HeadwayError, match="exists"):
            graph.save(tmp_path / name)
    (tmp_path / "plain" / "perm.npy").write_bytes(b"")
    with pytest.raises(hw.HeadwayError, match=r"perm\.npy: 0 bytes"):
        hw.load(tmp_path / "plain")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda g: g.window(2, 1), r"window \[2, 1\]: the graph has ticks 0 to 2"),
        (lambda g: g.snapshot(3), r"window \[3, 3\]"),
        (lambda g: g.snapshot(-1), r"window \[-1, -1\]"),
        (lambda g: next(g.windows(0)), "windows of 0 ticks"),
        (lambda g: next(g.windows(1, 0)), "windows every 0 ticks"),
        (lambda g: g.snapshot(1.5), r"window \[1.5, 1.5\]: the graph has ticks 0 to 2"),
        (lambda g: next(g.windows_at([1], 0)), "windows of 0 ticks"),
        (lambda g: list(g.windows_at([1, 3])), "ends at tick 3; give 1 to 2, ascending"),
        (lambda g: list(g.windows_at([2, 1])), "ends at tick 1; give 2 to 2, ascending"),
        (lambda g: list(g.windows_at([-1])), "ends at tick -1; give 0 to 2"),
        (lambda g: graph_of([(0, 1, 2, 1.0)], width=1, ticks=2), "width and ticks both make ticks"),
        (lambda g: graph_of([(0, 1, 2, 1.0)], width=0), "width 0: give an integer from 1 on"),
        (lambda g: graph_of([(0, 1, 2, 1.0)], start=0), "give width too"),
        (lambda g: graph_of([(0, 1, 2, 1.0)], width="1h"), "width 1h: give an integer from 1 on"),
        (lambda g: graph_of([(0, 1, 2, 1.0)], width=1, start=0.5), "start 0.5: give an integer"),
        (lambda g: graph_of([(0, 1, 2, 1.0)], width=1, start=3), "time 2 is before the start 3"),
        (lambda g: graph_of([(0, 1, 2, 1.0)], times=[3, 4]), "time 2 is before the first tick's, 3"),
        (lambda g: graph_of([(0, 1, 2, 1.0)], times=[3, 3]), "each later than the one before"),
        (
            lambda g: graph_of([(0, 1, 0, 1.0), (0, 1, 2**40, 1.0)], width=1),
            "ticks of width 1, 268,435,456 is the most",
        ),
        (lambda g: graph_of([(0, 1, -(2**63), 1.0)]), "must lie within"),
        (lambda g: graph_of([(0, 1, 2, 1.0)], duplicates="first"), "there are multi, last, sum"),
        (lambda g: graph_of([(0, 1, 2, 1.0)], dtype=np.int32), "there are float32 and float64"),
        (lambda g: graph_of([(0, 1, 2, 1e300)]), "too large for float32"),
        (lambda g: hw.DTCSR.from_snapshots([np.zeros((3, 2), int)]), r"snapshot 0: an array int64\[3, 2\]"),
        (lambda g: hw.DTCSR.from_snapshots([[[0], [-1]]]), "snapshot 0: a negative node"),
        (lambda g: hw.DTCSR.from_snapshots([[[0], [4]]], nodes=4), r"node 4 is not in 0\.\.3"),
        (lambda g: hw.DTCSR.from_snapshots([[[0], [4]]], [[1, 2]]), "give a finite value for each of its 1 edges"),
        (lambda g: hw.DTCSR.from_snapshots([scipy.sparse.eye_array(2, 3)]), "give square ones"),
        (
            lambda g: hw.DTCSR.from_events(
                {"src": [0], "dst": [1], "time": [0], "op": ["+"]}, op="op", duplicates="sum"
            ),
            "leave duplicates out",
        ),
    ],
)
def test_wrong(call, words: str) -> None:
    graph = graph_of([(0, 1, time, 1.0) for time in range(3)])
    with pytest.raises(hw.HeadwayError, match=words) as error:
        call(graph)
    assert "\n" not in str(error.value)
