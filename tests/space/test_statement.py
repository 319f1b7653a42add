"""The notation, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from headway.kernels.space import MIN_PLUS, OR_AND, PLUS_TIMES, interpret, parse
from headway.kernels.space.statement import Access, Name, Number


def test_parts() -> None:
    made = parse("y[i] = 2 * A[i, j] * x[j] where j >= low and i < high")
    assert made.output == Access("y", ("i",))
    assert made.products == ((Number(2), Access("A", ("i", "j")), Access("x", ("j",))),)
    assert made.indices == ("i", "j")
    assert made.scalars == ("high", "low")
    assert made.operands == ("A", "x")
    assert [str(node) for node in made.where] == ["j >= low", "i < high"]
    assert not made.accumulate


def test_sums_are_multiplied_out() -> None:
    made = parse("y[i] = (A[i, j] + B[i, j]) * x[j] - b[i]")
    assert [[str(node) for node in product] for product in made.products] == [
        ["A[i, j]", "x[j]"],
        ["B[i, j]", "x[j]"],
        ["-1", "b[i]"],
    ]
    assert [term.accumulate for term in made.terms] == [False, True, True]


def test_semirings() -> None:
    assert parse("d[v] min= d[u] + A[u, v]").semiring is MIN_PLUS
    assert parse("s[v] |= A[u, v] & f[u]").semiring is OR_AND
    assert parse("s[v] += A[u, v] * f[u]").semiring is PLUS_TIMES
    made = parse("d[v] = min(e[u] + A[u, v], b[v])", MIN_PLUS)
    assert len(made.products) == 2
    assert parse("a[v] min= t + l where S[v, l, t]").products == ((Name("t"), Name("l")),)
    assert parse("x[i] = y[i] where a <= t < b and z[i, t]").where[1].symbol == "<"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y[i] A[i, j]", "is no statement: write output"),
        ("y[i, i] = A[i]", "repeats an index"),
        ("y[i] = A[i, i]", "repeats an index: take the diagonal first"),
        ("y[i] = A[i + 1]", "an index is a name"),
        ("y[i] = f(A[i])", "is not part of the notation"),
        ("y[i] = A[i] ** 2", "is not part of the notation"),
        ("y[i] = A[i, j] where", "cannot be read: names are Python's, and conditions follow 'where'"),
        ("y[i] = A[i, in]", "cannot be read"),
        ("y[i] = A[i, x] * x[x]", "x is the name of an index and of a tensor"),
        ("y[i] = A[j]", "index i of the output is in no tensor"),
        ("y[i] = A[i, j] + B[j]", "index i of the output is in no tensor of B"),
        ("y[i] += A[i, j] * y[j]", "y is read and written: only min-plus and or-and may, accumulating"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(text)


def test_sum_of_another_semiring() -> None:
    with pytest.raises(ValueError, match="min= is not the sum of or-and"):
        parse("y[i] min= A[i]", OR_AND)


def test_interpreter() -> None:
    """By hand: the oracle itself."""
    a, x = np.array([[1.0, 2.0], [0.0, 3.0]]), np.array([10.0, 100.0])
    assert interpret(parse("y[i] = A[i, j] * x[j]"), np.zeros(2), A=a, x=x).tolist() == [210, 300]
    assert interpret(parse("y[i] += A[i, j] * x[j]"), np.ones(2), A=a, x=x).tolist() == [211, 301]
    assert interpret(parse("y[i] = A[i, j] + x[j]", MIN_PLUS), np.zeros(2), A=a, x=x).tolist() == [11, 10]
    assert interpret(parse("y[i] = A[i, j] * x[j] where j < n"), np.zeros(2), A=a, x=x, n=1).tolist() == [10, 0]
    truth = interpret(parse("y[i] = A[i, j] & x[j]", OR_AND), np.zeros(2, bool), A=a > 0, x=np.array([True, False]))
    assert truth.tolist() == [True, False]


def test_numerators_are_distributed() -> None:
    made = parse("y[i] = (A[i, j] - B[i, j]) / x[j]")
    assert [" * ".join(map(str, product)) for product in made.products] == ["A[i, j] / x[j]", "(-1 * B[i, j]) / x[j]"]


def test_squares_of_sums_over_some_indices_are_refused() -> None:
    """Here u * u would be added once, not once for each j."""
    with pytest.raises(ValueError, match="its products are summed over different indices; write them out"):
        parse("y[i] = (A[i, j] - u[i]) * (A[i, j] - u[i])")


def test_products_of_sums_over_the_same_indices() -> None:
    assert len(parse("y[i] = (A[i, j] + a * B[i, j]) * (x[j] + z[j])").products) == 4
    assert len(parse("y[i] = d[i] * (A[i, j] * x[j] - b[i])").products) == 2


def test_spaces_do_not_matter() -> None:
    assert parse("C[i,j]=A[i,j]*x[j]").products == parse("C[i, j] = A[i, j] * x[j]").products
    assert parse("d[v]min=d[u]+A[u,v]").semiring is MIN_PLUS
