"""What a statement means, slowly: every product over every stored coordinate. The oracle of all tests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import product
from operator import add, mul
from typing import Any

import numpy as np

from .levels import Arrays, Level
from .statement import Access, Node, Number, Product, Statement, accesses, render
from .tensors import Tensor

Binding = dict[str, int]
_ADD = {"+": add, "min": min, "|": lambda a, b: bool(a) or bool(b)}
_MULTIPLY = {"*": mul, "+": add, "&": lambda a, b: bool(a) and bool(b)}


def interpret(statement: Statement, out: np.ndarray, **operands: Any) -> np.ndarray:
    """The dense output, added to a copy of `out`, in Python's numbers; operands are arrays, tensors and scalars."""
    stored = {name: dict(_entries(given)) for name, given in operands.items() if isinstance(given, Tensor)}
    result = out.astype(object)
    if not statement.accumulate:
        result[...] = statement.semiring.zero(out.dtype)
    for one in statement.products:
        for binding in _bindings(statement, one, operands, stored):
            values = [_evaluate(node, binding, operands, stored) for node in one]
            at = tuple(binding[index] for index in statement.output.indices)
            result[at] = _ADD[statement.semiring.sum](result[at], reduce(_MULTIPLY[statement.semiring.product], values))
    return result.astype(out.dtype)


def _entries(tensor: Tensor) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Coordinates in order of the dimensions, and values (None where the tensor has none)."""
    modes = tensor.format.modes
    for coordinates, p in _walk(tensor.format.levels, tensor.arrays, 0):
        at = dict(zip(modes, coordinates, strict=True))
        value = None if tensor.values is None else tensor.values[p].item()
        yield tuple(at[mode] for mode in sorted(modes)), value


def _walk(levels: tuple[Level, ...], arrays: tuple[Arrays, ...], q: int) -> Iterator[tuple[tuple[int, ...], int]]:
    if not levels:
        yield (), q
        return
    for p, coordinate in levels[0].walk(arrays[0], q):
        for rest, last in _walk(levels[1:], arrays[1:], p):
            yield (coordinate, *rest), last


def _bindings(statement: Statement, one: Product, operands: Any, stored: Any) -> Iterator[Binding]:
    """Values of all indices under which the sparse factors are stored and the conditions hold."""
    reads = [access for node in (*one, *statement.where) for access in accesses(node)]
    found: list[Binding] = [{}]
    for access in dict.fromkeys(access for access in reads if access.tensor in stored):
        entries = [dict(zip(access.indices, at, strict=True)) for at in stored[access.tensor]]
        found = [old | new for old in found for new in entries if all(old.get(i, c) == c for i, c in new.items())]
    conditions = [node for node in statement.where if not (isinstance(node, Access) and node.tensor in stored)]
    sizes: dict[str, int] = {}
    for access in reads:
        if access.tensor not in stored:
            sizes |= zip(access.indices, operands[access.tensor].shape, strict=True)
    for binding in found:
        free = [index for index in sizes if index not in binding]
        for values in product(*(range(sizes[index]) for index in free)):
            whole = binding | dict(zip(free, values, strict=True))
            if all(_evaluate(node, whole, operands, stored) for node in conditions):
                yield whole


def _evaluate(node: Node, binding: Binding, operands: Any, stored: Any) -> Any:
    def text(leaf: Any) -> str:
        if isinstance(leaf, Access):
            at = tuple(binding[index] for index in leaf.indices)
            if leaf.tensor in stored:
                return repr(stored[leaf.tensor][at])
            return repr(operands[leaf.tensor][at].item())
        if isinstance(leaf, Number):
            return repr(leaf.value)
        return repr(binding[leaf.name] if leaf.name in binding else operands[leaf.name])

    return eval(render(node, text), {"min": min, "inf": float("inf"), "nan": float("nan")})
