"""The heuristic takes what fits; what `tune` returns can be pasted."""

from __future__ import annotations

import numpy as np
import pytest
from cases import FORMATS, FORMATS_3D, check, tensor
from headway.kernels.space import CSC, CSR, Schedule, autoschedule, kernel, rows_of, schedule, shuffle, tune
from headway.kernels.space.autoschedule import Rows, space

SPMV, SPMM = "y[i] = A[i, j] * x[j]", "C[i, k] = A[i, j] * B[j, k]"
SDDMM, TTV = "D[i, j] = A[i, j] * B[i, k] * C[j, k]", "Y[i, j] = A[i, j, k] * x[k]"
EVEN, SKEWED = Rows(1000, 8000, 12), Rows(100_000, 2_000_000, 900_000)


@pytest.mark.parametrize(
    ("text", "form", "target", "rows", "expected"),
    [
        (SPMV, "csr", "cpu", EVEN, '.parallelize("j", "vector", "private")'),
        (SPMV, "csr", "cpu", SKEWED, '"threads", "carry").parallelize("one", "vector", "private")'),
        (SPMV, "coo", "cpu", EVEN, '"threads", "carry").parallelize("one", "vector", "private")'),
        (SPMV, "csc", "cpu", EVEN, '"threads", "private")'),
        (SPMM, "csr", "cpu", EVEN, '.unroll("j1")'),
        (SPMV, "csr", "cuda", EVEN, '.parallelize("one", "thread", "staged")'),
        (SPMV, "csc", "cuda", EVEN, '.parallelize("part", "thread", "atomic")'),
        (SPMM, "csr", "cuda", EVEN, '.parallelize("part", "warp", "atomic").parallelize("k_lane", "lane")'),
        (SDDMM, "csr", "cuda", EVEN, '.parallelize("one", "warp").parallelize("k", "lane", shuffle(8))'),
        (TTV, "csf", "cuda", Rows(1000, 9000, 12), '.parallelize("row", "warp").parallelize("k", "lane", shuffle(8))'),
        (TTV, "csf", "cuda", Rows(1000, 1000, 2), '.parallelize("row", "thread")'),
    ],
)
def test_choice(text: str, form: str, target: str, rows: Rows, expected: str) -> None:
    pattern = "A" if text in (SDDMM, TTV) else None
    base = schedule(text, pattern=pattern, A=(FORMATS_3D | FORMATS)[form])
    assert autoschedule(base, target, rows).code.endswith(expected)


@pytest.mark.parametrize(("columns", "expected"), [(None, 4), (8, 1), (32, 1), (100, 3), (128, 4), (1000, 4)])
def test_columns_of_a_lane(columns: int | None, expected: int) -> None:
    """As many as there are to share, up to four; with one there is nothing to write out."""
    code = autoschedule(schedule(SPMM, A=CSR), "cuda", EVEN, columns).code
    assert (f'.split("k", "k_tile", "k_within", {32 * expected})' in code) == (expected > 1)
    assert ('.unroll("k_column")' in code) == (expected > 1)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("form", FORMATS_3D)
def test_every_choice_is_right(form: str, target: str) -> None:
    array = (np.random.default_rng(0).random((6, 5, 7)) < 0.2) * 2.0
    operands = {"A": tensor(array, FORMATS_3D[form]), "B": np.ones((5, 3)), "C": np.ones((7, 3))}
    base = schedule("Y[i, r] = A[i, j, k] * B[j, r] * C[k, r]", A=FORMATS_3D[form])
    for made in (autoschedule(base, target, rows_of(operands["A"])), *space(base, target)):
        check(made, operands, (6, 3), plain=True)


def test_rows() -> None:
    array = np.zeros((4, 50))
    array[2] = 1
    assert rows_of(tensor(array, CSR)) == Rows(4, 50, 50)
    assert rows_of(tensor(array, CSC)) == Rows(50, 50, 1)
    assert rows_of(tensor(array, FORMATS["coo"])) == Rows(4, 50, 12)


def test_tune() -> None:
    """The code makes the schedule that was the fastest."""
    array = (np.random.default_rng(0).random((60, 50)) < 0.2) * 2.0
    base, operands = schedule(SPMV, A=CSR), {"A": tensor(array, CSR), "x": np.ones(50)}
    found = tune(base, repeats=1, **operands)
    again = eval(found.code, {"schedule": schedule, "CSR": CSR, "shuffle": shuffle})
    assert isinstance(again, Schedule)
    assert again == found.schedule
    assert found.seconds[found.code] == min(found.seconds.values())
    assert len(found.seconds) > 5
    assert np.array_equal(kernel(again)(**operands), array @ np.ones(50))
