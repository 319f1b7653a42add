"""Every format under every schedule computes what the interpreter does.

All texts run as plain Python. Each schedule is compiled for one of the formats, in turn, since compiling takes most of
the time.
"""

from __future__ import annotations

import numpy as np
import pytest
from cases import FORMATS, FORMATS_3D, arrays, check, cubes, tensor
from headway.kernels.space import CSR, Schedule, ScheduleError, kernel, schedule

RNG = np.random.default_rng(0)


def outer(s: Schedule, size: int, race: str = "none") -> Schedule:
    """Threads over blocks of the outermost loop, by positions where that loop walks a level."""
    loop = s.loops[0]
    if s.iterator(loop):
        s, loop = s.pos(loop, "op", "A"), "op"
    return s.split(loop, "o0", "o1", size).parallelize("o0", "threads", race)


def fused(s: Schedule, *loops: str) -> Schedule:
    """Positions `p` of the last of the loops, all of them fused."""
    last = loops[-1]
    for number, loop in enumerate(reversed(loops[:-1])):
        s, last = s.fuse(loop, last, f"f{number}"), f"f{number}"
    return s.pos(last, "p", "A")


TWO = {
    "as stated": lambda s: s,
    "rows by 5": lambda s: outer(s, 5),
    "rows by 1000": lambda s: outer(s, 1000),
    "rows in 3 parts": lambda s: s.divide(s.loops[0], "o0", "o1", 3).parallelize("o0", "threads"),
    "rows by 5, private": lambda s: outer(s, 5, "private"),
    "rows by 5, atomic": lambda s: outer(s, 5, "atomic"),
    "rows, strided": lambda s: s.split(s.loops[0], "o0", "o1", 4).reorder("o1", "o0"),
    "positions by 4": lambda s: s.pos(s.loops[1], "q", "A").split("q", "q0", "q1", 4),
    "positions by 4, strided": lambda s: s.pos(s.loops[1], "q", "A").split("q", "q0", "q1", 4).reorder("q1", "q0"),
    "positions by 4, written out": lambda s: s.pos(s.loops[1], "q", "A").split("q", "q0", "q1", 4).unroll("q1"),
    "tiles of 8": lambda s: s.split(s.loops[1], "t0", "t1", 8),
    "tiles of 8 outside": lambda s: s.split(s.loops[1], "t0", "t1", 8).reorder("t0", s.loops[0], "t1"),
    "tiles of 16, then 4": lambda s: s.split(s.loops[1], "t0", "t1", 16).split("t1", "t2", "t3", 4),
    "tiles in 3 parts": lambda s: s.divide(s.loops[1], "t0", "t1", 3),
    "all positions": lambda s: fused(s, *s.loops[:2]),
    "blocks of 7, carried": lambda s: (
        fused(s, *s.loops[:2]).split("p", "b", "q", 7).parallelize("b", "threads", "carry")
    ),
    "blocks of 7, atomic": lambda s: (
        fused(s, *s.loops[:2]).split("p", "b", "q", 7).parallelize("b", "threads", "atomic")
    ),
    "blocks of 7, private": lambda s: (
        fused(s, *s.loops[:2]).split("p", "b", "q", 7).parallelize("b", "threads", "private")
    ),
    "blocks of 16, then 5": lambda s: (
        fused(s, *s.loops[:2]).split("p", "b", "q", 16).split("q", "t", "z", 5).parallelize("b", "threads", "carry")
    ),
    "blocks of 16, strided by 4": lambda s: (
        fused(s, *s.loops[:2])
        .split("p", "b", "q", 16)
        .split("q", "t", "z", 4)
        .reorder("b", "z", "t")
        .parallelize("b", "threads", "atomic")
    ),
    "6 blocks": lambda s: fused(s, *s.loops[:2]).divide("p", "b", "q", 6).parallelize("b", "threads", "carry"),
    "vector": lambda s: outer(s, 5).parallelize(s.loops[-1], "vector", "private"),
}


def plain(how: str, table: dict, form: str, forms: dict) -> bool:
    """Whether this is one of the combinations that are not compiled."""
    return list(forms)[list(table).index(how) % len(forms)] != form


def built(make, base: Schedule) -> Schedule | None:
    """A schedule, if this format has it; else it was refused."""
    try:
        made = make(base)
        kernel(made)
    except ScheduleError:
        return None
    return made


@pytest.mark.parametrize("how", TWO)
@pytest.mark.parametrize("form", FORMATS)
def test_spmv(form: str, how: str) -> None:
    made = built(TWO[how], schedule("y[i] = A[i, j] * x[j]", A=FORMATS[form]))
    if made is None:
        return
    for array in arrays().values():
        x = RNG.integers(1, 9, array.shape[1]).astype(float)
        check(made, {"A": tensor(array, FORMATS[form]), "x": x}, array.shape[:1], plain(how, TWO, form, FORMATS))


MANY = {
    "as stated": TWO["as stated"],
    "rows by 5": TWO["rows by 5"],
    "eight together": lambda s: outer(s.pos(s.loops[1], "q", "A").split("q", "q0", "q1", 8).unroll("q1"), 5),
    "columns by 4 outside": lambda s: s.split("k", "k0", "k1", 4).reorder("k0", *s.loops[:2], "k1"),
    "rows and columns fused": lambda s: s.reorder(s.loops[0], "k", s.loops[1]).fuse(s.loops[0], "k", "g"),
    "positions and columns fused": lambda s: fused(s, *s.loops[:2]).fuse("p", "k", "g").split("g", "g0", "g1", 9),
    "blocks of 7, columns outside, carried": lambda s: (
        fused(s, *s.loops[:2]).split("p", "b", "q", 7).reorder("b", "k", "q").parallelize("b", "threads", "carry")
    ),
    "blocks of 7, columns inside": lambda s: (
        fused(s, *s.loops[:2]).split("p", "b", "q", 7).parallelize("b", "threads", "atomic")
    ),
    "bound": lambda s: s.bound("k", 6).unroll("k"),
}


@pytest.mark.parametrize("how", MANY)
@pytest.mark.parametrize("form", FORMATS)
def test_spmm(form: str, how: str) -> None:
    made = built(MANY[how], schedule("C[i, k] = A[i, j] * B[j, k]", A=FORMATS[form]))
    if made is None:
        return
    for array in arrays().values():
        b = RNG.integers(1, 9, (array.shape[1], 6)).astype(float)
        check(made, {"A": tensor(array, FORMATS[form]), "B": b}, (array.shape[0], 6), plain(how, MANY, form, FORMATS))


SAMPLED = {
    "as stated": TWO["as stated"],
    "rows by 5": TWO["rows by 5"],
    "blocks of 7": lambda s: fused(s, *s.loops[:2]).split("p", "b", "q", 7).parallelize("b", "threads"),
    "all fused": lambda s: fused(s, *s.loops[:2]).fuse("p", "k", "g").split("g", "b", "q", 7),
}


@pytest.mark.parametrize("how", SAMPLED)
@pytest.mark.parametrize("form", FORMATS)
def test_sddmm(form: str, how: str) -> None:
    """The output has A's coordinates."""
    made = built(SAMPLED[how], schedule("D[i, j] = A[i, j] * B[i, k] * C[k, j]", pattern="A", A=FORMATS[form]))
    if made is None:
        return
    for array in arrays().values():
        b, c = (RNG.integers(1, 9, shape).astype(float) for shape in ((array.shape[0], 3), (3, array.shape[1])))
        check(
            made, {"A": tensor(array, FORMATS[form]), "B": b, "C": c}, array.shape, plain(how, SAMPLED, form, FORMATS)
        )


THREE = {
    "as stated": TWO["as stated"],
    "slices by 2": lambda s: outer(s, 2),
    "fibres by 2": lambda s: s.pos(s.loops[1], "q", "A").split("q", "q0", "q1", 2),
    "last two levels fused": lambda s: fused(s, *s.loops[1:3]).split("p", "b", "q", 5),
    "first two levels fused": lambda s: fused(s, *s.loops[:2]).split("p", "b", "q", 3).parallelize("b", "threads"),
    "blocks of 5, carried": lambda s: (
        fused(s, *s.loops[:3])
        .split("p", "b", "q", 5)
        .reorder("b", *s.loops[3:], "q")
        .parallelize("b", "threads", "carry")
    ),
    "blocks of 5, atomic": lambda s: (
        fused(s, *s.loops[:3]).split("p", "b", "q", 5).parallelize("b", "threads", "atomic")
    ),
}
STATEMENTS = {
    "mttkrp": ("Y[i, r] = A[i, j, k] * B[j, r] * C[k, r]", None),
    "ttv": ("Y[i, j] = A[i, j, k] * x[k]", None),
    "ttv, same rows": ("Y[i, j] = A[i, j, k] * x[k]", "A"),
    "ttm": ("Y[i, j, r] = A[i, j, k] * C[k, r]", "A"),
    "two dimensions summed": ("Y[i] = A[i, j, k] * B[j, r] * x[k]", None),
}


@pytest.mark.parametrize("how", THREE)
@pytest.mark.parametrize("what", STATEMENTS)
@pytest.mark.parametrize("form", FORMATS_3D)
def test_three_dimensions(form: str, what: str, how: str) -> None:
    text, pattern = STATEMENTS[what]
    try:
        base = schedule(text, pattern=pattern, A=FORMATS_3D[form])
    except ScheduleError:
        return
    made = built(THREE[how], base)
    if made is None:
        return
    for array in cubes().values():
        sizes = dict(zip("ijk", array.shape, strict=True)) | {"r": 4}
        dense = {
            name: RNG.integers(1, 9, tuple(sizes[index] for index in indices)).astype(float)
            for name, indices in (("B", "jr"), ("C", "kr"), ("x", "k"))
            if name in made.statement.operands
        }
        shape = tuple(sizes[index] for index in made.statement.output.indices)
        check(made, {"A": tensor(array, FORMATS_3D[form])} | dense, shape, plain(how, THREE, form, FORMATS_3D))


@pytest.mark.parametrize("form", FORMATS_3D)
def test_precompute(form: str) -> None:
    base = schedule("Y[i, r] = A[i, j, k] * B[j, r] * C[k, r]", A=FORMATS_3D[form])
    made = built(lambda s: outer(s.precompute("A[i, j, k] * C[k, r]", "r", "w"), 2), base)
    if made is None:
        return
    for array in cubes().values():
        b, c = (RNG.integers(1, 9, (n, 4)).astype(float) for n in array.shape[1:])
        check(made, {"A": tensor(array, FORMATS_3D[form]), "B": b, "C": c}, (array.shape[0], 4), form != "csf")


@pytest.mark.parametrize("form", ["csr", "csc", "dcsr"])
@pytest.mark.parametrize("text", ["s = A[i, j] * B[i, j]", "C[i, k] = A[i, j] * B[j, k]", "y[i] = A[i, j] * B[j, i]"])
def test_two_sparse_factors(text: str, form: str) -> None:
    """The first one is walked; in the second, what it lacks is searched for."""
    array = arrays()["uneven"][:29]
    sparse = {"A": FORMATS["csr"], "B": FORMATS[form]}
    base = schedule(text, **sparse)
    for made in (base, fused(base, "i", "j").split("p", "b", "q", 7).parallelize("b", "threads", "atomic")):
        check(
            made,
            {"A": tensor(array, sparse["A"]), "B": tensor(array.T.copy(), sparse["B"])},
            tuple(29 for _ in made.statement.output.indices),
        )


@pytest.mark.parametrize("table", [TWO, MANY, SAMPLED, THREE])
def test_every_schedule_is_some_formats(table: dict) -> None:
    """None of the tables above holds a schedule that all formats refuse."""
    text, forms, pattern = {
        id(TWO): ("y[i] = A[i, j] * x[j]", FORMATS, None),
        id(MANY): ("C[i, k] = A[i, j] * B[j, k]", FORMATS, None),
        id(SAMPLED): ("D[i, j] = A[i, j] * B[i, k] * C[k, j]", FORMATS, "A"),
        id(THREE): ("Y[i, j] = A[i, j, k] * x[k]", FORMATS_3D, None),
    }[id(table)]
    for how, make in table.items():
        assert any(built(make, schedule(text, pattern=pattern, A=form)) for form in forms.values()), how


@pytest.mark.parametrize("high", [-3, 0, 2, 5, 99])
@pytest.mark.parametrize("low", [-2, 0, 3, 50])
def test_dense_loops_between_conditions(low: int, high: int) -> None:
    """Entries that conditions leave out are zero, also in loops that are written out, and bounds may be fractions."""
    base = schedule("y[i] = A[i, j] * x[j] where i >= low and i < high", A=CSR)
    array = np.arange(1.0, 31).reshape(6, 5)
    given = {"A": tensor(array, CSR), "x": np.ones(5), "low": low, "high": high}
    expected = np.where((np.arange(6) >= low) & (np.arange(6) < high), array.sum(axis=1), 0)
    for made in (base, base.unroll("i", 2), base.unroll("i", 4)):
        assert np.array_equal(kernel(made)(out=np.full(6, 7.0), **given), expected)
        between = given | {"low": low - 0.5, "high": high - 0.5}
        assert np.array_equal(kernel(made)(out=np.full(6, 7.0), **between), expected)
