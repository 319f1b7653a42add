"""Integers of a generated CUDA text as a GPU likes them.

Positions, coordinates and counters have 32 bits where that is enough, subscripts no sign (Numba asks of signed ones
whether they count from the end), and loops by a stride add to a counter where Numba's `range` would divide first.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import numpy as np

from .source import load

ROOM = 2**30  # counters may pass the end by what runs side by side


def load_integers(source: str, wide: bool, **names: Any) -> dict[str, Any]:
    """The functions of a CUDA text, as `load` gives them; `wide`: with 64 bits."""
    types = {"whole": np.int64, "place": np.uint64} if wide else {"whole": np.int32, "place": np.uint32}
    return load(source, _rewritten, **types, **names)


def _rewritten(tree: ast.Module) -> ast.Module:
    for function in tree.body:
        _Rewrite(_counters(function)).visit(function)
    return ast.fix_missing_locations(tree)


def _counters(function: ast.AST) -> set[str]:
    """Names that loops count, that subscripts are made of, and all that follow from."""
    defined: dict[str, list[ast.AST]] = {}
    found: set[str] = set()
    for node in ast.walk(function):
        match node:
            case ast.Assign([ast.Name(name)], value) | ast.AugAssign(ast.Name(name), _, value):
                defined.setdefault(name, []).append(value)
            case ast.For(ast.Name(name), ast.Call(args=bounds)):
                found |= {name, *(read for bound in bounds for read in _names(bound))}
            case ast.Subscript(slice=index):
                found |= {*_names(index)}
    new = found
    while new:
        new = {read for name in new for value in defined.get(name, ()) for read in _names(value)} - found
        found = found | new
    return found & {
        node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _names(node: ast.AST) -> Iterator[str]:
    """Names that a value is computed from; what an array holds, and what a function gives, is another matter."""
    if isinstance(node, ast.Name):
        yield node.id
    elif not isinstance(node, ast.Subscript | ast.Attribute):
        parts = node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
        for part in parts:
            yield from _names(part)


class _Rewrite(ast.NodeTransformer):
    def __init__(self, counters: set[str]) -> None:
        self.counters = counters

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.targets[0], ast.Name) and node.targets[0].id in self.counters:
            node.value = _call("whole", node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name) or node.target.id not in self.counters:
            return node
        value = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
        return ast.copy_location(ast.Assign([node.target], _call("whole", value)), node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        node.slice = _place(node.slice)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("add", "min") and len(node.args) == 3:
            node.args[1] = _place(node.args[1])  # an atomic
        return node

    def visit_For(self, node: ast.For) -> Any:
        self.generic_visit(node)
        bounds = node.iter.args if isinstance(node.iter, ast.Call) else []
        node.iter.args = [_call("whole", bound) for bound in bounds]  # type: ignore[attr-defined]
        if len(bounds) < 3:
            return node
        assert isinstance(node.target, ast.Name)
        name = node.target.id
        begin, limit, stride = (name, f"{name}_limit", f"{name}_stride")
        lines: list[ast.stmt] = [
            _assign(target, value)
            for target, value in zip((begin, limit, stride), node.iter.args, strict=True)  # type: ignore[attr-defined]
        ]
        test = ast.Compare(ast.Name(name, ast.Load()), [ast.Lt()], [ast.Name(limit, ast.Load())])
        on = ast.BinOp(ast.Name(name, ast.Load()), ast.Add(), ast.Name(stride, ast.Load()))
        lines.append(ast.While(test, [*node.body, _assign(name, _call("whole", on))], []))
        return [ast.copy_location(line, node) for line in lines]


def _assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _call(function: str, value: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(function, ast.Load()), [value], [])


def _place(index: ast.expr) -> ast.expr:
    if isinstance(index, ast.Tuple):
        return ast.Tuple([_place(part) for part in index.elts], ast.Load())
    return index if isinstance(index, ast.Constant) else _call("place", index)
