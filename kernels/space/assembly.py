"""Sparse outputs of elementwise expressions: unions and intersections by merge loops, on the CPU.

One text in two versions: the first counts what every level of the output will hold, the second fills it. At each level
the products that may still be nonzero are merged: a product needs all its tensors at a coordinate, a sum any product.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from .arguments import check
from .cpu import CpuText
from .nest import Guard, Line, Loop, Node, Put
from .relations import ScheduleError, check_missing
from .source import njit
from .statement import Access, Product, Statement, accesses, render
from .tensors import Format, Tensor

Present = frozenset[str]


class _Merge:
    def __init__(self, statement: Statement, formats: dict[str, Format], form: Format, fill: bool) -> None:
        self.st, self.formats, self.form, self.fill = statement, formats, form, fill
        self.out = statement.output.tensor
        self.order = [statement.output.indices[mode] for mode in form.modes]
        self.dense = sum(level.full for level in form.levels)  # these come first

    def tensors(self, product: Product) -> list[str]:
        return [a.tensor for node in product for a in accesses(node) if a.tensor in self.formats]

    def walked(self, products: Iterable[Product], number: int) -> Present:
        """Tensors whose level `number` stores only some coordinates."""
        found = (tensor for product in products for tensor in self.tensors(product))
        return frozenset(tensor for tensor in found if not self.formats[tensor].levels[number].full)

    def points(self, products: tuple[Product, ...], number: int) -> list[Present]:
        """Which tensors may be at a coordinate together, larger sets first."""
        found: set[Present] = {frozenset()}
        for product in products:
            found |= {point | self.walked([product], number) for point in found}
        if all(self.walked([product], number) for product in products):
            found.discard(frozenset())
        return sorted(found, key=lambda point: (-len(point), sorted(point)))

    def at(self, tensor: str, number: int):
        index = self.order[number]
        return lambda part: f"n_{index}" if part == "n" else f"{tensor}_{part}{number}"

    def level(self, number: int, products: tuple[Product, ...], above: dict[str, str]) -> list[Node]:
        """Merge a level; `above` are positions of its parents."""
        if number == len(self.order):
            return self.leaf(products, above)
        index, nodes = self.order[number], list[Node]()
        for tensor in sorted(self.walked(products, number)):
            level, at, q = self.formats[tensor].levels[number], self.at(tensor, number), above[tensor]
            nodes.append(Put(f"p{tensor}{number}", level.first(at, q)))
            nodes.append(Line(f"p{tensor}{number}_end", level.first(at, "1" if q == "0" else f"{q} + 1")))
        if self.form.levels[number].full or any(not self.walked([product], number) for product in products):
            loop = Loop(index, "0", f"n_{index}")
            loop.body = self.step(number, products, above, self.points(products, number), whole=True)
            return [*nodes, loop]
        points = self.points(products, number)
        for point in points:
            inside = [other for other in points if other <= point]
            go_on = " and ".join(f"p{tensor}{number} < p{tensor}{number}_end" for tensor in sorted(point))
            nodes.append(Guard("while", go_on, self.step(number, products, above, inside, whole=False)))
        return nodes

    def step(
        self, number: int, products: tuple[Product, ...], above: dict[str, str], points: list[Present], whole: bool
    ) -> list[Node]:
        """One coordinate: the next of those that the tensors hold, or (`whole`) of the dimension."""
        index, nodes = self.order[number], list[Node]()
        walked = sorted(points[0])
        coordinate = {tensor: f"{self.at(tensor, number)('crd')}[p{tensor}{number}]" for tensor in walked}
        if not whole:
            nodes += [Line(f"{tensor}_{index}", text) for tensor, text in coordinate.items()]
            coordinate = {tensor: f"{tensor}_{index}" for tensor in walked}
            least = coordinate[walked[0]]
            for tensor in walked[1:]:
                least = f"min({least}, {coordinate[tensor]})"
            nodes.append(Line(index, least))
        here = {tensor: f"{tensor}_here" if whole else f"{coordinate[tensor]} == {index}" for tensor in walked}
        if whole:
            end = {tensor: f"p{tensor}{number} < p{tensor}{number}_end" for tensor in walked}
            nodes += [Line(here[tensor], f"{end[tensor]} and {coordinate[tensor]} == {index}") for tensor in walked]
        cases: list[Node] = []
        for point in reversed(points):
            alive = tuple(product for product in products if self.walked([product], number) <= point)
            body = self.found(number, alive, above) if alive else []
            if not point or (len(walked) == 1 and not whole):
                cases = body
            elif body:
                cases = [Guard("if", " and ".join(here[tensor] for tensor in sorted(point)), body, cases)]
        nodes += cases
        if whole and self.form.levels[number].full:
            nodes += self.close(number, self.out_position(number))
        single = len(walked) == 1 and not whole
        step = [Put(f"p{tensor}{number}", f"p{tensor}{number} + 1") for tensor in walked]
        return nodes + [
            one if single else Guard("if", here[tensor], [one]) for tensor, one in zip(walked, step, strict=True)
        ]

    def out_position(self, number: int) -> str:
        position = self.order[0]
        for level in range(1, number + 1):
            position = f"({position}) * n_{self.order[level]} + {self.order[level]}"
        return position

    def close(self, number: int, position: str) -> list[Node]:
        """Offsets of the next level, once position `position` of this one is complete."""
        if number + 1 >= len(self.order) or self.form.levels[number + 1].full or not self.fill:
            return []
        return [Put(f"{self.out}_pos{number + 1}[{position} + 1]", f"count{number + 1}")]

    def found(self, number: int, alive: tuple[Product, ...], above: dict[str, str]) -> list[Node]:
        """What happens at a coordinate where the products `alive` may be nonzero."""
        index, below, nodes = self.order[number], dict[str, str](), list[Node]()
        for tensor in dict.fromkeys(tensor for product in alive for tensor in self.tensors(product)):
            level = self.formats[tensor].levels[number]
            below[tensor] = f"p{tensor}{number}"
            if level.full:
                first = level.first(self.at(tensor, number), above[tensor])
                below[tensor] = index if first == "0" else f"p{tensor}{number}"
                nodes += [] if first == "0" else [Line(below[tensor], f"{first} + {index}")]
        inside = [*nodes, *self.level(number + 1, alive, below)]
        if self.form.levels[number].full:
            return inside
        keep: list[Node] = [Put(f"{self.out}_crd{number}[count{number}]", index)] if self.fill else []
        keep.append(Put(f"count{number}", f"count{number} + 1"))
        if number + 1 == len(self.order):
            return [*inside, *keep]
        keep += self.close(number, f"count{number} - 1")
        before = f"before{number + 1}"
        return [Line(before, f"count{number + 1}"), *inside, Guard("if", f"count{number + 1} > {before}", keep)]

    def leaf(self, products: tuple[Product, ...], above: dict[str, str]) -> list[Node]:
        if not self.fill:
            return []

        def text(leaf: Any) -> str:
            return f"{leaf.tensor}_val[{above[leaf.tensor]}]" if getattr(leaf, "tensor", "") in above else str(leaf)

        terms = [
            f" {self.st.semiring.product} ".join(
                f"({render(n, text)})" if not isinstance(n, Access) else text(n) for n in p
            )
            for p in products
        ]
        value = terms[0]
        for term in terms[1:]:
            value = self.st.semiring.add(value, term)
        return [Put(f"{self.out}_val[count{len(self.order) - 1}]", value)]


def source_of(statement: Statement, formats: dict[str, Format], form: Format) -> str:
    """Both versions of the text: `count` and `fill`."""
    lines = [f"# {statement.text}"]
    compressed = [number for number, level in enumerate(form.levels) if not level.full]
    for name in ("count", "fill"):
        merge = _Merge(statement, formats, form, name == "fill")
        start: list[Node] = [Put(f"count{number}", "0") for number in compressed]
        stop: list[Node] = [Put(f"counts[{number}]", f"count{number}") for number in compressed]
        body = [*start, *merge.level(0, statement.products, dict.fromkeys(formats, "0")), *stop]
        lines += [
            f"def {name}({', '.join(_parameters(statement, formats, form))}):",
            *CpuText(statement.semiring).lines(body),
        ]
        lines += ["", ""]
    return "\n".join(lines[:-1])


@cache
def _compiled(statement: Statement, formats: tuple[tuple[str, Format], ...], form: Format) -> tuple[Any, Any]:
    source = source_of(statement, dict(formats), form)
    return njit(source, "count", {}, {}), njit(source, "fill", {}, {})


def assemble(statement: Statement, form: Format | None = None, **operands: Any) -> Tensor:
    """The sparse output of an elementwise statement, in `form` (that of the first sparse operand)."""
    if not isinstance(statement, Statement):
        raise TypeError(f"{statement!r} is {type(statement).__name__}, not a statement: make one with parse(text)")
    dtype = check(statement, operands, None)
    sparse = {name: given for name, given in operands.items() if isinstance(given, Tensor)}
    formats = {name: tensor.format for name, tensor in sparse.items()}
    first = next(iter(name for name in statement.operands if name in sparse), None)
    if first is None:
        raise ScheduleError(f"{statement.text}: a sparse output needs a sparse operand")
    form = form or formats[first]
    _check(statement, formats, form)
    sizes = dict(zip(statement.output.indices, sparse[first].shape, strict=True))
    given: dict[str, Any] = {f"n_{index}": size for index, size in sizes.items()} | operands
    for name, tensor in sparse.items():
        if tensor.shape != sparse[first].shape:
            raise ValueError(f"{name} has the shape {tensor.shape}, {first} has {sparse[first].shape}")
        for number, data in enumerate(tensor.arrays):
            given |= {f"{name}_{part}{number}": array for part, array in data.items()}
        given[f"{name}_val"] = tensor.values
    for access in (a for product in statement.products for node in product for a in accesses(node)):
        if operands[access.tensor].shape != (shape := tuple(sizes[index] for index in access.indices)):
            raise ValueError(f"{access} has the shape {operands[access.tensor].shape}, {first} has {shape} there")
    if max(sizes.values()) > 2**32:
        raise ValueError(f"{statement.text}: a dimension has more coordinates than 32 bits count")
    depth, out = len(form.levels), statement.output.tensor
    counts = np.zeros(depth, np.int64)
    count, fill = _compiled(statement, tuple(formats.items()), form)
    names = _parameters(statement, formats, form)
    arrays: list[dict[str, Any]] = []

    def allocate() -> None:
        parents = 1
        arrays.clear()
        for number, (level, mode) in enumerate(zip(form.levels, form.modes, strict=True)):
            size = sizes[statement.output.indices[mode]]
            if level.full:
                arrays.append({"n": size})
                parents *= size
            else:
                arrays.append({"pos": np.zeros(parents + 1, np.int64), "crd": np.empty(counts[number], np.uint32)})
                parents = int(counts[number])
        for number, data in enumerate(arrays):
            given.update({f"{out}_{part}{number}": array for part, array in data.items()})
        given[f"{out}_val"] = np.empty(parents, dtype)
        given["counts"] = counts

    allocate()
    count(*(given[name] for name in names))
    allocate()
    fill(*(given[name] for name in names))
    if not form.levels[0].full:
        arrays[0]["pos"][1] = counts[0]
    shape = tuple(sizes[index] for index in statement.output.indices)
    return Tensor(form, shape, tuple(arrays), given[f"{out}_val"], checked=False)


def _parameters(statement: Statement, formats: dict[str, Format], form: Format) -> list[str]:
    names = []
    for name, one in [*formats.items(), (statement.output.tensor, form)]:
        for number, level in enumerate(one.levels):
            names += [f"{name}_{part}{number}" for part in level.arrays if part != "n"]
        names.append(f"{name}_val")
    dense = [name for name in statement.operands if name not in formats]
    return [*names, *dense, *statement.scalars, *(f"n_{index}" for index in statement.output.indices), "counts"]


def _check(statement: Statement, formats: dict[str, Format], form: Format) -> None:
    """Raise unless merge loops can assemble the output."""
    what = statement.text
    if set(statement.indices) != set(statement.output.indices) or statement.where or statement.accumulate:
        raise ScheduleError(f"{what}: only elementwise expressions have a sparse output of their own")
    compressed = [level for level in form.levels if not level.full]
    if any(level.full for level in form.levels[len(form.levels) - len(compressed) :]) or not compressed:
        raise ScheduleError(f"{what}: an output is assembled from dense levels, then compressed ones")
    if any("pos" not in level.arrays for level in compressed):
        raise ScheduleError(f"{what}: the levels of an output are dense or compressed, not COO")
    check_missing(statement, formats)
    if len(form.modes) != len(statement.output.indices):
        raise ScheduleError(
            f"{statement.output} has {len(statement.output.indices)} indices, its format {len(form.modes)}"
        )
    order = [statement.output.indices[mode] for mode in form.modes]
    for product in statement.products:
        reads = [a for node in product for a in accesses(node) if a.tensor in formats]
        if not reads:
            raise ScheduleError(f"{what}: a product without a sparse tensor makes the output dense")
        for access in reads:
            levels = formats[access.tensor]
            if len(access.indices) != len(levels.modes):
                raise ScheduleError(f"{access} has {len(access.indices)} indices, its format {len(levels.modes)}")
            if [access.indices[mode] for mode in levels.modes] != order:
                raise ScheduleError(f"{what}: {access} is stored in another order than the output; repack it with to()")
            if not all(
                level.full or (level.unique and level.ordered and "pos" in level.arrays) for level in levels.levels
            ):
                raise ScheduleError(f"{what}: {access} has levels that cannot be merged; repack it with to()")
