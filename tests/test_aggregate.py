"""Aggregation over windows against NumPy edge by edge, and its gradients against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from dynamic_graphs import graph_of, graphs, summed, windows
from headway.kernels import neighbours
from headway.kernels.aggregate import aggregate, degrees, sampled, self_loops
from headway.kernels.neighbours import incoming, outgoing
from headway.kernels.reverse import labels, reversed_edges
from headway.pipeline.dynamic_graph import DTCSR
from headway.storage.window import Window
from hypothesis import given
from hypothesis import strategies as st


def numbers(*shape: int) -> np.ndarray:
    """Whole numbers, whose sums are exact in any order."""
    return np.random.default_rng(sum(shape)).integers(-9, 9, shape).astype(float)


@given(windows(), st.sampled_from([1, 3, 8]), st.booleans())
def test_sums(window: Window, columns: int, weighted: bool) -> None:
    features = numbers(window.graph.nodes, columns)
    weights = numbers(window.graph.events) if weighted else None
    assert np.array_equal(aggregate(incoming(window), features, weights), summed(window, features, weights))


@given(windows(), st.sampled_from([1, 2, 3]))
def test_long_rows_in_parts(window: Window, longest: int) -> None:
    """Hubs are cut; a row of any length is."""
    features, weights = numbers(window.graph.nodes, 3), numbers(window.graph.events)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "LONGEST", longest)
        assert np.array_equal(aggregate(incoming(window), features, weights), summed(window, features, weights))
        assert np.array_equal(aggregate(incoming(window), features), summed(window, features))
        source, destination, edge = window.edges()
        expected = np.zeros(window.graph.events)
        expected[edge] = (features[source] * features[destination]).sum(1)
        assert np.array_equal(sampled(outgoing(window), features, features), expected)


@given(windows())
def test_degrees(window: Window) -> None:
    assert np.array_equal(degrees(incoming(window)), window.in_degrees())
    assert np.array_equal(degrees(outgoing(window)), window.out_degrees())
    source, destination, _ = window.edges()
    expected = np.bincount(source[source == destination], minlength=window.graph.nodes)
    assert np.array_equal(self_loops(outgoing(window)), expected)
    assert np.array_equal(self_loops(incoming(window)), expected)


@given(windows(), st.data())
def test_gradients_are_finite_differences(window: Window, data: st.DataObject) -> None:
    """Of the loss sum(G * H), in every feature and every edge's weight."""
    n, m = window.graph.nodes, window.graph.events
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    features, weights, loss = rng.normal(size=(n, 2)), rng.normal(size=m), rng.normal(size=(n, 2))

    def value() -> float:
        return float((loss * aggregate(incoming(window), features, weights)).sum())

    def difference(array: np.ndarray, place: int, step: float = 1e-5) -> float:
        flat, kept = array.reshape(-1), array.reshape(-1)[place]
        flat[place] = kept + step
        above = value()
        flat[place] = kept - step
        below = value()
        flat[place] = kept
        return (above - below) / (2 * step)

    of_features = aggregate(outgoing(window), loss, weights)
    of_weights = sampled(outgoing(window), features, loss)
    for array, gradient in ((features, of_features), (weights, of_weights)):
        expected = [difference(array, place) for place in range(array.size)]
        np.testing.assert_allclose(gradient.reshape(-1), expected, rtol=1e-6, atol=1e-8)


@given(graphs())
def test_same_bits_on_any_number_of_threads(graph: DTCSR) -> None:
    rng = np.random.default_rng(0)
    features, weights = (rng.normal(size=s).astype(np.float32) for s in ((graph.nodes, 5), graph.events))
    edges = incoming(graph.window(0, graph.ticks - 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headway.kernels.aggregate.FEW", 0)
        patch.setattr(neighbours, "LONGEST", 4)
        found = [aggregate(edges, features, weights, threads=threads).tobytes() for threads in (1, 2, 3)]
    assert len({*found}) == 1


def test_snapshot_without_edges() -> None:
    graph = graph_of([(0, 1, 0), (1, 0, 3)], 2)
    window = graph.snapshot(1)
    assert np.array_equal(aggregate(incoming(window), np.ones((2, 3))), np.zeros((2, 3)))
    assert np.array_equal(aggregate(outgoing(window), np.ones((2, 3))), np.zeros((2, 3)))
    assert np.array_equal(sampled(outgoing(window), np.ones((2, 3)), np.ones((2, 3))), np.zeros(2))
    assert np.array_equal(degrees(incoming(window)), [0, 0])


@pytest.mark.parametrize("distinct", [False, True])
def test_graph_without_events(distinct: bool) -> None:
    """E = 0: zeros of the right shapes."""
    graph = DTCSR.from_snapshots([np.empty((2, 0), np.int64)] * 2, nodes=3)
    assert graph.events == 0
    window = graph.window(0, 1, distinct=distinct)
    features, none = np.ones((3, 2)), np.empty(0)
    for edges in (incoming(window), outgoing(window)):
        for weights in (None, none):
            assert np.array_equal(aggregate(edges, features, weights), np.zeros((3, 2)))
        assert np.array_equal(degrees(edges), [0, 0, 0])
        assert np.array_equal(self_loops(edges), [0, 0, 0])
    assert sampled(outgoing(window), features, features).shape == (0,)
    if not distinct:
        assert [len(one) for one in labels(window)] == [0, 0]
        assert np.array_equal(aggregate(reversed_edges(window), features), np.zeros((3, 2)))


def test_an_edge_of_a_later_tick_is_not_seen() -> None:
    graph = graph_of([(0, 1, 1), (2, 1, 2)], 3)
    features = np.array([[1.0], [10.0], [100.0]])
    assert aggregate(incoming(graph.snapshot(1)), features)[1] == 1
    assert aggregate(incoming(graph.snapshot(2)), features)[1] == 100
    assert aggregate(incoming(graph.window(1, 2)), features)[1] == 101


def test_duplicate_edges_and_double_self_loops() -> None:
    graph = graph_of([(0, 1, 0), (0, 1, 0), (1, 1, 0), (1, 1, 0), (1, 1, 1)], 2, values=True)
    features = np.array([[1.0], [10.0]])
    assert aggregate(incoming(graph.snapshot(0)), features)[1] == 22
    assert aggregate(incoming(graph.window(0, 1)), features)[1] == 32
    assert aggregate(incoming(graph.window(0, 1, distinct=True)), features)[1] == 11
    last = graph.window(0, 1, distinct=True)
    assert aggregate(incoming(last), features, graph.values)[1] == 2 * 1 + 5 * 10
    assert np.array_equal(sampled(outgoing(last), features, features) != 0, last.kept(np.arange(5)))


def test_one_node() -> None:
    graph = graph_of([(0, 0, 0)], 1)
    assert aggregate(incoming(graph.snapshot(0)), np.full((1, 2), 3.0)).tolist() == [[3, 3]]


def test_sampled_products_need_ids_that_are_places() -> None:
    graph = graph_of([(0, 1, 0)], 2)
    with pytest.raises(ValueError, match="places"):
        sampled(incoming(graph.snapshot(0)), np.ones((2, 1)), np.ones((2, 1)))


@given(graphs(), st.data())
def test_reverse_csr_of_a_window(graph: DTCSR, data: st.DataObject) -> None:
    """The document's way gives the same neighbours with the same ids, and the labels number the window's edges."""
    first = data.draw(st.integers(0, graph.ticks - 1))
    window = graph.window(first, data.draw(st.integers(first, graph.ticks - 1)))
    row, place = labels(window)
    source, destination, edge = window.edges()
    assert np.array_equal(row, source)
    assert np.array_equal(place, edge)
    found = reversed_edges(window)
    order = np.argsort(destination, kind="stable")
    assert np.array_equal(found.columns, source[order])
    assert np.array_equal(found.ids, edge[order])
    features, weights = numbers(graph.nodes, 3), numbers(graph.events)
    assert np.array_equal(aggregate(found, features, weights), aggregate(incoming(window), features, weights))


def test_a_filtered_window_has_no_labels() -> None:
    window = graph_of([(0, 1, 0)], 2).window(0, 0, distinct=True)
    for refused in (labels, reversed_edges):
        with pytest.raises(ValueError, match="edges all count"):
            refused(window)
