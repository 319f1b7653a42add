"""Aggregation in the CUDA simulator: `test_simulator.py` runs this file."""

from __future__ import annotations

import numpy as np
import pytest
from aggregate_cases import COLUMNS, graph, numbers, sides, window
from dynamic_graphs import summed
from headway.kernels import neighbours
from headway.kernels.aggregate import aggregate, degrees, sampled, self_loops
from headway.kernels.device_reverse import device_labels
from headway.kernels.neighbours import Arrays
from headway.pipeline.dynamic_graph import DTCSR


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("longest", [2, 1024])
def test_on_the_device(columns: int, distinct: bool, longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "LONGEST", longest)
    found = window(distinct)
    towards, away = sides(found, Arrays.of(found.graph).to_device())
    features, weights = numbers(12, columns), numbers(120)
    assert np.array_equal(aggregate(towards, features), summed(found, features))
    assert np.array_equal(aggregate(towards, features, weights), summed(found, features, weights))
    source, destination, edge = found.edges()
    expected = np.zeros(120, np.float32)
    expected[edge] = (features[source] * features[destination]).sum(1)
    assert np.array_equal(sampled(away, features, features), expected)


@pytest.mark.parametrize("distinct", [False, True])
def test_counts(distinct: bool) -> None:
    found = graph().window(0, 2, distinct=distinct)
    towards, away = sides(found, Arrays.of(found.graph).to_device())
    source, destination, _ = found.edges()
    loops = np.bincount(source[source == destination], minlength=12)
    for given, expected in ((degrees(towards), found.in_degrees()), (degrees(away), found.out_degrees())):
        assert np.array_equal(given, expected)
    assert np.array_equal(self_loops(away), loops)


@pytest.mark.parametrize("distinct", [False, True])
def test_graph_without_events(distinct: bool) -> None:
    """E = 0: zeros of the right shapes."""
    found = DTCSR.from_snapshots([np.empty((2, 0), np.int64)] * 2, nodes=3).window(0, 1, distinct=distinct)
    towards, away = sides(found, Arrays.of(found.graph).to_device())
    features = numbers(3, 8)
    for edges in (towards, away):
        for weights in (None, numbers(0)):
            assert np.array_equal(aggregate(edges, features, weights), np.zeros((3, 8)))
        assert np.array_equal(degrees(edges), [0, 0, 0])
        assert np.array_equal(self_loops(edges), [0, 0, 0])
    assert sampled(away, features, features).shape == (0,)
    if not distinct:
        assert [one.size for one in device_labels(found)] == [0, 0]


@pytest.mark.parametrize("two_dimensional", [False, True])
def test_labels(two_dimensional: bool) -> None:
    found = graph().window(1, 2)
    row, place = device_labels(found, two_dimensional)
    source, _, edge = found.edges()
    assert np.array_equal(row.copy_to_host(), source)
    assert np.array_equal(place.copy_to_host(), edge)
