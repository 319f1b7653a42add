"""Generated kernels in the CUDA simulator, where a warp is one thread: `test_simulator.py` runs this file."""

from __future__ import annotations

import numpy as np
import pytest
from cases import check
from conftest import NEVER, connections_store
from cuda_cases import CUBE, MATRIX, operands, schedules
from headway.kernels import tensor
from headway.kernels.space import COO, CSC, CSR, DCSR, Format, Tensor, csf_format, interpret, kernel
from relaxation import CUDA, RELAX, WINDOWED, WINDOWED_CUDA, WINDOWS, of_cluster_ap

SCHEDULES = dict(schedules())


@pytest.mark.parametrize("how", SCHEDULES)
def test_schedules(how: str) -> None:
    given, shape = operands(SCHEDULES[how])
    check(SCHEDULES[how], given, shape)


@pytest.mark.parametrize("form", [CSR, CSC, COO, DCSR])
def test_matrices_by_name(form: Format) -> None:
    """Under the schedules that are chosen for a GPU."""
    at = np.nonzero(MATRIX)
    a, (rows, columns) = Tensor.from_coordinates(at, MATRIX[at], MATRIX.shape, form), MATRIX.shape
    x, b, u, v = np.arange(columns) * 1.0, np.ones((columns, 3)), np.ones((rows, 2)), np.ones((2, columns))
    assert np.array_equal(tensor.spmv(a, x, target="cuda"), MATRIX @ x)
    assert np.array_equal(tensor.spmm(a, b, target="cuda"), MATRIX @ b)
    assert np.array_equal(tensor.sddmm(a, u, v, target="cuda").to_dense(), MATRIX * (u @ v))


def test_cubes_by_name() -> None:
    at = np.nonzero(CUBE)
    a = Tensor.from_coordinates(at, CUBE[at], CUBE.shape, csf_format(3))
    b, c, x = np.ones((8, 3)), np.ones((7, 3)), np.arange(7) * 1.0
    assert np.array_equal(tensor.mttkrp(a, b, c, target="cuda"), np.einsum("ijk,jr,kr->ir", CUBE, b, c))
    assert np.array_equal(tensor.ttv(a, x, target="cuda"), CUBE @ x)
    assert np.array_equal(tensor.ttm(a, c, target="cuda").to_dense(), CUBE @ c)


@pytest.mark.parametrize("how", CUDA)
def test_earliest_arrival(how: str) -> None:
    """One round from vertices that nothing in the same round reaches."""
    rng = np.random.default_rng(1)
    rows = [(int(u), 5 + int(v), int(t), 300) for u, v, t in rng.integers(0, (5, 5, 7200), (60, 3))]
    store = of_cluster_ap(connections_store(rows, 10))
    labels = np.full(10, NEVER, np.int32)
    labels[:5] = 1800
    given = {"S": store, "active": labels < NEVER, "width": 3600}
    expected = interpret(RELAX.statement, labels, arrival=labels, **given)
    assert np.array_equal(kernel(CUDA[how])(out=labels.copy(), **given), expected)


@pytest.mark.parametrize("how", WINDOWED_CUDA)
def test_windowed_sum(how: str) -> None:
    rng = np.random.default_rng(2)
    events = (rng.random((11, 9, 7)) < 0.3) * rng.integers(1, 9, (11, 9, 7)).astype(float)
    at = np.nonzero(events)
    given = {
        "A": Tensor.from_coordinates(at, events[at], events.shape, WINDOWS),
        "X": np.ones((7, 4)),
        "t0": 2,
        "t1": 5,
    }
    expected = interpret(WINDOWED.statement, np.ones((11, 4)), **given)
    assert np.array_equal(kernel(WINDOWED_CUDA[how])(out=np.ones((11, 4)), **given), expected)
