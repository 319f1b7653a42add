"""Rows whose slices lie apart, and entries that are known by their place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from headway.kernels.space import (
    Dense,
    Format,
    Numbered,
    Schedule,
    ScheduleError,
    Singleton,
    Slices,
    Tensor,
    interpret,
    kernel,
    schedule,
)
from hypothesis import given
from hypothesis import strategies as st

PLAIN = Format((Dense(), Slices()), (0, 1))
NUMBERED = Format((Dense(), Slices(), Numbered()), (0, 1, 2))
LISTED = Format((Dense(), Slices(), Singleton()), (0, 1, 2))


@st.composite
def sliced(draw: st.DrawFn) -> dict[str, np.ndarray]:
    """Slices that lie apart, in any order, and overlap; repeated coordinates."""
    stored, rows = draw(st.integers(0, 12)), draw(st.integers(0, 6))
    bounds = st.tuples(st.integers(0, stored), st.integers(0, stored)).map(sorted)
    ends = np.array(draw(st.lists(bounds, min_size=rows, max_size=rows)), np.int64).reshape(rows, 2)
    crd = np.array(draw(st.lists(st.integers(0, 4), min_size=stored, max_size=stored)), np.uint32)
    return {"pos": ends[:, 0].copy(), "end": ends[:, 1].copy(), "crd": crd}


def tensor(data: dict[str, np.ndarray], form: Format, values: Any = None) -> Tensor:
    rows, stored = len(data["pos"]), len(data["crd"])
    last = {PLAIN: (), NUMBERED: ({},), LISTED: ({"crd": np.arange(stored, dtype=np.uint32)[::-1].copy()},)}[form]
    return Tensor(form, (rows, 5, stored)[: len(form.levels)], ({"n": rows}, data, *last), values)


def by_rows(made: Schedule) -> Schedule:
    """Several positions written out, blocks of rows to threads."""
    made = made.split("p", "p0", "p1", 2).split("i", "b", "r", 2).unroll("p1")
    return made.parallelize("b", "threads")


@given(sliced())
def test_rows(data: dict[str, np.ndarray]) -> None:
    """By an oracle of its own: what repeats counts each time."""
    base = schedule("C[i, k] = X[j, k] where A[i, j]", A=PLAIN)
    a, x = tensor(data, PLAIN), np.arange(10.0).reshape(5, 2)
    expected = [x[data["crd"][low:high]].sum(0) for low, high in zip(data["pos"], data["end"], strict=True)]
    for made in (base, by_rows(base.pos("j", "p", "A"))):
        assert np.array_equal(kernel(made)(A=a, X=x), np.reshape(expected, (-1, 2)))


@given(sliced(), st.sampled_from([NUMBERED, LISTED]))
def test_ids(data: dict[str, np.ndarray], form: Format) -> None:
    """With a condition on the ids of entries."""
    base = schedule("y[i] = w[e] * x[j] where A[i, j, e] and t[e] > now", A=form)
    m = len(data["crd"])
    operands = {"A": tensor(data, form), "w": np.arange(m) + 1.0, "x": np.arange(5.0), "t": np.arange(m) % 3, "now": 0}
    expected = interpret(base.statement, np.zeros(len(data["pos"])), **operands)
    for made in (base, by_rows(base.fuse("j", "e", "f").pos("f", "p", "A"))):
        assert np.array_equal(kernel(made)(**operands), expected)


def test_output_at_the_places_of_entries() -> None:
    data = {"pos": np.array([4, 0]), "end": np.array([6, 1]), "crd": np.arange(6, dtype=np.uint32) % 5}
    made = schedule("D[i, j, e] = u[i] * x[j] where B[i, j, e]", pattern="B", B=NUMBERED)
    found = kernel(made)(B=tensor(data, NUMBERED), u=np.array([1.0, 10.0]), x=np.arange(5.0) + 1)
    assert found.values.tolist() == [10, 0, 0, 0, 5, 1]


def test_slices_do_not_fuse_with_their_rows() -> None:
    with pytest.raises(ScheduleError, match="slices of A lie apart"):
        schedule("y[i] = x[j] where A[i, j]", A=PLAIN).fuse("i", "j", "f")


@pytest.mark.parametrize(
    ("pos", "end", "what"),
    [([3], [2], "1 slices"), ([0], [4], "1 slices"), ([-1], [2], "1 slices"), ([0, 1], [2, 2], "1 slices")],
)
def test_unsound_slices(pos: list[int], end: list[int], what: str) -> None:
    data = {"pos": np.array(pos), "end": np.array(end), "crd": np.zeros(3, np.uint32)}
    with pytest.raises(ValueError, match=what):
        Tensor(PLAIN, (1, 5), ({"n": 1}, data), None)
    with pytest.raises(ValueError, match="int32 or int64"):
        Tensor(PLAIN, (1, 5), ({"n": 1}, data | {"end": np.array(end, np.uint32)}), None)


def test_slices_have_no_list_of_coordinates() -> None:
    data = {"pos": np.array([0]), "end": np.array([1]), "crd": np.zeros(3, np.uint32)}
    with pytest.raises(ValueError, match="lie apart"):
        Tensor(PLAIN, (1, 5), ({"n": 1}, data), np.ones(3)).to_dense()
