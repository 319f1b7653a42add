"""What is made of integers in a CUDA text before Numba sees it: run in plain Python, with whatever a launch counts."""

from __future__ import annotations

import ast
from types import SimpleNamespace

import numpy as np
import pytest
from headway.kernels.space import CSR, kernel, schedule
from headway.kernels.space.integers import ROOM, _rewritten, load_integers

TEXT = """
def kernel(pos, value, out, first, step):
    for i in range(first, 4, step):
        total = 0.0
        for p in range(pos[i], pos[i + 1]):
            q = p
            q += 0
            total += value[q] * value[p]
            if p == 7:
                break
        out[i, 0] = total
        cuda.atomic.add(out, (i, 1), total)
"""


def text_of(source: str) -> str:
    return ast.unparse(_rewritten(ast.parse(source)))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("first", "step"), [(0, 1), (1, 2), (3, 5), (9, 1)])
def test_means_the_same(wide: bool, first: int, step: int) -> None:
    pos, value = np.array([0, 2, 2, 9, 10], np.int32), np.arange(10) * 1.0
    found, expected = np.zeros((4, 2)), np.zeros((4, 2))

    def add(array: np.ndarray, at: tuple, value: float) -> None:
        array[at] += value

    cuda = SimpleNamespace(atomic=SimpleNamespace(add=add))
    load_integers(TEXT, wide, cuda=cuda)["kernel"](pos, value, found, first, step)
    for i in range(first, 4, step):
        stop = 8 if pos[i] <= 7 < pos[i + 1] else pos[i + 1]
        expected[i] = (value[pos[i] : stop] ** 2).sum()
    assert np.array_equal(found, expected)


def test_rewritten() -> None:
    """Counters are whole, subscripts have no sign, a stride needs no division; values are left alone."""
    found = text_of(TEXT)
    assert "range(whole(pos[place(i)]), whole(pos[place(i + 1)]))" in found
    assert "while i < i_limit:" in found
    assert "i = whole(i + i_stride)" in found
    assert "q = whole(q + 0)" in found
    assert "total += value[place(q)] * value[place(p)]" in found
    assert "cuda.atomic.add(out, (place(i), 1), total)" in found
    assert "total = 0.0" in found


def test_values_keep_their_type() -> None:
    """A coordinate that is added up, and does not index, may be a float or a time of 64 bits."""
    found = text_of("def kernel(crd, t, out):\n    for p in range(9):\n        l = crd[p]\n        out[p] = t + l\n")
    assert "l = crd[place(p)]" in found


def test_wide_where_something_is_long() -> None:
    """An array, a dimension, or dimensions that are fused into one loop."""
    made = schedule("C[i, k] = A[i, j] * B[j, k]", A=CSR).split("i", "b", "t", 32)
    run = kernel(made.parallelize("b", "block").parallelize("t", "thread"))
    short = {"A_pos1": np.zeros(4, np.int64), "A_crd1": np.zeros(4, np.uint32), "n_i": 3, "n_k": 5}
    assert not run.wide(short)
    assert run.wide(short | {"n_k": ROOM})
    assert run.wide(short | {"C": SimpleNamespace(size=ROOM, dtype=np.dtype(float))})
    assert run.wide(short | {"A_crd1": np.zeros(4, np.int64)})
    bounded = schedule("y[i] = A[i, j] * x[j] where j >= low", A=CSR).split("i", "b", "t", 32)
    run_bounded = kernel(bounded.parallelize("b", "block").parallelize("t", "thread"))
    assert not run_bounded.wide(short | {"low": -5})
    assert run_bounded.wide(short | {"low": -(2**31)})
    fused = schedule("C[i, k] = A[i, j] * B[j, k]", A=CSR).reorder("i", "k", "j").fuse("i", "k", "f")
    run = kernel(fused.split("f", "b", "t", 32).parallelize("b", "block").parallelize("t", "thread"))
    assert not run.wide(short)
    assert run.wide(short | {"n_i": 2**15, "n_k": 2**15})


def test_a_name_that_is_taken() -> None:
    """Names that the text gets only here are no names of loops."""
    for name in ("i_limit", "i_stride", "whole", "place"):
        with pytest.raises(ValueError, match="cannot be a name here"):
            schedule("y[i] = A[i, j] * x[j]", A=CSR).split("i", name, "t", 4)
