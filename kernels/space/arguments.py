"""What a kernel is called with: arrays and sizes by the names of its text, and the shape and type of what it makes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .levels import Dense
from .lower import Nest
from .nest import Put, texts, words
from .schedule import Schedule
from .statement import OR_AND, PLUS_TIMES, Access, Statement, accesses, names, render
from .tensors import Format, Tensor
from .time_levels import Progression

_TYPES = tuple(map(np.dtype, "?bhilqBHILQfdFD"))


def parameters(schedule: Schedule, nest: Nest) -> tuple[str, ...]:
    """Arrays and sizes that the text reads, in a fixed order."""
    statement = schedule.statement
    found: list[str] = []
    for tensor, form in schedule.sparse:
        for number, level in enumerate(form.levels):
            found += [f"{tensor}_{part}{number}" for part in level.arrays if part != "n"]
        found.append(f"{tensor}_val")
    found += [a.tensor for a in schedule.read() if a.tensor not in schedule.formats]
    found += [*(f"n_{index}" for index in statement.indices), *statement.scalars]
    found.append(f"{statement.output.tensor}_val" if schedule.pattern else statement.output.tensor)
    found += ["aside", "aside_row"]
    read = set[str]().union(*map(words, [*texts([*nest.setup, *nest.body, *nest.starts]), nest.parallel]))
    first = ["first", "last"] if any(onto == "threads" for _, onto, _ in schedule.tags) else []
    return tuple(first + [name for name in dict.fromkeys(found) if name in read] + starts_of(nest))


def starts_of(nest: Nest) -> list[str]:
    """The arrays that say where blocks begin."""
    return [node.target.partition("[")[0] for node in nest.starts if isinstance(node, Put)]


def arguments(schedule: Schedule, operands: dict[str, Any], out: Any) -> dict[str, Any]:
    """What a kernel may read, by name; sizes must agree."""
    statement, given, formats = schedule.statement, dict[str, Any](), schedule.formats
    if statement.output.tensor in statement.operands:
        operands = operands | {statement.output.tensor: out}
    if isinstance(out, Tensor) != bool(schedule.pattern) and out is not None:
        kind = f"a Tensor with the coordinates of {schedule.pattern}" if schedule.pattern else "an array"
        raise ValueError(f"{statement.text}: out is {kind}, not {type(out).__name__}")
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
    for name, other in schedule.along:
        both = zip(operands[name].arrays, operands[other].arrays, strict=False)
        if any(one[part] is not two[part] for one, two in both for part in one if part != "n"):
            raise ValueError(f"{name} must share the arrays of {other}'s first levels")
    if any(isinstance(level, Progression) for form in formats.values() for level in form.levels):
        for name in {name for node in statement.where for name in (*names(node), *(a.tensor for a in accesses(node)))}:
            value = operands.get(name)
            if isinstance(value, Tensor | None):
                continue
            if (getattr(value, "dtype", None) or np.result_type(value)).kind not in "iub":
                raise ValueError(f"{name}: times are whole numbers")
    if large := [index for index in statement.indices if sizes.get(index, 0) > 2**32 and not schedule.iterator(index)]:
        raise ValueError(f"{statement.text}: {large[0]} has more values than 32 bits count")
    given |= {f"n_{index}": size for index, size in sizes.items()}
    return given | {name: operands[name] for name in statement.scalars}


def dtype_of(statement: Statement, operands: dict[str, Any]) -> np.dtype:
    """NumPy's type of the expression: Python's numbers are weak, `/` makes floats; sums of truth values count."""
    known: dict[str, Any] = {"min": np.minimum, "inf": float("inf")}
    known |= dict.fromkeys(statement.indices, np.empty(0, np.int64))
    known |= {name: operands[name] or type(operands[name])(1) for name in statement.scalars}  # no division by 0
    arrays = {name: values_of(operands[name]) for name in statement.operands}
    known |= {name: np.empty(0, array.dtype) for name, array in arrays.items() if array is not None}
    read = (a.tensor for product in statement.products for node in product for a in accesses(node))
    if bare := next((name for name in read if arrays[name] is None), None):
        raise ValueError(f"{statement.text}: {bare} has no values, it can only be a condition")

    def text(leaf: Any) -> str:
        return leaf.tensor if isinstance(leaf, Access) else str(leaf)

    found = []
    for product in statement.products:
        factors = [f"({render(node, text)})" for node in product]
        try:
            if statement.semiring is OR_AND and any(np.result_type(eval(one, known)) != np.bool_ for one in factors):
                raise ValueError(f"{statement.text}: {OR_AND.name} is for truth values; convert with astype(bool)")
            found.append(np.result_type(eval(f" {statement.semiring.product} ".join(factors), known)))
        except OverflowError as error:
            raise ValueError(f"{statement.text}: {error}; convert the operand to a wider type, with a sign") from None
        except TypeError:
            raise ValueError(f"{statement.text}: & and | are for truth values and whole numbers") from None
    dtype = np.result_type(*found)
    return np.dtype(np.int64) if dtype.kind == "b" and statement.semiring is PLUS_TIMES else dtype


def values_of(operand: Any) -> Any:
    return operand.values if isinstance(operand, Tensor) else operand


def check(statement: Statement, operands: dict[str, Any], out: Any) -> np.dtype:
    """The type of the output, unless operands or `out` are of the wrong kind."""
    if out is None and statement.accumulate:
        raise ValueError(f"{statement.output} is added to: pass it as out")
    _check_names(statement, operands)
    if out is not None:
        _check_array("out", out)
    operands = operands | {statement.output.tensor: out}
    _check_operands(statement, operands)
    dtype = dtype_of(statement, operands)
    if out is not None:
        _check_out(statement, out, dtype, operands)
    if statement.semiring.sum == "min" and (dtype if out is None else values_of(out).dtype).kind in "bc":
        raise ValueError(f"{statement.text}: {statement.semiring.name} is for numbers with an order, not {dtype}")
    return dtype


def _check_names(statement: Statement, operands: dict[str, Any]) -> None:
    """Raise unless the operands are those of the statement."""
    needed = {*statement.operands, *statement.scalars} - {statement.output.tensor}
    if missing := sorted(needed - set(operands)):
        raise ValueError(f"{statement.text}: {', '.join(missing)} missing")
    if more := sorted(set(operands) - needed):
        raise ValueError(f"{statement.text}: {', '.join(more)} is no operand")


def _check_operands(statement: Statement, operands: dict[str, Any]) -> None:
    """Raise unless operands are arrays and tensors of types that Numba knows, and scalars numbers."""
    for name in statement.operands:
        _check_array(name, operands[name])
    for name in statement.scalars:
        if not isinstance(operands[name], int | float | complex | np.number | np.bool_):
            raise ValueError(f"{name} is a number, not {type(operands[name]).__name__}")
    for node in (node for part in (*statement.products, statement.where) for node in part):
        if "-" in str(node):
            for name in {*(a.tensor for a in accesses(node)), *names(node)} & {*operands}:
                values = values_of(operands[name])
                if values is not None and np.result_type(values).kind == "u":
                    raise ValueError(f"{node}: {name} has no sign, differences would wrap around; pass it as int64")


def _check_array(name: str, given: Any) -> None:
    if hasattr(given, "tocsr"):
        raise ValueError(f"{name} is a matrix of SciPy: pass Tensor.from_scipy({name})")
    if isinstance(given, np.ma.MaskedArray):
        raise ValueError(f"{name} is masked, the mask would be lost: fill it with filled()")
    values = values_of(given)
    if not isinstance(given, Tensor | np.ndarray) and not hasattr(given, "__cuda_array_interface__"):
        raise ValueError(f"{name} is {type(given).__name__}, not an array or a Tensor")
    if values is not None and values.dtype not in _TYPES:
        raise ValueError(f"{name}: arrays of {values.dtype} are not compiled; convert it with astype")


def _check_out(statement: Statement, out: Any, dtype: np.dtype, operands: dict[str, Any]) -> None:
    """Raise unless the output can hold a type and lies apart from what is read."""
    values = values_of(out)
    if not np.can_cast(dtype, values.dtype, "same_kind"):
        raise ValueError(f"{statement.text} is {dtype}, which out of {values.dtype} does not hold")
    if isinstance(values, np.ndarray) and 0 in values.strides and values.size > 1:
        raise ValueError("out repeats an entry (a stride of 0): pass a copy")
    for name in statement.operands:
        if name != statement.output.tensor and _share(values, values_of(operands[name])):
            raise ValueError(f"out shares memory with {name}, which is read while out is written: pass another array")


def _share(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.shares_memory(a, b)
    starts = [getattr(one, "__cuda_array_interface__", {"data": (0,)})["data"][0] for one in (a, b)]
    return starts[0] == starts[1] != 0


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
        count = count * data["n"] if level.full else len(data["crd"]) if data else count
    return count


def patterned(schedule: Schedule, tensor: Tensor, values: Any, operands: dict[str, Any]) -> Tensor:
    """A tensor with the first levels of an input, then dense ones."""
    shared, rest = _pattern(schedule)
    output, count = schedule.statement.output.indices, len(shared)
    order = [*shared, *rest]
    arrays = (*tensor.arrays[:count], *({"n": n} for n in values.shape[1:]))
    levels = (*tensor.format.levels[:count], *(Dense() for _ in rest))
    sizes = dict(zip(schedule.access(schedule.pattern or "").indices, tensor.shape, strict=True))
    sizes |= dict(zip(rest, values.shape[1:], strict=True))
    form = Format(levels, tuple(output.index(index) for index in order))
    return Tensor(form, tuple(sizes[index] for index in output), arrays, values.reshape(-1), checked=False)


def shape_of(schedule: Schedule, given: dict[str, Any], operands: dict[str, Any]) -> tuple[int, ...]:
    """The shape of the output's values."""
    if not schedule.pattern:
        return tuple(given[f"n_{index}"] for index in schedule.statement.output.indices)
    shared, rest = _pattern(schedule)
    return (_count(operands[schedule.pattern], len(shared)), *(given[f"n_{index}"] for index in rest))
