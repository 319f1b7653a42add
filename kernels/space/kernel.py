"""Compiled kernels: the text of a schedule, what it is called with, and how its iterations are shared."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numba
import numpy as np
from numba import cuda

from .. import warp
from . import runtime
from .cpu import CpuText
from .gpu import GpuText
from .lower import Nest, lower
from .nest import texts, words
from .schedule import Schedule
from .source import load
from .statement import accesses
from .tensors import Format, Tensor

THREADS_OF_BLOCK = 256
CHUNKS = 8  # of each thread, so that none waits long for the last
_POOL = ThreadPoolExecutor(os.cpu_count() or 1)


class Kernel:
    """Call it with the operands by name, and `out` to add to or to write into.

    `source` is the text that Numba compiles, once for each kind of arrays.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.nest = lower(schedule)
        self.parameters = _parameters(schedule, self.nest)
        self.source = source_of(schedule, self.nest, self.parameters)
        self.iterations = load(self.source).get("iterations")
        self.lanes = next((race.width for _, _, race in schedule.tags if race.kind == "shuffle"), 32)

    def __call__(self, out: Any = None, threads: int | None = None, **operands: Any) -> Any:
        """The output: an array, or a tensor where it follows an input's pattern."""
        schedule, statement = self.schedule, self.schedule.statement
        given = _arguments(schedule, operands, out)
        where = next((array for array in given.values() if _on_device(array)), None)
        if out is None and statement.accumulate:
            raise ValueError(f"{statement.output} is added to: pass it as out")
        result: Any = out.values if isinstance(out, Tensor) else out
        if result is None:
            result = _full(self._shape(given, operands), statement.semiring.zero(_dtype(schedule, operands)), where)
        elif not statement.accumulate:
            result[...] = statement.semiring.zero(result.dtype)
        name = f"{statement.output.tensor}_val" if schedule.pattern else statement.output.tensor
        whole = result if result.ndim else result.reshape(1)
        if schedule.pattern:
            whole = whole.reshape(self._shape(given, operands))
        given[name] = whole
        self._run(given, name, threads)
        if not schedule.pattern:
            return result
        return out if isinstance(out, Tensor) else _patterned(schedule, operands[schedule.pattern], result, operands)

    def _shape(self, given: dict[str, Any], operands: dict[str, Any]) -> tuple[int, ...]:
        """The shape of the output's values."""
        output = self.schedule.statement.output
        if not self.schedule.pattern:
            return tuple(given[f"n_{index}"] for index in output.indices)
        tensor = operands[self.schedule.pattern]
        shared, rest = _pattern(self.schedule)
        return (_count(tensor, len(shared)), *(given[f"n_{index}"] for index in rest))

    def _run(self, given: dict[str, Any], name: str, threads: int | None) -> None:
        schedule, total = self.schedule, self.schedule.statement.semiring.total
        zero = schedule.statement.semiring.zero(given[name].dtype)
        if schedule.cuda:
            function = compiled(self, given[name].dtype)
            host = {key: _Ends(given, key) if _on_device(array) else array for key, array in given.items()}
            grid = max(1, min(self._iterations(host), 2**31 - 1))
            function[grid, self._block(given)](*(given[key] for key in self.parameters))
            return
        function = compiled(self, given[name].dtype)
        onto = schedule.tag(schedule.loops[0]) if schedule.loops else None
        if not onto or onto[0] != "threads":
            function(*(given[key] for key in self.parameters))
            return
        count = self._iterations(given)
        threads = min(threads or numba.get_num_threads(), max(count, 1))
        race = onto[1].kind
        if race == "carry":
            shape = given[name].shape[self.nest.kept :]
            given["aside"] = np.full((2 * count, *shape), zero)
            given["aside_row"] = np.zeros((2 * count, self.nest.kept), np.int64)
        copies = (
            [given[name], *(np.full_like(given[name], zero) for _ in range(threads - 1))] if race == "private" else []
        )
        parts = len(copies) or min(count, threads * CHUNKS if threads > 1 else 1)

        def work(part: int) -> None:
            mine = given | {"first": count * part // parts, "last": count * (part + 1) // parts}
            if copies:
                mine[name] = copies[part]
            function(*(mine[key] for key in self.parameters))

        _shared(work, parts, threads)
        for copy in copies[1:]:
            total(given[name], copy, out=given[name])
        if race == "carry" and count:
            total.at(given[name], tuple(given["aside_row"].T), given["aside"])

    def _iterations(self, given: dict[str, Any]) -> int:
        """How many iterations threads or blocks share."""
        return int(self.iterations(*(given.get(key) for key in self.parameters))) if self.iterations else 1

    def _block(self, given: dict[str, Any]) -> int:
        """Threads of a block: as many as its loops have iterations, as far as that is known and fits."""
        tags = {onto: loop for loop, onto, _ in self.schedule.tags}
        lanes = min(self.lanes, warp.WIDTH) if "lane" in tags else 1
        if "thread" in tags:
            return _extent(self.schedule, tags["thread"])
        return lanes * (min(_extent(self.schedule, tags["warp"]), 1024 // lanes) if "warp" in tags else 1)


def _extent(schedule: Schedule, loop: str) -> int:
    made = schedule.maker(loop)
    factor = (
        getattr(made, "factor", 0) if loop == getattr(made, "inner", None) and not getattr(made, "divide", 0) else 0
    )
    return min(factor or THREADS_OF_BLOCK, 1024)


def _shared(work: Callable[[int], None], parts: int, threads: int) -> None:
    """Do all parts on so many threads, this one included."""
    left = iter(range(parts))

    def some() -> None:
        for part in left:
            work(part)

    others = [_POOL.submit(some) for _ in range(threads - 1)]
    some()
    for other in others:
        other.result()


class _Ends:
    """Offsets that lie on a device, as far as a launch must know them: the first is 0, the last what they lead to."""

    def __init__(self, given: dict[str, Any], name: str) -> None:
        self.size = given[name].size
        below = next((given[n] for part in ("crd", "start") if (n := name.replace("_pos", f"_{part}")) in given), None)
        self.end = below.size if below is not None else 0

    def __getitem__(self, place: int) -> int:
        return self.end if place else 0


@cache
def kernel(schedule: Schedule) -> Kernel:
    """The kernel of a schedule, made once."""
    return Kernel(schedule)


@cache
def compiled(kernel: Kernel, dtype: np.dtype) -> Any:
    """The function of a kernel for an output of `dtype`; Numba specialises it for the operands."""
    schedule = kernel.schedule
    constants = {
        "zero": schedule.statement.semiring.zero(dtype),
        "dtype": dtype.type,
        "LANES": min(kernel.lanes, warp.WIDTH),
    }
    function = load(kernel.source, **constants, **(runtime.GPU if schedule.cuda else runtime.CPU))["kernel"]
    if schedule.cuda:
        return cuda.jit(function)
    # Only where a vector adds up may sums be taken in another order.
    free = any(onto == "vector" and race.kind == "private" for _, onto, race in schedule.tags)
    fast = {"reassoc", "contract"} if free else {"contract"}
    return numba.njit(nogil=True, error_model="numpy", fastmath=fast)(function)


def text_of(schedule: Schedule) -> CpuText:
    """What writes down the nest of a schedule."""
    return (GpuText if schedule.cuda else CpuText)(schedule.statement.semiring)


def source_of(schedule: Schedule, nest: Nest, parameters: tuple[str, ...]) -> str:
    """The text of a kernel, and of how many iterations its outermost parallel loop has."""
    text = text_of(schedule)
    shared = any(onto in ("threads", "block") for _, onto, _ in schedule.tags)
    lines = [f"# {schedule.statement.text}", f"def kernel({', '.join(parameters)}):"]
    lines += text.lines([*nest.setup, *nest.body])
    if shared:
        needed = [line for line in nest.setup if not any("dtype" in text for text in texts([line]))]
        lines += ["", "", f"def iterations({', '.join(parameters)}):", *text.lines(list(needed))]
        lines.append(f"    return {nest.parallel}")
    return "\n".join(lines) + "\n"


def _parameters(schedule: Schedule, nest: Nest) -> tuple[str, ...]:
    """Arrays and sizes that the text reads, in a fixed order."""
    statement = schedule.statement
    names: list[str] = []
    for tensor, form in schedule.sparse:
        for number, level in enumerate(form.levels):
            names += [f"{tensor}_{part}{number}" for part in level.arrays if part != "n"]
        names.append(f"{tensor}_val")
    names += [a.tensor for a in schedule.read() if a.tensor not in schedule.formats]
    names += [*(f"n_{index}" for index in statement.indices), *statement.scalars]
    names.append(f"{statement.output.tensor}_val" if schedule.pattern else statement.output.tensor)
    names += ["aside", "aside_row"]
    read = set[str]().union(*map(words, [*texts([*nest.setup, *nest.body]), nest.parallel]))
    first = ["first", "last"] if any(onto == "threads" for _, onto, _ in schedule.tags) else []
    return tuple(first + [name for name in dict.fromkeys(names) if name in read])


def _arguments(schedule: Schedule, operands: dict[str, Any], out: Any) -> dict[str, Any]:
    """What a kernel may read, by name; sizes must agree."""
    statement, given, formats = schedule.statement, dict[str, Any](), schedule.formats
    if wrong := set(operands) ^ {*statement.operands, *statement.scalars} - {statement.output.tensor}:
        raise ValueError(f"{statement.text}: {', '.join(sorted(wrong))} missing or not an operand")
    if statement.output.tensor in statement.operands:
        operands = operands | {statement.output.tensor: out}
    sized = [(access, operands[access.tensor]) for access in schedule.read()]
    sized += [(statement.output, out)] if out is not None else []
    sizes: dict[str, int] = dict(schedule.bounds)
    for access, operand in sized:
        if access.tensor in formats and not (isinstance(operand, Tensor) and operand.format == formats[access.tensor]):
            raise ValueError(f"{access.tensor} has another format than the schedule was made for")
        if access.tensor not in formats and isinstance(operand, Tensor) and access != statement.output:
            raise ValueError(f"{access.tensor} is a tensor over levels, but the schedule takes an array")
        if len(operand.shape) != len(access.indices):
            raise ValueError(f"{access} has {len(access.indices)} indices, its shape is {operand.shape}")
        for index, size in zip(access.indices, operand.shape, strict=True):
            if sizes.setdefault(index, size) != size:
                raise ValueError(f"{access}: {index} has {size} values here and {sizes[index]} elsewhere")
        if access.tensor in formats:
            for number, data in enumerate(operand.arrays):
                given |= {f"{access.tensor}_{part}{number}": array for part, array in data.items()}
            given[f"{access.tensor}_val"] = operand.values
        elif access != statement.output or access.tensor in statement.operands:
            given[access.tensor] = operand
    if large := [index for index in statement.indices if sizes.get(index, 0) > 2**32 and not schedule.iterator(index)]:
        raise ValueError(f"{statement.text}: {large[0]} has more values than 32 bits count")
    given |= {f"n_{index}": size for index, size in sizes.items()}
    return given | {name: operands[name] for name in statement.scalars}


def _dtype(schedule: Schedule, operands: dict[str, Any]) -> np.dtype:
    """The type that sums and products of the operands have."""
    factors = [a for node in schedule.statement.products[0] for a in accesses(node)]
    values = [getattr(operands[a.tensor], "values", operands[a.tensor]) for a in factors]
    scalars = [operands[name] for name in schedule.statement.scalars if name in operands]
    return np.result_type(*(value.dtype for value in values), *(s for s in scalars if isinstance(s, int | float)))


def _pattern(schedule: Schedule) -> tuple[list[str], list[str]]:
    """Indices of the output that an input's levels store, and the others."""
    assert schedule.pattern
    stored = [schedule.level_index(schedule.pattern, n) for n in range(len(schedule.formats[schedule.pattern].levels))]
    output = schedule.statement.output.indices
    return [index for index in stored if index in output], [index for index in output if index not in stored]


def _count(tensor: Tensor, levels: int) -> int:
    """Positions of a level."""
    count = 1
    for level, data in zip(tensor.format.levels[:levels], tensor.arrays, strict=False):
        count = count * data["n"] if level.full else len(data["crd"])
    return count


def _patterned(schedule: Schedule, tensor: Tensor, values: Any, operands: dict[str, Any]) -> Tensor:
    """A tensor with the first levels of an input, then dense ones."""
    from .levels import Dense

    shared, rest = _pattern(schedule)
    output, count = schedule.statement.output.indices, len(shared)
    order = [*shared, *rest]
    arrays = (*tensor.arrays[:count], *({"n": n} for n in values.shape[1:]))
    levels = (*tensor.format.levels[:count], *(Dense() for _ in rest))
    sizes = dict(zip(schedule.access(schedule.pattern or "").indices, tensor.shape, strict=True))
    sizes |= dict(zip(rest, values.shape[1:], strict=True))
    form = Format(levels, tuple(output.index(index) for index in order))
    return Tensor(form, tuple(sizes[index] for index in output), arrays, values.reshape(-1), checked=False)


def _on_device(array: Any) -> bool:
    return hasattr(array, "__cuda_array_interface__")


def _full(shape: tuple[int, ...], zero: Any, where: Any) -> Any:
    """A new output: on the device where operands are."""
    if where is None:
        return np.full(shape, zero)
    if type(where).__module__.startswith("cupy"):
        import cupy  # pyright: ignore[reportMissingImports]

        return cupy.full(shape, zero)
    return cuda.to_device(np.full(shape, zero))
