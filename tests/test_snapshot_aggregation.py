"""Aggregation over devices without PyTorch: every snapshot's sums and gradients, edge by edge."""

from __future__ import annotations

import numpy as np
import pytest
from dynamic_graphs import changing, graph_of, graphs, summed
from headway.cluster.devices import cuda_device
from headway.pipeline.dynamic_graph import DTCSR
from hypothesis import given, settings
from hypothesis import strategies as st

import headway as hw


@settings(max_examples=40)
@given(st.one_of(graphs(), changing()), st.integers(1, 4), st.integers(1, 4), st.booleans(), st.booleans())
def test_sums_and_gradients(graph: DTCSR, count: int, length: int, distinct: bool, weighted: bool) -> None:
    """Of features of their own a snapshot; the sums of integers are exact."""
    rng = np.random.default_rng(0)
    sums = hw.SnapshotAggregation(graph, length, distinct, "cpu", count)
    shapes = [(last - first, graph.nodes, 2) for first, last in sums.runs]
    features, gradients = ([rng.integers(-9, 9, shape).astype(float) for shape in shapes] for _ in range(2))
    weights = rng.integers(1, 5, graph.events).astype(float) if weighted else None
    out = sums.forward(features, weights)
    back, of_weights = sums.backward(gradients, features, weights)
    assert [one.shape for one in out] == [one.shape for one in back] == shapes
    x, y, g, dx = (np.concatenate(one) for one in (features, out, gradients, back))
    expected = np.zeros(graph.events)
    for tick, window in enumerate(graph.windows(length, 1, distinct)):
        np.testing.assert_array_equal(y[tick], summed(window, x[tick], weights))
        here = np.zeros_like(x[tick])
        for source, destination, edge in zip(*window.edges(), strict=True):
            here[source] += g[tick][destination] * (1 if weights is None else weights[edge])
            expected[edge] += x[tick][source] @ g[tick][destination]
        np.testing.assert_array_equal(dx[tick], here)
    assert of_weights is not None
    np.testing.assert_array_equal(of_weights, expected)


def test_features_that_all_snapshots_share() -> None:
    graph = graph_of([(0, 1, 0), (1, 2, 0), (2, 0, 1), (0, 1, 3)], 3)
    sums = hw.SnapshotAggregation(graph, length=2, device="cpu", count=2)
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    found = np.concatenate(sums.forward(x))
    for tick, window in enumerate(graph.windows(2)):
        np.testing.assert_array_equal(found[tick], summed(window, x))
    assert found.dtype == np.float32
    _, none = sums.backward([np.ones((last - first, 3, 2)) for first, last in sums.runs])
    assert none is None


@pytest.mark.skipif(bool(cuda_device().trouble), reason="no GPU here")
def test_on_gpus() -> None:
    """On each of them arrays of its own, with the numbers of the CPU."""
    rng = np.random.default_rng(0)
    graph = graph_of([tuple(row) for row in rng.integers(0, 40, (4000, 3)).tolist()], 40)
    x, w = rng.integers(-9, 9, (40, 8)).astype(np.float32), rng.integers(1, 5, graph.events).astype(np.float32)
    found = []
    for device, count in (("cuda", None), ("cpu", cuda_device().count)):
        sums = hw.SnapshotAggregation(graph, 3, True, device, count)
        out = sums.forward(x, w)
        back, of_weights = sums.backward(out, x, w)
        if device == "cuda":
            assert [int(one.device.id) for one in out] == list(range(cuda_device().count))
            out, back = [one.get() for one in out], [one.get() for one in back]
        found.append((np.concatenate(out), np.concatenate(back), of_weights))
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_wrong_input() -> None:
    graph = graph_of([(0, 1, 0), (1, 2, 1)], 3)
    sums = hw.SnapshotAggregation(graph, device="cpu", count=2)
    with pytest.raises(hw.HeadwayError, match=r"give float32 or float64 \[3, columns\]"):
        sums.forward(np.ones((2, 2)))
    with pytest.raises(hw.HeadwayError, match="1 arrays; give 2"):
        sums.forward([np.ones((2, 3, 2))])
    with pytest.raises(hw.HeadwayError, match=r"weights \[3\]; give an array \[2\]"):
        sums.forward(np.ones((3, 2)), np.ones(3))
    with pytest.raises(hw.HeadwayError, match=r"weights \[\]; give an array \[2\]"):
        sums.forward(np.ones((3, 2)), [1, 1])
    with pytest.raises(hw.HeadwayError, match=r"an array list \[\]; give float32 or float64"):
        sums.forward([[1.0], [2.0]])
    ends = [np.ones((last - first, 3, 5)) for first, last in sums.runs]
    with pytest.raises(hw.HeadwayError, match="arrays of 2 and 5 columns"):
        sums.backward(ends, np.ones((3, 2)))
    for wrong, what in (({"device": "tpu"}, "there are auto"), ({"count": 0}, "least 1"), ({"length": 0}, "least 1")):
        with pytest.raises(hw.HeadwayError, match=what):
            hw.SnapshotAggregation(graph, **wrong)
