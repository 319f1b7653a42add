"""Kernels: what they are called with, types, threads, positions past 2**31, names of lines in tracebacks."""

from __future__ import annotations

import linecache
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from cases import arrays, tensor
from headway.kernels.space import (
    COO,
    CSR,
    MIN_PLUS,
    OR_AND,
    Compressed,
    Dense,
    Format,
    Tensor,
    autoschedule,
    explain,
    interpret,
    kernel,
    parse,
    schedule,
    tune,
)
from headway.kernels.space.kernel import compiled
from headway.kernels.tensor import evaluate, sddmm

SPMV = schedule("y[i] = A[i, j] * x[j]", A=CSR)
BLOCKS = SPMV.fuse("i", "j", "f").pos("f", "p", "A").split("p", "b", "q", 8)


def test_made_once() -> None:
    again = schedule("y[i] = A[i, j] * x[j]", A=CSR)
    assert kernel(SPMV) is kernel(again)
    assert kernel(SPMV) is not kernel(schedule("y[i] = A[i, j] * x[j]", A=COO))


def test_lines_are_found() -> None:
    made = kernel(SPMV)
    made(A=tensor(np.eye(3), CSR), x=np.ones(3))
    file = compiled(made, np.dtype(float)).py_func.__code__.co_filename
    assert "".join(linecache.getlines(file)) == made.source


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
        ({"x": np.ones(3)}, ": A missing"),
        ({"A": tensor(np.eye(3), CSR), "x": np.ones(3), "z": 1}, "z is no operand"),
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


def test_blocks_near_31_bits() -> None:
    """Offsets of 32 bits do not wrap around where blocks are counted."""
    run = kernel(BLOCKS.parallelize("b", "threads", "carry"))
    assert run.iterations({"A_pos1": np.array([0, 2**31 - 1], np.int32), "n_i": 1}) == 2**28


@pytest.mark.parametrize("threads", [-1, 0, 2.0, "2", True])
def test_threads_are_a_number(threads: object) -> None:
    with pytest.raises(ValueError, match="threads is a whole number of at least 1"):
        kernel(SPMV)(A=tensor(np.eye(3), CSR), x=np.ones(3), threads=threads)


def test_output_lies_apart() -> None:
    a, x = tensor(np.eye(4), CSR), np.ones(8)
    with pytest.raises(ValueError, match="out shares memory with x"):
        kernel(SPMV)(A=a, x=x[:4], out=x[2:6])
    kernel(SPMV)(A=a, x=x[::2], out=x[1::2])
    with pytest.raises(ValueError, match="a stride of 0"):
        kernel(SPMV)(A=a, x=x[:4], out=np.broadcast_to(np.zeros(1), 4))
    b = np.arange(4.0)
    with pytest.raises(ValueError, match="out shares memory with b"):
        evaluate("r[i] = A[i, j] * x[j] - b[i]", A=a, x=x[:4], b=b, out=b)
    assert b.tolist() == [0, 1, 2, 3]


def test_output_holds_the_type() -> None:
    a, x = tensor(np.eye(4), CSR), np.ones(4)
    for dtype in (np.int64, bool):
        with pytest.raises(ValueError, match=r"is float64, which out of .* does not hold"):
            kernel(SPMV)(A=a, x=x, out=np.zeros(4, dtype))
    out = np.zeros(4, np.float32)
    assert evaluate("r[i] = A[i, j] * x[j] + x[i]", A=a, x=x, out=out) is out
    assert out.tolist() == [2, 2, 2, 2]


def test_truth_values_are_counted() -> None:
    whole = tensor(np.ones((2, 4), bool), CSR)
    assert kernel(SPMV)(A=whole, x=np.ones(4, bool)).tolist() == [4, 4]


def test_types_are_those_of_numpy() -> None:
    array = np.array([[3, 0], [1, 2]])
    found = kernel(schedule("y[i] = A[i, j] / 2 * w", A=CSR))(A=tensor(array, CSR), w=3)
    assert found.tolist() == [4.5, 4.5]


def test_differences_without_a_sign_are_refused() -> None:
    a, u = tensor(np.eye(4), CSR), np.ones(4, np.uint32)
    made = schedule("y[i] = A[i, j] where j - u[i] > w", A=CSR)
    with pytest.raises(ValueError, match="u has no sign, differences would wrap around"):
        kernel(made)(A=a, u=u, w=-3)
    assert kernel(made)(A=a, u=u.astype(int), w=-3).tolist() == [1, 1, 1, 1]
    with pytest.raises(ValueError, match="convert the operand to a wider type, with a sign"):
        evaluate("r[i] = u[i] - v[i]", u=u, v=u)


def test_min_plus_has_no_dense_level_below_a_sparse_one() -> None:
    """Its padding would be edges of cost 0."""
    with pytest.raises(ValueError, match="under min-plus the zeros that a dense level below a sparse one stores"):
        schedule("d[v] min= e[u] + A[u, v]", A=Format((Compressed(), Dense()), (0, 1)))


def test_or_and_takes_truth_values() -> None:
    """Of bits, 2 and 1 have none in common."""
    made = schedule("y[i] = A[i, j] & x[j]", semiring=OR_AND, A=CSR)
    for dtype in (int, float):
        with pytest.raises(ValueError, match="or-and is for truth values"):
            kernel(made)(A=tensor(2 * np.eye(3, dtype=dtype), CSR), x=np.ones(3, bool))


def test_bits_of_floats_are_refused() -> None:
    with pytest.raises(ValueError, match=r"& and \| are for truth values and whole numbers"):
        evaluate("s = u[i] & u[i]", u=np.ones(3))


def test_nothing_is_ignored() -> None:
    a, x = tensor(np.eye(3), CSR), np.ones(3)
    with pytest.raises(ValueError, match="target 'gpu' is none of cpu, cuda"):
        evaluate("y[i] = A[i, j] * x[j]", A=a, x=x, target="gpu")
    with pytest.raises(ValueError, match="target 'gpu' is none of cpu, cuda"):
        tune(SPMV, "gpu", A=a, x=x)
    with pytest.raises(ValueError, match="b is no operand"):
        evaluate("y[i] = A[i, j] * x[j]", A=a, x=x, b=x)
    with pytest.raises(ValueError, match="C has a format, but is no operand"):
        schedule("C[i, j] = A[i, j] * x[j]", A=CSR, C=CSR)
    with pytest.raises(ValueError, match="x is masked"):
        kernel(SPMV)(A=a, x=np.ma.masked_array(x, [True, False, False]))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (None, "x is NoneType, not an array or a Tensor"),
        ([1.0, 2.0, 3.0], "x is list, not an array or a Tensor"),
        (scipy.sparse.eye(3).tocsr(), "x is a matrix of SciPy: pass Tensor.from_scipy"),
        (np.ones(3, object), "x: arrays of object are not compiled"),
        (np.ones(3, "U1"), "x: arrays of <U1 are not compiled"),
        (np.ones(3, np.float16), "x: arrays of float16 are not compiled"),
        (np.ones(3, np.longdouble), "x: arrays of .*128 are not compiled"),
        (np.ones(3, ">f8"), "x: arrays of >f8 are not compiled"),
    ],
)
def test_operands_are_arrays(x: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kernel(SPMV)(A=tensor(np.eye(3), CSR), x=x)


def test_tensors_without_values_are_conditions() -> None:
    a = tensor(np.eye(3), CSR)
    with pytest.raises(ValueError, match="A has no values, it can only be a condition"):
        kernel(SPMV)(A=Tensor(CSR, a.shape, a.arrays, None), x=np.ones(3))


def test_output_is_an_array() -> None:
    with pytest.raises(ValueError, match="out is list, not an array"):
        kernel(SPMV)(A=tensor(np.eye(3), CSR), x=np.ones(3), out=[0.0, 0.0, 0.0])


def test_complex_numbers() -> None:
    a, x = tensor(np.eye(3), CSR), np.ones(3, complex)
    with pytest.raises(ValueError, match="atomic is not for complex numbers"):
        kernel(BLOCKS.parallelize("b", "threads", "atomic"))(A=a, x=x)
    with pytest.raises(ValueError, match="min-plus is for numbers with an order, not complex128"):
        kernel(schedule("y[i] = A[i, j] + x[j]", semiring=MIN_PLUS, A=CSR))(A=a, x=x)


def test_text_is_no_schedule() -> None:
    for function in (kernel, explain, autoschedule, tune):
        with pytest.raises(TypeError, match=r"not a schedule: make one with schedule\(text"):
            function("y[i] = A[i, j]")  # type: ignore[operator]
    with pytest.raises(ValueError, match="repeats is at least 1, not 0"):
        tune(SPMV, repeats=0)


def test_shown_as_its_schedule() -> None:
    assert repr(kernel(SPMV)) == 'kernel(schedule("y[i] = A[i, j] * x[j]", A=CSR))'


def test_dense_statements() -> None:
    f, v = np.arange(6.0).reshape(2, 3), np.ones(2)
    assert evaluate("y[j] = F[i, j]", F=f).tolist() == [3, 5, 7]
    assert evaluate("y[i] = v[i] * F[i, j]", F=f, v=v).tolist() == [3, 12]
    assert evaluate("s = v[i]", v=v) == 2


def test_output_along_a_pattern() -> None:
    a, u, v = tensor(np.eye(3), CSR), np.ones((3, 2)), np.ones((2, 3))
    made = sddmm(a, u, v)
    assert sddmm(a, 2 * u, v, out=made) is made
    assert made.values.tolist() == [4, 4, 4]
    with pytest.raises(ValueError, match="out has 2 values"):
        sddmm(a, u, v, out=tensor(np.diag([1.0, 0, 1]), CSR))
    with pytest.raises(ValueError, match="out is an array, not Tensor"):
        kernel(SPMV)(A=a, x=np.ones(3), out=made)
