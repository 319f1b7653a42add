"""Sparse outputs: unions and intersections, in every mix of formats."""

from __future__ import annotations

import importlib
from itertools import product
from unittest.mock import patch

import numpy as np
import pytest
from cases import arrays, tensor
from headway.kernels.space import (
    COO,
    CSC,
    CSR,
    DCSR,
    MIN_PLUS,
    Compressed,
    Dense,
    Format,
    ScheduleError,
    Tensor,
    assemble,
    csf_format,
    parse,
)
from headway.kernels.space.source import load

MODULE = importlib.import_module("headway.kernels.space.assembly")
COMPILED = (CSR, DCSR, CSR)
RNG = np.random.default_rng(0)
EXPRESSIONS = {
    "Z[i, j] = A[i, j] + B[i, j]": lambda a, b, c, d: a + b,
    "Z[i, j] = A[i, j] * B[i, j]": lambda a, b, c, d: a * b,
    "Z[i, j] = A[i, j] * B[i, j] - C[i, j]": lambda a, b, c, d: a * b - c,
    "Z[i, j] = 2 * A[i, j] - d[i] * (B[i, j] + C[i, j])": lambda a, b, c, d: 2 * a - d[:, None] * (b + c),
}


def plain(statement, formats, form):
    """Both texts, not compiled."""
    names = load(MODULE.source_of(statement, dict(formats), form))
    return names["count"], names["fill"]


def shuffled(array: np.ndarray) -> np.ndarray:
    """As sparse, elsewhere."""
    return RNG.permuted(RNG.permuted(array, axis=0), axis=1)


@pytest.mark.parametrize("text", EXPRESSIONS)
@pytest.mark.parametrize("forms", [(CSR, CSR, CSR), (CSR, DCSR, CSR), (DCSR, DCSR, DCSR), (DCSR, CSR, DCSR)])
def test_matrices(text: str, forms: tuple[Format, ...]) -> None:
    statement = parse(text)
    for array in arrays().values():
        a, b, c, d = array, shuffled(array), shuffled(array), RNG.integers(1, 9, len(array)).astype(float)
        operands = {"A": tensor(a, forms[0]), "B": tensor(b, forms[1]), "C": tensor(c, forms[0]), "d": d}
        with patch.object(MODULE, "_compiled", MODULE._compiled if forms == COMPILED else plain):
            made = assemble(statement, forms[2], **{name: operands[name] for name in statement.operands})
        Tensor(made.format, made.shape, made.arrays, made.values)  # sorted, unique, inside
        assert made.format == forms[2]
        assert np.array_equal(made.to_dense(), EXPRESSIONS[text](a, b, c, d))


@pytest.mark.parametrize("text", ["Z[i, j, k] = A[i, j, k] + B[i, j, k]", "Z[i, j, k] = A[i, j, k] * B[i, j, k]"])
def test_cubes(text: str) -> None:
    """No position without something below it, where the output is compressed."""
    a, b = ((RNG.random((5, 6, 7)) < 0.15) * RNG.integers(1, 9, (5, 6, 7)) for _ in range(2))
    csf, mixed = csf_format(3), Format((Dense(), Compressed(), Compressed()), (0, 1, 2))
    for first, second in product([csf, mixed], repeat=2):
        with patch.object(MODULE, "_compiled", plain):
            made = assemble(parse(text), first, A=tensor(a, first), B=tensor(b, second))
        expected = tensor(a + b if "+" in text else a * b, first)
        for ours, theirs in zip(made.arrays, expected.arrays, strict=True):
            for part in ours:
                assert np.array_equal(ours[part], theirs[part])


def test_other_semirings() -> None:
    a, b = np.array([[1.0, 0.0, 5.0]]), np.array([[3.0, 4.0, 0.0]])
    made = assemble(parse("Z[i, j] = min(A[i, j], B[i, j])", MIN_PLUS), A=tensor(a, CSR), B=tensor(b, CSR))
    assert made.to_dense().tolist() == [[1, 4, 5]]


@pytest.mark.parametrize(
    ("text", "form", "message"),
    [
        ("Z[i] = A[i, j]", None, "only elementwise expressions have a sparse output"),
        ("Z[i, j] = A[i, j] + D[i, j]", None, "a product without a sparse tensor makes the output dense"),
        ("Z[i, j] = A[i, j] + T[i, j]", None, "is stored in another order than the output; repack it with to"),
        ("Z[i, j] = A[i, j] + O[i, j]", None, "has levels that cannot be merged; repack it with to"),
        ("Z[i, j] = A[i, j]", COO, "the levels of an output are dense or compressed, not COO"),
        ("Z[i, j] = A[i, j]", Format((Compressed(), Dense()), (0, 1)), "dense levels, then compressed ones"),
        ("Z[i] = A[i]", None, "has 1 indices, its format 2"),
        ("Z[i, j] = D[i, j]", None, "a sparse output needs a sparse operand"),
        ("Z[i, j] = (A[i, j] + D[i, j]) // D[i, j]", None, "inside of another operator .* lacks entries"),
        ("Z[i, j] = min(A[i, j] - B[i, j], D[i, j])", None, "inside of another operator .* lacks entries"),
        ("Z[i, j] = D[i, j] / (A[i, j] + B[i, j])", None, "inside of another operator .* lacks entries"),
    ],
)
def test_refused(text: str, form: Format | None, message: str) -> None:
    array = arrays()["full"]
    given = {
        "A": tensor(array, CSR),
        "B": tensor(array, CSR),
        "T": tensor(array, CSC),
        "O": tensor(array, COO),
        "D": array,
    }
    statement = parse(text)
    with pytest.raises(ScheduleError, match=message):
        assemble(statement, form, **{name: given[name] for name in statement.operands})


def test_shapes_agree() -> None:
    with pytest.raises(ValueError, match=r"B has the shape \(2, 3\), A has \(3, 2\)"):
        assemble(parse("Z[i, j] = A[i, j] + B[i, j]"), A=tensor(np.eye(3, 2), CSR), B=tensor(np.eye(2, 3), CSR))


def test_union_over_a_denominator() -> None:
    a, b, x = np.array([[1.0, 0.0, 5.0]]), np.array([[3.0, 4.0, 0.0]]), np.array([2.0, 4.0, 8.0])
    made = assemble(parse("Z[i, j] = (A[i, j] + B[i, j]) / x[j]"), A=tensor(a, CSR), B=tensor(b, CSR), x=x)
    assert np.array_equal(made.to_dense(), (a + b) / x)


def test_types_are_those_of_numpy() -> None:
    a = np.array([[1, 0, 5]])
    for text, dtype in (("A[i, j] * 0.5", float), ("A[i, j] / 2", float), ("A[i, j] * 2", int), ("A[i, j] * w", float)):
        with patch.object(MODULE, "_compiled", plain):
            operands = {"A": tensor(a, CSR)} | ({"w": 0.5} if "w" in text else {})
            made = assemble(parse(f"Z[i, j] = {text}"), **operands)
        assert made.values.dtype == dtype
        assert np.array_equal(made.to_dense(), a * (2 if dtype is int else 0.5))


def test_coordinates_past_32_bits_are_refused() -> None:
    arrays = ({"n": 1}, {"pos": np.array([0, 1]), "crd": np.array([2**32 + 7])})
    wide = Tensor(CSR, (1, 2**33), arrays, np.ones(1))
    with pytest.raises(ValueError, match="more coordinates than 32 bits count"):
        assemble(parse("Z[i, j] = A[i, j] + B[i, j]"), A=wide, B=wide)


def test_dense_operands_have_the_shape() -> None:
    with pytest.raises(ValueError, match=r"d\[i\] has the shape \(2,\), A has \(3,\) there"):
        assemble(parse("Z[i, j] = A[i, j] * d[i]"), A=tensor(np.eye(3, 2), CSR), d=np.ones(2))
    with pytest.raises(TypeError, match="not a statement: make one with parse"):
        assemble("Z[i, j] = A[i, j]")  # type: ignore[arg-type]
