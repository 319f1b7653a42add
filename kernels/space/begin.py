"""The schedule to begin with, made of a statement and the formats of its operands."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .names import check_name
from .relations import ScheduleError, check_missing, factors
from .schedule import Schedule
from .statement import Access, Semiring, Statement, accesses, parse
from .tensors import Format


def schedule(
    text: str | Statement,
    *,
    semiring: Semiring | None = None,
    pattern: str | None = None,
    along: Mapping[str, str] = MappingProxyType({}),
    **formats: Format,
) -> Schedule:
    """The schedule to begin with: loops in the order of the levels, then of the notation.

    `pattern` names the operand whose leading levels a sparse output shares; its other dimensions are dense. `along`
    names operands that share the leading levels of another one, array by array: their values are read at its
    positions.
    """
    statement = parse(text, semiring) if isinstance(text, str) else text
    for name in (*statement.indices, *statement.operands, *statement.scalars, statement.output.tensor):
        check_name(name, statement)
    if len(statement.products) != 1:
        raise ScheduleError(f"{statement.text} sums {len(statement.products)} products: schedule each of its terms")
    if unknown := next((name for name in formats if name not in statement.operands), None):
        raise ScheduleError(f"{unknown} has a format, but is no operand of {statement.text}")
    sparse = tuple((name, formats[name]) for name in statement.operands if name in formats and formats[name].sparse)
    check_missing(statement, dict(sparse))
    reads = {a.tensor: a for node in factors(statement) for a in accesses(node)}
    order: list[str] = []
    for name, form in sparse:
        if len(form.levels) != len(reads[name].indices):
            raise ScheduleError(f"{reads[name]} has {len(reads[name].indices)} indices, its format {len(form.levels)}")
        if any(a.tensor == name and a != reads[name] for node in factors(statement) for a in accesses(node)):
            raise ScheduleError(f"{name} is read with two sets of indices: pass it under two names")
        order += [reads[name].indices[mode] for mode in form.modes]
    if pattern:
        _check_pattern(statement, pattern, dict(sparse), reads)
    for name, other in along.items():
        form, whole = dict(sparse).get(name), dict(sparse).get(other)
        ours, theirs = (reads[n].indices if n in reads else () for n in (name, other))
        if not form or not whole or form.levels != whole.levels[: len(form.levels)] or ours != theirs[: len(ours)]:
            raise ScheduleError(f"along: {name} does not have the first levels of {other}")
    loops = tuple(dict.fromkeys([*order, *statement.indices]))
    return Schedule(statement, sparse, pattern, loops, along=tuple(along.items()))


def _check_pattern(statement: Statement, pattern: str, formats: dict[str, Format], reads: dict[str, Access]) -> None:
    """Raise unless the output's indices are those of the pattern's first levels, then others."""
    if pattern not in formats:
        raise ScheduleError(f"pattern {pattern}: it is no sparse operand")
    form, output = formats[pattern], statement.output.indices
    stored = [reads[pattern].indices[mode] for mode in form.modes]
    count = sum(index in output for index in stored)
    if not count or not set(stored[:count]) <= set(output) or any(index in output for index in stored[count:]):
        raise ScheduleError(f"pattern {pattern}: {statement.output} does not follow its first levels")
    if not form.levels[count - 1].unique:
        raise ScheduleError(f"pattern {pattern}: its level of {stored[count - 1]} repeats coordinates")
