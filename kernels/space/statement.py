"""What is computed: an output, a reduction and an expression over tensors, read from a notation.

    y[i] = A[i, j] * x[j]
    C[i, j] = A[i, j] + B[i, j]
    d[v] min= d[u] + A[u, v]
    seen[v] |= A[u, v] & front[u]
    H[i, k] += A[i, w, j] * X[j, k] where t0 <= w < t1
    arrival[v] min= t + l where active[u] and S[u, v, l, c, t] and t >= arrival[u]

Operators mean what they mean in Python; the semiring says which of them is the product that entries missing from a
sparse tensor annihilate, and which the sum over all indices that the output lacks. A sparse tensor as a condition
stands for its stored coordinates. An index or a scalar may be a value.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np

from .source import PARSING


@dataclass(frozen=True)
class Semiring:
    """Sum and product as the notation and Python write them.

    `idempotent`: summing a value twice does no harm, so that an output may be read while others lower it.
    """

    name: str
    sum: str
    product: str
    total: np.ufunc
    idempotent: bool

    def zero(self, dtype: Any) -> Any:
        """What adds nothing and annihilates; of 64-bit integers one that a product does not carry past their range."""
        kind = np.dtype(dtype)
        if self.sum != "min":
            return kind.type(0)
        if kind.kind == "f":
            return kind.type(np.inf)
        return kind.type(np.iinfo(kind).max // (2 if kind.itemsize == 8 else 1))

    def add(self, a: str, b: str) -> str:
        """Text of a sum."""
        return f"min({a}, {b})" if self.sum == "min" else f"{a} {self.sum} {b}"


PLUS_TIMES = Semiring("plus-times", "+", "*", np.add, False)
MIN_PLUS = Semiring("min-plus", "min", "+", np.minimum, True)
OR_AND = Semiring("or-and", "|", "&", np.logical_or, True)


@dataclass(frozen=True)
class Access:
    tensor: str
    indices: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.tensor}[{', '.join(self.indices)}]" if self.indices else self.tensor


@dataclass(frozen=True)
class Name:
    """An index or a scalar as a value."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Number:
    value: float | int | bool

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class Op:
    symbol: str
    left: Node
    right: Node

    def __str__(self) -> str:
        return render(self, str)


Node = Access | Name | Number | Op
Product = tuple[Node, ...]


def leaves(node: Node) -> Iterator[Access | Name | Number]:
    if isinstance(node, Op):
        yield from leaves(node.left)
        yield from leaves(node.right)
    else:
        yield node


def accesses(node: Node) -> list[Access]:
    return [leaf for leaf in leaves(node) if isinstance(leaf, Access)]


def names(node: Node) -> set[str]:
    """Indices and scalars in a node."""
    found = {leaf.name for leaf in leaves(node) if isinstance(leaf, Name)}
    return found.union(*(access.indices for access in accesses(node)))


def render(node: Node, text: Callable[[Any], str]) -> str:
    """Python's text of a node, its leaves as `text` has them."""
    if not isinstance(node, Op):
        return text(node)
    left, right = (f"({render(n, text)})" if isinstance(n, Op) else render(n, text) for n in (node.left, node.right))
    return f"min({left}, {right})" if node.symbol == "min" else f"{left} {node.symbol} {right}"


@dataclass(frozen=True)
class Statement:
    """`output = sum of products`, over all indices that the output lacks, where all conditions hold.

    `accumulate` adds to what the output holds; otherwise it starts at the semiring's zero.
    """

    text: str
    output: Access
    products: tuple[Product, ...]
    where: tuple[Node, ...]
    semiring: Semiring
    accumulate: bool

    @cached_property
    def indices(self) -> tuple[str, ...]:
        """Every index, in order of appearance in the expression, then in the output."""
        found = [a.indices for node in self._nodes() for a in accesses(node)]
        return tuple(dict.fromkeys(index for some in [*found, self.output.indices] for index in some))

    @cached_property
    def operands(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(a.tensor for node in self._nodes() for a in accesses(node)))

    @cached_property
    def scalars(self) -> tuple[str, ...]:
        found = {leaf.name for node in self._nodes() for leaf in leaves(node) if isinstance(leaf, Name)}
        return tuple(sorted(found - set(self.indices)))

    @property
    def terms(self) -> tuple[Statement, ...]:
        """A statement for each product; all but the first accumulate."""
        return tuple(
            replace(self, products=(product,), accumulate=self.accumulate or n > 0, text=self._of(product))
            for n, product in enumerate(self.products)
        )

    def _nodes(self) -> list[Node]:
        return [node for product in self.products for node in product] + list(self.where)

    def _of(self, product: Product) -> str:
        """The text of one product."""
        if len(self.products) == 1:
            return self.text
        parts = (render(node, str) for node in product)
        where = f" where {' and '.join(map(str, self.where))}" if self.where else ""
        return f"{self.output} {self.semiring.sum}= {f' {self.semiring.product} '.join(parts)}{where}"


_ASSIGN = {"=": None, "+=": PLUS_TIMES, "min=": MIN_PLUS, "|=": OR_AND}
_SYMBOLS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.BitAnd: "&",
    ast.BitOr: "|", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


def parse(text: str, semiring: Semiring | None = None) -> Statement:
    """Read the notation. `min=` and `|=` bring their semiring; `=` means plus-times unless another one is given."""
    whole = " ".join(text.split())
    found = re.fullmatch(r"(\w+)(?:\[([^\]]*)\])? ?(=|\+=|min=|\|=) ?(.+?)(?: where (.+))?", whole)
    if not found:
        raise ValueError(f"{text!r} is no statement: write output[i] = expression, and 'where' before conditions")
    tensor, indices, assign, expression, where = found.groups()
    ring = semiring or _ASSIGN[assign] or PLUS_TIMES
    if _ASSIGN[assign] not in (None, ring):
        raise ValueError(f"{assign} is not the sum of {ring.name}")
    output = Access(tensor, tuple(part.strip() for part in (indices or "").split(",") if part.strip()))
    if len(set(output.indices)) < len(output.indices):
        raise ValueError(f"{output} repeats an index")
    products = tuple(_expand(_node(_tree(expression)), ring, set(output.indices)))
    conditions = tuple(_conditions(_tree(where))) if where else ()
    made = Statement(whole, output, products, conditions, ring, assign != "=")
    read = {a for node in made._nodes() for a in accesses(node)}
    if repeated := next((a for a in read if len(set(a.indices)) < len(a.indices)), None):
        raise ValueError(f"{repeated} repeats an index: take the diagonal first")
    if twice := {*made.indices} & {tensor, *made.operands}:
        raise ValueError(f"{min(twice)} is the name of an index and of a tensor")
    if tensor in made.operands and not (ring.idempotent and made.accumulate):
        raise ValueError(f"{tensor} is read and written: only {MIN_PLUS.name} and {OR_AND.name} may, accumulating")
    for product in products:
        known = {i for node in (*product, *conditions) for a in accesses(node) for i in a.indices}
        if missing := next((i for i in output.indices if i not in known), None):
            raise ValueError(f"index {missing} of the output is in no tensor of {' '.join(map(str, product))}")
    return made


def _tree(text: str) -> ast.AST:
    try:
        with PARSING:
            return ast.parse(text, mode="eval").body
    except SyntaxError:
        raise ValueError(f"{text!r} cannot be read: names are Python's, and conditions follow 'where'") from None


def _node(tree: ast.AST) -> Node:
    if isinstance(tree, ast.Constant) and isinstance(tree.value, bool | int | float):
        return Number(tree.value)
    if isinstance(tree, ast.Name):
        return Name(tree.id)
    if isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Name):
        parts = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
        if all(isinstance(part, ast.Name) for part in parts):
            return Access(tree.value.id, tuple(part.id for part in parts if isinstance(part, ast.Name)))
        raise ValueError(f"{ast.unparse(tree)}: an index is a name")
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return Op("*", Number(-1), _node(tree.operand))
    if isinstance(tree, ast.BinOp) and type(tree.op) in _SYMBOLS:
        return Op(_SYMBOLS[type(tree.op)], _node(tree.left), _node(tree.right))
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "min" and len(tree.args) == 2:
        return Op("min", _node(tree.args[0]), _node(tree.args[1]))
    raise ValueError(f"{ast.unparse(tree)} is not part of the notation")


def _conditions(tree: ast.AST) -> Iterator[Node]:
    """Conditions that must all hold; `a <= b < c` is two."""
    if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And):
        for value in tree.values:
            yield from _conditions(value)
    elif isinstance(tree, ast.Compare):
        sides = [_node(side) for side in (tree.left, *tree.comparators)]
        for left, op, right in zip(sides, tree.ops, sides[1:], strict=False):
            if type(op) not in _SYMBOLS:
                raise ValueError(f"{ast.unparse(tree)} is not part of the notation")
            yield Op(_SYMBOLS[type(op)], left, right)
    else:
        yield _node(tree)


def _expand(node: Node, ring: Semiring, output: set[str]) -> Iterator[Product]:
    """The products whose sum a node is."""
    if isinstance(node, Op) and node.symbol == ring.sum:
        yield from _expand(node.left, ring, output)
        yield from _expand(node.right, ring, output)
    elif isinstance(node, Op) and node.symbol == "-" and ring is PLUS_TIMES:
        yield from _expand(node.left, ring, output)
        yield from ((Number(-1), *product) for product in _expand(node.right, ring, output))
    elif isinstance(node, Op) and node.symbol == ring.product:
        left, right = list(_expand(node.left, ring, output)), list(_expand(node.right, ring, output))
        found = [(*a, *b) for a in left for b in right]
        inner = {i for product in found for one in product for a in accesses(one) for i in a.indices} - output
        summed = {frozenset(inner & set[str]().union(*map(names, product))) for product in found}
        if len(summed) > 1 and len(left) > 1 and len(right) > 1 and not ring.idempotent:
            raise ValueError(f"{node}: multiplied out, its products are summed over different indices; write them out")
        yield from found
    elif isinstance(node, Op) and node.symbol == "/" and ring is PLUS_TIMES:
        for product in _expand(node.left, ring, output):
            yield (Op("/", reduce(partial(Op, ring.product), product), node.right),)
    else:
        yield (node,)


def lossy(product: Product, ring: Semiring, sparse: Container[str]) -> Op | None:
    """A sum with a sparse tensor inside of another operator: it would be computed only where the tensor has entries."""
    adds = (ring.sum, "-") if ring is PLUS_TIMES else (ring.sum,)

    def ops(node: Node) -> Iterator[Op]:
        if isinstance(node, Op):
            yield node
            yield from ops(node.left)
            yield from ops(node.right)

    found = (op for node in product for op in ops(node) if op.symbol in adds)
    return next((op for op in found if any(a.tensor in sparse for a in accesses(op))), None)
