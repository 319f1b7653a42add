"""Whatever sequence of transformations is accepted computes the same; what is refused is refused with one message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cases import FORMATS, FORMATS_3D, arrays, check, cubes, tensor
from headway.kernels.space import Schedule, ScheduleError, kernel, schedule, shuffle
from hypothesis import given, note, settings
from hypothesis import strategies as st

STATEMENTS = {
    "y[i] = A[i, j] * x[j]": None,
    "y[j] = A[i, j] * z[i]": None,
    "s = A[i, j] * x[j]": None,
    "C[i, k] = A[i, j] * B[j, k]": None,
    "C[k, i] = A[i, j] * B[j, k]": None,
    "D[i, j] = A[i, j] * U[i, k] * B[j, k]": "A",
    "y[i] = A[i, j] * x[j] * z[i] where j >= low and i < high": None,
}
CUBES = {
    "Y[i, r] = A[i, j, k] * B[j, r] * C[k, r]": None,
    "Y[i, j] = A[i, j, k] * x[k]": None,
    "Y[j] = A[i, j, k] * x[k]": None,
    "Y[i, j, r] = A[i, j, k] * C[k, r]": "A",
}
SIZES = {"k": 3, "r": 3}
STEPS = ("split", "divide", "fuse", "pos", "fuse all", "reorder", "unroll", "unroll by", "precompute")


def random_schedule(draw: Callable[[Any], Any], base: Schedule, cuda: bool) -> Schedule:
    """Up to eight steps, those that are refused left out."""
    made = base
    for number in range(draw(st.integers(1, 8))):
        step = draw(st.sampled_from(STEPS))
        loop = draw(st.sampled_from(made.loops))
        a, b = f"a{number}", f"b{number}"
        try:
            if step in ("split", "divide"):
                made = getattr(made, step)(loop, a, b, draw(st.sampled_from([1, 2, 3, 5, 32, 64])))
            elif step == "fuse":
                made = made.fuse(*made.loops[(at := made.loops.index(loop)) : at + 2], a)
            elif step == "pos":
                made = made.pos(loop, a, "A")
            elif step == "fuse all":
                fused = made.fuse(*made.loops[:2], a)
                made = fused.pos(a, b, "A")
            elif step == "reorder":
                made = made.reorder(*draw(st.permutations(made.loops)))
            elif step == "unroll":
                made = made.unroll(loop)
            elif step == "unroll by":
                made = made.unroll(loop, draw(st.integers(2, 5)))
            else:
                made = made.precompute("A[i, j, k] * C[k, r]", "r", "w")
        except (ScheduleError, TypeError):  # the latter where fuse lacks a second loop
            continue
    targets = ["block", "warp", "lane", "thread"] if cuda else ["threads", "vector"]
    races = ["none", "atomic", "carry", "private", "segments", shuffle(8)]
    for onto in targets:
        loop, race = draw(st.sampled_from(made.loops)), draw(st.sampled_from(races))
        if onto in ("threads", "block"):
            loop = made.loops[0]
        try:
            made = made.parallelize(loop, onto, race)
        except ScheduleError:
            continue
    note(made.code)
    return made


def accepted(made: Schedule) -> bool:
    try:
        kernel(made)
    except ScheduleError:
        return False
    return True


@pytest.mark.parametrize("cuda", [False, True])
@pytest.mark.parametrize("text", STATEMENTS)
@settings(max_examples=40, report_multiple_bugs=False)
@given(data=st.data())
def test_matrices(text: str, cuda: bool, data: st.DataObject) -> None:
    form = FORMATS[data.draw(st.sampled_from(sorted(FORMATS)))]
    made = random_schedule(data.draw, schedule(text, pattern=STATEMENTS[text], A=form), cuda)
    if not accepted(made):
        return
    array = arrays()[data.draw(st.sampled_from(sorted(arrays())))]
    rows, columns = array.shape
    dense = {"x": columns, "z": rows, "B": (columns, 3), "U": (rows, 3)}
    operands = {name: np.arange(1.0, np.prod(dense[name]) + 1).reshape(dense[name]) % 5 for name in dense}
    operands |= {"A": tensor(array, form), "low": 2, "high": max(rows - 2, 0)}
    named = {*made.statement.operands, *made.statement.scalars}
    sizes = {"i": rows, "j": columns} | SIZES
    shape = tuple(sizes[index] for index in made.statement.output.indices)
    check(made, {name: operand for name, operand in operands.items() if name in named}, shape, plain=True)


@pytest.mark.parametrize("cuda", [False, True])
@pytest.mark.parametrize("text", CUBES)
@settings(max_examples=40, report_multiple_bugs=False)
@given(data=st.data())
def test_cubes(text: str, cuda: bool, data: st.DataObject) -> None:
    form = FORMATS_3D[data.draw(st.sampled_from(sorted(FORMATS_3D)))]
    try:
        base = schedule(text, pattern=CUBES[text], A=form)
    except ScheduleError:
        return
    made = random_schedule(data.draw, base, cuda)
    if not accepted(made):
        return
    array = cubes()[data.draw(st.sampled_from(sorted(cubes())))]
    sizes = dict(zip("ijk", array.shape, strict=True)) | {"r": 3}
    dense = {"x": "k", "B": "jr", "C": "kr"}
    operands = {
        name: np.arange(1.0, np.prod(shape) + 1).reshape(shape) % 5
        for name, indices in dense.items()
        if name in made.statement.operands and (shape := tuple(sizes[index] for index in indices))
    }
    shape = tuple(sizes[index] for index in made.statement.output.indices)
    check(made, operands | {"A": tensor(array, form)}, shape, plain=True)
