"""Kernels by name and expressions by notation, under the schedules that are chosen for them."""

from __future__ import annotations

import numpy as np
import pytest
from headway.kernels.space import COO, CSC, CSR, DCSR, MIN_PLUS, Format, Tensor, coo_format, csf_format
from headway.kernels.tensor import evaluate, mttkrp, sddmm, spmm, spmv, ttm, ttv

RNG = np.random.default_rng(0)
A = (RNG.random((50, 30)) < 0.1) * RNG.integers(1, 9, (50, 30)).astype(float)
CUBE = (RNG.random((12, 9, 14)) < 0.1) * RNG.integers(1, 9, (12, 9, 14)).astype(float)


def packed(array: np.ndarray, form: Format) -> Tensor:
    return Tensor.from_coordinates(np.nonzero(array), array[np.nonzero(array)], array.shape, form)


def whole(*shape: int) -> np.ndarray:
    return RNG.integers(1, 9, shape).astype(float)


@pytest.mark.parametrize("form", [CSR, CSC, COO, DCSR])
def test_matrices(form: Format) -> None:
    a, x, b, u, v = packed(A, form), whole(30), whole(30, 7), whole(50, 4), whole(4, 30)
    assert np.array_equal(spmv(a, x), A @ x)
    assert np.array_equal(spmm(a, b), A @ b)
    assert np.array_equal(sddmm(a, u, v).to_dense(), A * (u @ v))


@pytest.mark.parametrize("form", [csf_format(3), coo_format(3)])
def test_cubes(form: Format) -> None:
    a, b, c, x = packed(CUBE, form), whole(9, 5), whole(14, 5), whole(14)
    assert np.array_equal(mttkrp(a, b, c), np.einsum("ijk,jr,kr->ir", CUBE, b, c))
    assert np.array_equal(ttv(a, x), CUBE @ x)
    if form == csf_format(3):
        assert np.array_equal(ttm(a, c).to_dense(), CUBE @ c)


def test_sums_of_products() -> None:
    a, x, b = packed(A, CSR), whole(30), whole(50)
    assert np.array_equal(evaluate("r[i] = b[i] - 2 * A[i, j] * x[j]", A=a, x=x, b=b), b - 2 * A @ x)
    narrow = evaluate("r[i] = b[i] + A[i, j] * x[j]", A=a, x=x, b=b.astype(np.float32))
    assert narrow.dtype == np.float64
    assert np.array_equal(evaluate("s = A[i, j] * w * A[i, j]", A=a, w=3), 3 * (A**2).sum())


def test_sparse_outputs() -> None:
    a, t = packed(A, CSR), packed(np.roll(A, 1, 0), DCSR)
    made = evaluate("Z[i, j] = A[i, j] + T[i, j]", A=a, T=t)
    assert made.format == CSR
    assert np.array_equal(made.to_dense(), A + np.roll(A, 1, 0))
    assert np.array_equal(evaluate("Z[i, k] = A[i, j] * T[j, k]", A=a, T=packed(A.T.copy(), CSR)), A @ A.T)
    with pytest.raises(ValueError, match="form is for elementwise expressions"):
        evaluate("y[i] = A[i, j]", A=a, form=CSR)


def test_another_semiring() -> None:
    a, x = packed(A, CSR), whole(30)
    expected = np.where(A > 0, A + x, np.inf).min(axis=1)
    assert np.array_equal(evaluate("y[i] = A[i, j] + x[j]", semiring=MIN_PLUS, A=a, x=x), expected)
