"""Sparse tensor kernels by name, and mixed expressions by notation.

    y = spmv(A, x)
    Y = evaluate("Y[i, r] = A[i, j, k] * B[j, r] * C[k, r]", A=A, B=B, C=C)

Each takes `target="cuda"` for operands on a GPU, `threads` on the CPU. Schedules are those of `autoschedule`, which
looks at the lengths of rows, unless a line here says otherwise; `tune` finds better ones for data at hand.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .space.arguments import check, values_of
from .space.assembly import assemble
from .space.autoschedule import autoschedule, check_target, rows_of
from .space.begin import schedule
from .space.kernel import kernel
from .space.schedule import Schedule
from .space.statement import Semiring, Statement, accesses, parse
from .space.tensors import Format, Tensor


def spmv(A: Tensor, x: Any, **options: Any) -> Any:
    """`y = A x`."""
    return evaluate("y[i] = A[i, j] * x[j]", A=A, x=x, **options)


def spmm(A: Tensor, B: Any, **options: Any) -> Any:
    """`C = A B` with a dense B."""
    return evaluate("C[i, k] = A[i, j] * B[j, k]", A=A, B=B, **options)


def sddmm(A: Tensor, B: Any, C: Any, **options: Any) -> Tensor:
    """`A * (B C)`, only where A has entries; B is rows x k, C is k x columns."""
    return evaluate("D[i, j] = A[i, j] * B[i, k] * C[k, j]", A=A, B=B, C=C, **options)


def mttkrp(A: Tensor, B: Any, C: Any, **options: Any) -> Any:
    """The matricised tensor times the Khatri-Rao product of B and C; a row of partial sums for each (i, j)."""
    return evaluate("Y[i, r] = A[i, j, k] * B[j, r] * C[k, r]", A=A, B=B, C=C, **options)


def ttv(A: Tensor, x: Any, **options: Any) -> Any:
    """The tensor times a vector along its last dimension, dense."""
    return evaluate("Y[i, j] = A[i, j, k] * x[k]", A=A, x=x, **options)


def ttm(A: Tensor, C: Any, **options: Any) -> Tensor:
    """The tensor times a matrix along its last dimension: rows of values at the (i, j) that A has."""
    return evaluate("Y[i, j, r] = A[i, j, k] * C[k, r]", pattern="A", A=A, C=C, **options)


def evaluate(
    text: str | Statement,
    *,
    semiring: Semiring | None = None,
    target: str = "cpu",
    pattern: str | None = None,
    form: Format | None = None,
    out: Any = None,
    threads: int | None = None,
    **operands: Any,
) -> Any:
    """Compute a statement.

    An elementwise expression of sparse tensors becomes a sparse one (in `form`). A product with a tensor of the
    output's own indices keeps its coordinates. Everything else is dense; a sum is computed product by product.
    """
    statement = parse(text, semiring) if isinstance(text, str) else text
    check_target(target)
    dtype, new = check(statement, operands, out), out is None
    sparse = {name for name, given in operands.items() if isinstance(given, Tensor) and given.format.sparse}
    reads = [[a for node in product for a in accesses(node) if a.tensor in sparse] for product in statement.products]
    elementwise = set(statement.indices) == set(statement.output.indices) and all(reads)
    if elementwise and out is None and pattern is None and not statement.where:
        return assemble(statement, form, **operands)
    if form is not None:
        raise ValueError(f"{statement.text}: form is for elementwise expressions of sparse tensors")
    if pattern is None and len(statement.products) == 1:
        same = [a.tensor for a in reads[0] if set(a.indices) == set(statement.output.indices)]
        pattern = same[0] if same and (out is None or isinstance(out, Tensor)) else None
    for term in statement.terms:
        base = schedule(term, pattern=pattern, **{name: operands[name].format for name in sparse & {*term.operands}})
        made = _scheduled(base, target, operands)
        mine = {name: operands[name] for name in (*term.operands, *term.scalars) if name in operands}
        out = kernel(made)(out=out, threads=threads, **mine)
        if new and values_of(out).dtype != dtype:
            wider = values_of(out).astype(dtype)
            out = replace(out, values=wider) if isinstance(out, Tensor) else wider
    return out


def _scheduled(base: Schedule, target: str, operands: dict[str, Any]) -> Schedule:
    first = base.sparse[0][0] if base.sparse else None
    inner = base.loops[-1]
    sizes = (zip(a.indices, operands[a.tensor].shape, strict=True) for a in base.read() if a.tensor in operands)
    columns = None if base.iterator(inner) else dict(pair for pairs in sizes for pair in pairs)[inner]
    return autoschedule(base, target, rows_of(operands[first]) if first else None, columns)
