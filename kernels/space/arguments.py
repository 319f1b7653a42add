"""What a kernel is called with: arrays and sizes by the names of its text, and the shape and type of what it makes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .levels import Dense
from .lower import Nest
from .nest import texts, words
from .schedule import Schedule
from .statement import accesses, names
from .tensors import Format, Tensor
from .time_levels import Progression


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
    read = set[str]().union(*map(words, [*texts([*nest.setup, *nest.body]), nest.parallel]))
    first = ["first", "last"] if any(onto == "threads" for _, onto, _ in schedule.tags) else []
    return tuple(first + [name for name in dict.fromkeys(found) if name in read])


def arguments(schedule: Schedule, operands: dict[str, Any], out: Any) -> dict[str, Any]:
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


def dtype_of(schedule: Schedule, operands: dict[str, Any]) -> np.dtype:
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
