"""The paper's algorithms in the CUDA simulator, where a grid is one block and a warp one thread."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from headway.kernels import relax
from headway.kernels.space import CSR, MIN_PLUS, Tensor, schedule
from headway.kernels.space.rounds import Rounds
from headway.pipeline.cpu import CpuEngine
from headway.pipeline.device_engines import ALGORITHMS
from kernel_checks import assert_equal_to_scan, assert_rounds_equal_to_scan, random_queries, small_store

CASES = [
    *product((*relax.ALGORITHMS, *relax.VIRTUAL_WARPS), ["device"], [False, True]),
    *product(["cluster-ap", "edge-2"], [1, 3], [True]),
]


@pytest.mark.parametrize(("algorithm", "sync", "walking"), CASES)
def test_rounds(algorithm: str, sync: str | int, walking: bool) -> None:
    store = small_store(8, 40, walking, 3)
    assert_rounds_equal_to_scan(store, algorithm, sync, random_queries(store, 3, 1))


@pytest.mark.parametrize("algorithm", ["cluster-ap", "esdg"])
def test_answers(algorithm: str) -> None:
    """All kinds, made of labels as on a CPU."""
    store = small_store(6, 30, False, 4)
    engine = CpuEngine(store, ALGORITHMS[algorithm](store))
    assert_equal_to_scan(engine, store, random_queries(store, 4, 2))


def test_shortest_paths() -> None:
    """Any statement of that form: here Bellman and Ford's, in floating point."""
    rng = np.random.default_rng(5)
    weight = np.where(rng.random((9, 9)) < 0.3, rng.random((9, 9)), 0)
    made = schedule("d[v] min= d[u] + A[u, v] where active[u]", A=CSR).split("u", "block", "one", 4)
    made = made.parallelize("block", "block", "atomic").parallelize("one", "thread", "atomic")
    found = np.full(9, MIN_PLUS.zero(np.dtype(float)))
    marks, told = np.zeros((2, 9), np.int32), np.zeros(4, np.int32)
    found[0], marks[1, 0] = 0, 1
    stored = Tensor.from_coordinates(np.nonzero(weight), weight[np.nonzero(weight)], weight.shape, CSR)
    Rounds(made, active="active").prepared(found, marks, told, A=stored).to_fixed_point()
    expected = np.where(np.arange(9) == 0, 0, np.inf)
    for _ in range(9):
        expected = np.minimum(expected, np.where(weight > 0, expected[:, None] + weight, np.inf).min(0))
    assert np.array_equal(found, expected)
    assert 1 < told[3] <= 10
