"""Aggregation, labels and PyTorch's layers on a GPU against the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from aggregate_cases import COLUMNS, numbers, sides
from dynamic_graphs import graph_of, summed
from headway.cluster.devices import cuda_device
from headway.kernels import neighbours
from headway.kernels.aggregate import aggregate, degrees, sampled, self_loops
from headway.kernels.device_reverse import device_labels, device_reversed_edges
from headway.kernels.neighbours import Arrays, incoming
from headway.pipeline.dynamic_graph import DTCSR
from headway.storage.window import Window

pytestmark = pytest.mark.skipif(bool(cuda_device().trouble), reason="no GPU")


def graph(seed: int, nodes: int = 500, events: int = 20_000) -> DTCSR:
    """Hubs that are cut, rows of all lengths, idle nodes; nine ticks."""
    rng = np.random.default_rng(seed)
    ends = (rng.random((events, 2)) ** 3 * nodes * 0.9).astype(int)
    return graph_of(
        [(int(u), int(v), int(t)) for (u, v), t in zip(ends, rng.integers(0, 9, events), strict=True)], nodes
    )


def windows(of: DTCSR) -> list[Window]:
    return [of.window(a, b, distinct=distinct) for a, b in ((0, 8), (3, 5), (8, 8)) for distinct in (False, True)]


@pytest.mark.parametrize("columns", [*COLUMNS, 64, 256])
def test_sums(columns: int) -> None:
    of = graph(1)
    arrays = Arrays.of(of).to_device()
    features, weights = numbers(of.nodes, columns), numbers(of.events)
    cupy = pytest.importorskip("cupy")
    there, weights_there = cupy.asarray(features), cupy.asarray(weights)
    for window in windows(of):
        towards, away = sides(window, arrays)
        assert np.array_equal(cupy.asnumpy(cupy.asarray(aggregate(towards, there))), summed(window, features))
        found = cupy.asnumpy(cupy.asarray(aggregate(towards, there, weights_there)))
        assert np.array_equal(found, summed(window, features, weights))
        source, destination, edge = window.edges()
        expected = np.zeros(of.events, np.float32)
        expected[edge] = (features[source] * features[destination]).sum(1)
        assert np.array_equal(cupy.asnumpy(cupy.asarray(sampled(away, there, there))), expected)


def test_counts_and_reverse() -> None:
    cupy = pytest.importorskip("cupy")
    of = graph(2)
    arrays = Arrays.of(of).to_device()
    features = numbers(of.nodes, 33)
    for window in windows(of):
        towards, away = sides(window, arrays)
        source, destination, edge = window.edges()
        loops = np.bincount(source[source == destination], minlength=of.nodes)
        for found, expected in (
            (degrees(towards), window.in_degrees()),
            (degrees(away), window.out_degrees()),
            (self_loops(away), loops),
        ):
            assert np.array_equal(cupy.asnumpy(cupy.asarray(found)), expected)
        if window.distinct:
            continue
        for two_dimensional in (False, True):
            row, place = device_labels(window, two_dimensional)
            assert np.array_equal(row.copy_to_host(), source)
            assert np.array_equal(place.copy_to_host(), edge)
        built = aggregate(device_reversed_edges(window, arrays), cupy.asarray(features))
        assert np.array_equal(cupy.asnumpy(cupy.asarray(built)), summed(window, features))


def test_same_bits_again() -> None:
    """Sums that no order but one gives, many times."""
    cupy = pytest.importorskip("cupy")
    of = graph(3)
    features = cupy.asarray(np.random.default_rng(3).normal(size=(of.nodes, 64)).astype(np.float32))
    towards = incoming(of.window(0, 8), Arrays.of(of).to_device())
    assert not towards.whole
    first = cupy.asnumpy(cupy.asarray(aggregate(towards, features)))
    for _ in range(20):
        assert first.tobytes() == cupy.asnumpy(cupy.asarray(aggregate(towards, features))).tobytes()


@pytest.mark.parametrize("longest", [16, neighbours.LONGEST])
def test_layers(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """States, losses and gradients of several steps in float64."""
    torch = pytest.importorskip("torch")
    from headway.pipeline.learning.layers import TGCN
    from headway.pipeline.learning.snapshots import Snapshots

    monkeypatch.setattr(neighbours, "LONGEST", longest)
    of = graph(4, 200, 3000)

    def run(device: str) -> list[np.ndarray]:
        torch.manual_seed(1)
        layer = TGCN(5, 7).double().to(device)
        given = torch.from_numpy(np.random.default_rng(5).normal(size=(of.nodes, 5))).to(device).requires_grad_()
        weights = torch.from_numpy(np.random.default_rng(6).random(of.events) + 0.5).to(device).requires_grad_()
        state = None
        for snapshot in Snapshots(of, device, length=3, distinct=True):
            state = layer(snapshot, given, state, weights)
        state.square().sum().backward()
        return [
            one.detach().cpu().numpy()
            for one in (state, given.grad, weights.grad, *(p.grad for p in layer.parameters()))
        ]

    for here, there in zip(run("cpu"), run("cuda"), strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-9, atol=1e-9 * np.abs(here).max())
