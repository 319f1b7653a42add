"""Kernels: what they are called with, types, threads, positions past 2**31, names of lines in tracebacks."""

from __future__ import annotations

import linecache
from pathlib import Path

import numpy as np
import pytest
from cases import arrays, tensor
from headway.kernels.space import COO, CSR, MIN_PLUS, OR_AND, Format, Tensor, interpret, kernel, parse, schedule

SPMV = schedule("y[i] = A[i, j] * x[j]", A=CSR)
BLOCKS = SPMV.fuse("i", "j", "f").pos("f", "p", "A").split("p", "b", "q", 8)


def test_made_once() -> None:
    again = schedule("y[i] = A[i, j] * x[j]", A=CSR)
    assert kernel(SPMV) is kernel(again)
    assert kernel(SPMV) is not kernel(schedule("y[i] = A[i, j] * x[j]", A=COO))


def test_lines_are_found() -> None:
    made = kernel(SPMV)
    made(A=tensor(np.eye(3), CSR), x=np.ones(3))
    named = [name for name, entry in linecache.cache.items() if len(entry) == 4 and "".join(entry[2]) == made.source]
    assert len(named) == 1


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("race", ["carry", "private", "atomic"])
def test_threads(threads: int, race: str) -> None:
    run = kernel(BLOCKS.parallelize("b", "threads", race))
    for array in arrays().values():
        x = np.arange(array.shape[1], dtype=float)
        assert np.array_equal(run(A=tensor(array, CSR), x=x, threads=threads), array @ x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_types(dtype: type) -> None:
    array = arrays()["uneven"].astype(dtype)
    x = np.arange(array.shape[1]).astype(dtype)
    found = kernel(BLOCKS.parallelize("b", "threads", "carry"))(A=tensor(array, CSR), x=x)
    assert found.dtype == dtype
    assert np.array_equal(found, array @ x)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64])
@pytest.mark.parametrize("race", ["carry", "private", "atomic"])
def test_min_plus(dtype: type, race: str) -> None:
    """Entries without a path stay at zero of the semiring, the greatest value."""
    made = schedule("y[i] = A[i, j] + x[j]", semiring=MIN_PLUS, A=CSR)
    made = made.fuse("i", "j", "f").pos("f", "p", "A").split("p", "b", "q", 8).parallelize("b", "threads", race)
    array = arrays()["first and last rows empty"].astype(dtype)
    operands = {"A": tensor(array, CSR), "x": np.arange(array.shape[1]).astype(dtype)}
    expected = interpret(made.statement, np.zeros(len(array), dtype), **operands)
    assert np.array_equal(kernel(made)(**operands), expected)
    assert expected[0] == MIN_PLUS.zero(dtype)


@pytest.mark.parametrize("text", ["y[i] = A[i, j] + (i - j)", "y[i] = A[i, j] + i + j where i - j < 3 and j - i < 5"])
@pytest.mark.parametrize("form", [CSR, COO])
def test_indices_as_values(text: str, form: Format) -> None:
    """Without a sign, the difference of two of them would be huge."""
    made = schedule(text, semiring=MIN_PLUS, A=form)
    if form == CSR:
        made = made.split("i", "a", "b", 4)
    array = arrays()["uneven"].astype(np.int64)
    expected = interpret(made.statement, np.zeros(37, np.int64), A=tensor(array, form))
    assert np.array_equal(kernel(made)(A=tensor(array, form)), expected)


@pytest.mark.parametrize("race", ["carry", "private", "atomic"])
def test_or_and(race: str) -> None:
    made = schedule("y[i] = A[i, j] & x[j]", semiring=OR_AND, A=CSR)
    made = made.fuse("i", "j", "f").pos("f", "p", "A").split("p", "b", "q", 8).parallelize("b", "threads", race)
    array, x = arrays()["uneven"] > 0, np.arange(29) % 3 == 0
    assert np.array_equal(kernel(made)(A=tensor(array, CSR), x=x), (array & x).any(axis=1))


def test_out() -> None:
    array, x, out = arrays()["uneven"], np.ones(29), np.full(37, 7.0)
    assert kernel(SPMV)(A=tensor(array, CSR), x=x, out=out) is out
    assert np.array_equal(out, array @ x)
    more = kernel(schedule("y[i] += A[i, j] * x[j]", A=CSR))
    assert np.array_equal(more(A=tensor(array, CSR), x=x, out=out), 2 * (array @ x))


def test_positions_past_31_bits(tmp_path: Path) -> None:
    """The nonzeros of a small matrix at the end of files with holes, so that every offset is above 2**31."""
    base, array = 2**31 + 5, arrays()["first and last rows empty"]
    small, x = tensor(array, CSR), np.arange(29.0)
    count = len(small.values)
    files = [tmp_path / "crd", tmp_path / "val"]
    crd, val = (np.asarray(np.memmap(file, np.uint8, "w+", shape=(base + count,))) for file in files)
    crd[base:], val[base:] = small.arrays[1]["crd"], small.values
    large = Tensor(CSR, array.shape, ({"n": 37}, {"pos": small.arrays[1]["pos"] + base, "crd": crd}), val)
    rows = SPMV.pos("j", "q", "A").split("q", "q0", "q1", 4).unroll("q1").split("i", "a", "c", 5)
    schedules = [SPMV, rows, SPMV.split("j", "t", "u", 8)]
    schedules += [BLOCKS.parallelize("b", "threads", race) for race in ("carry", "atomic")]
    for made in schedules:
        assert np.array_equal(kernel(made)(A=large, x=x), array @ x)


@pytest.mark.parametrize(
    ("operands", "message"),
    [
        ({"x": np.ones(3)}, "A missing or not an operand"),
        ({"A": tensor(np.eye(3), CSR), "x": np.ones(3), "z": 1}, "z missing or not an operand"),
        ({"A": tensor(np.eye(3), COO), "x": np.ones(3)}, "A has another format than the schedule was made for"),
        ({"A": tensor(np.eye(3), CSR), "x": np.ones(4)}, r"x\[j\]: j has 4 values here and 3 elsewhere"),
        ({"A": tensor(np.eye(3), CSR), "x": np.ones((3, 1))}, r"x\[j\] has 1 indices, its shape is \(3, 1\)"),
        ({"A": tensor(np.eye(3), CSR), "x": tensor(np.eye(3), CSR)}, "x is a tensor over levels"),
    ],
)
def test_wrong_operands(operands: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kernel(SPMV)(**operands)


def test_accumulating_needs_an_output() -> None:
    with pytest.raises(ValueError, match=r"y\[i\] is added to: pass it as out"):
        kernel(schedule(parse("y[i] += A[i, j] * x[j]"), A=CSR))(A=tensor(np.eye(3), CSR), x=np.ones(3))


def test_bound_is_checked() -> None:
    made = schedule("C[i, k] = A[i, j] * B[j, k]", A=CSR).bound("k", 4)
    with pytest.raises(ValueError, match="k has 3 values here and 4 elsewhere"):
        kernel(made)(A=tensor(np.eye(3), CSR), B=np.ones((3, 3)))
