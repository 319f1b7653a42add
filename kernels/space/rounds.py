"""Statements that are repeated on CUDA until a round lowers nothing: shortest paths, breadth-first search, components.

In `d[v] min= d[u] + A[u, v] where active[u]`, `active[u]` stands for: `d[u]` fell in the round before. Labels are read
and lowered in place, so a round may do more than one step of each path; as sums are minima, nothing is lost by it.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any

import numpy as np

from .arguments import arguments, check
from .gpu import RoundsText
from .integers import load_integers
from .kernel import Kernel, width_of
from .levels import on_device
from .nest import Line
from .relations import ScheduleError
from .schedule import Schedule, check_schedule
from .statement import accesses

# What the text uses beside the names of every kernel.
NAMES = {"LATEST", "any_fell", "fell", "fresh", "tell", "told", "turn"}


class Rounds:
    """CUDA schedules of statements over one output, which a round computes one after the other.

    `source` has two functions: `kernel` makes all rounds in one launch, with a barrier of the grid after each; `once`
    makes one. Raises `ScheduleError` where the statements do not fit.
    """

    def __init__(self, *schedules: Schedule, active: str) -> None:
        for schedule in schedules:
            _check(schedule, schedules[0], active)
        self.active = active
        self.steps = [Kernel(schedule, active) for schedule in schedules]
        if found := next((step for step in self.steps if step.nest.starts), None):
            raise ScheduleError(f"rounds of {found.schedule.statement.text}: blocks of positions need a list of levels")
        self.out = schedules[0].statement.output.tensor
        setup = [line.name for step in self.steps for line in step.nest.setup if isinstance(line, Line)]
        widths = {step.lanes for step in self.steps if any(onto == "lane" for _, onto, _ in step.schedule.tags)}
        if len({*setup}) < len(setup) or len(widths) > 1:
            raise ScheduleError("rounds: give positions of each statement another name, and rows as many lanes")
        self._widest = next((step for step in self.steps if step.lanes in widths), self.steps[0])
        self.parameters = tuple(dict.fromkeys(name for step in self.steps for name in step.parameters))
        self.source = self._source()

    def _source(self) -> str:
        text = RoundsText(self.steps[0].schedule.statement.semiring)
        active, given = self.active, ", ".join((*self.parameters, self.active, "told"))
        setup = [line for step in self.steps for line in text.lines(step.nest.setup)]
        body = [f"    {active}_now, {active}_next = {active}[turn & 1], {active}[(turn + 1) & 1]", "    fell = False"]
        for step in self.steps:
            body += [f"    # {step.schedule.statement.text}", *text.lines(step.nest.body)]
        return "\n".join(
            [
                f"def kernel({given}):",
                *setup,
                "    turn = 0",
                "    fell = True",
                "    while fell:",
                "        turn += 1",
                *(f"    {line}" for line in body),
                "        fell = any_fell(told, turn, fell)",
                "    if cuda.grid(1) == 0:",
                "        told[LATEST] = turn",
                "",
                "",
                f"def once({given}, turn):",
                *setup,
                *body,
                "    tell(told, turn, fell)",
                "",
            ]
        )

    def functions(self, dtype: np.dtype, wide: bool) -> tuple[Any, Any]:
        """`kernel` and `once` for an output of `dtype`, for Numba to compile; `wide` as of `load_integers`."""
        from . import device_runtime

        constants = {
            "zero": self.steps[0].schedule.statement.semiring.zero(dtype),
            "dtype": dtype.type,
            "LANES": width_of(self._widest),
        }
        found = load_integers(self.source, wide, **constants, **device_runtime.GPU, **device_runtime.GRID)
        return found["kernel"], found["once"]

    def arguments(self, out: Any, marks: Any, told: Any, **operands: Any) -> tuple[tuple[Any, ...], int, int]:
        """What the text is called with, how many blocks share the longest of its loops, and the threads of a block."""
        if out.dtype.itemsize not in (4, 8):
            raise ValueError(f"{self.out}: labels have 32 or 64 bits, not those of {out.dtype}")
        given = {}
        for step in self.steps:
            statement = step.schedule.statement
            wanted = {*statement.operands, *statement.scalars} - {self.out, self.active}
            mine = {name: operands[name] for name in wanted if name in operands} | {self.active: marks[0]}
            check(statement, mine, out)
            given |= arguments(step.schedule, mine, out)
        given[self.out] = out
        blocks = max(1, *(step.iterations(given) for step in self.steps))
        found = (*(given[name] for name in self.parameters), marks, told)
        return found, blocks, max(step.block(1024) for step in self.steps)

    def prepared(self, out: Any, marks: Any, told: Any, stream: Any = 0, **operands: Any) -> Prepared:
        """Both functions compiled for arrays on the current device, to be launched on `stream`.

        `out` holds the labels to begin with. `marks` int32[2, *out.shape]: `marks[1]` is 1 at active entries, all else
        is 0. `told` int32[4] is 0; `told[3]` is then how many rounds were made, or the last one of `once` in which a
        label fell. Operands that no statement names are left out. Raises `ValueError` for what does not fit.
        """
        from numba import cuda

        given, blocks, threads = self.arguments(out, marks, told, **operands)
        # Here, once: for an array of another library Numba waits until its stream is done.
        given = tuple(cuda.as_cuda_array(one) if on_device(one) else one for one in given)
        wide = any(step.wide(dict(zip(self.parameters, given, strict=False))) for step in self.steps)
        kernel, once = compiled(self, out.dtype, threads, wide)
        return Prepared(kernel, once, given, min(blocks, 2**31 - 1), threads, stream)


class Prepared:
    """Rounds on arrays that lie on a device; what is called is compiled for them at its first call."""

    def __init__(self, kernel: Any, once: Any, given: tuple[Any, ...], blocks: int, threads: int, stream: Any) -> None:
        self._kernel, self._one, self._given = kernel, once, given
        self._blocks, self._threads, self._stream = blocks, threads, stream

    def to_fixed_point(self, stream: Any = None) -> None:
        """All rounds in one launch, on another stream if one is given."""
        kernel, blocks = self._all_rounds
        kernel[blocks, self._threads, self._stream if stream is None else stream](*self._given)

    def once(self, turn: int) -> None:
        """The round `turn`, counted from 1."""
        self._one_round(*self._given, turn)

    @cached_property
    def _all_rounds(self) -> tuple[Any, int]:
        """The kernel, and its blocks."""
        from .. import warp

        if warp.SIMULATED:
            return self._kernel, 1
        function = self._kernel.specialize(*self._given)
        (found,) = function.overloads.values()
        found.cooperative = True  # the driver starts all blocks at once, or none
        resident = found.max_cooperative_grid_blocks(self._threads)
        return function, min(self._blocks, resident)

    @cached_property
    def _one_round(self) -> Any:
        from .. import warp

        function = self._one if warp.SIMULATED else self._one.specialize(*self._given, 1)
        return function[self._blocks, self._threads, self._stream]


@cache
def rounds(*schedules: Schedule, active: str) -> Rounds:
    """The rounds of some schedules, made once."""
    return Rounds(*schedules, active=active)


@cache
def compiled(made: Rounds, dtype: np.dtype, threads: int, wide: bool) -> list[Any]:
    """`kernel` and `once`, with registers for so many threads; Numba specialises them for the operands."""
    from numba import cuda

    from .. import warp

    options: dict[str, Any] = {} if warp.SIMULATED else {"launch_bounds": threads}
    return [cuda.jit(**options)(one) for one in made.functions(dtype, wide)]


def _check(schedule: Schedule, first: Schedule, active: str) -> None:
    """Raise unless a statement can be repeated in rounds."""
    check_schedule(schedule)
    statement, what = schedule.statement, f"rounds of {schedule.statement.text}"
    if not schedule.cuda:
        raise ScheduleError(f"{what}: parallelize onto CUDA's blocks and threads")
    lowered = statement.semiring.sum == "min" and statement.accumulate and len(statement.output.indices) == 1
    if not lowered or schedule.pattern or schedule.workspace:
        raise ScheduleError(f"{what}: only an output of one index, lowered by min=, without precompute")
    if statement.output != first.statement.output:
        raise ScheduleError(f"{what}: the others lower {first.statement.output}")
    reads = [a for node in (*statement.where, *statement.products[0]) for a in accesses(node) if a.tensor == active]
    if len(reads) != 1 or reads[0] not in statement.where or len(reads[0].indices) != 1:
        raise ScheduleError(f"{what}: {active} must be one of its conditions, by an index of {statement.output}")
    names = {*statement.operands, *statement.indices, *statement.scalars, *schedule.loops}
    if taken := names & {*NAMES, f"{active}_now", f"{active}_next"}:
        raise ScheduleError(f"{what}: {min(taken)} cannot be a name here")
