"""Schedules without a performance engineer: a heuristic, and a search that measures.

The heuristic, for the first sparse operand A of a statement:

CPU   1. The innermost loop is dense and follows the output (SpMM, MTTKRP): positions around it are split by 8 and
         written out, so that a vector of the output is loaded and stored once for eight nonzeros.
      2. The innermost loop adds up one entry (SpMV): it becomes a vector of partial sums.
      3. Threads take blocks of the outermost loop. Where its iterations share entries of the output, or where one row
         holds more than an eighth of what a thread does: blocks of nonzeros, with the rows at their edges carried;
         where rows have no order (CSC): private copies of an output that is small beside A, else atomics.
CUDA  1. A dense loop that follows the output (SpMM) runs over lanes, four of its iterations to one; a warp takes 256
         nonzeros, row by row, with atomics for the first and the last. Without such rows: a row to a warp.
      2. The output has the pattern of A, and a dense loop adds up (SDDMM): a nonzero to eight lanes.
      3. Sums of rows (SpMV): blocks of 2048 nonzeros with their products in shared memory, atomics at their edges.
      4. Else a row to 2, 4, ..., 32 lanes, about as many as it has nonzeros; under 2 a row to a thread; where rows
         share entries, blocks of nonzeros with atomics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numba
import numpy as np

from .kernel import kernel
from .lower import lower
from .relations import ScheduleError, shuffle
from .schedule import Schedule, check_schedule
from .tensors import Tensor


@dataclass(frozen=True)
class Rows:
    """How long the rows of a tensor are: what hangs below a position of the second to last level."""

    count: int
    nonzeros: int
    longest: int

    @property
    def mean(self) -> float:
        return self.nonzeros / max(self.count, 1)


def rows_of(tensor: Tensor) -> Rows:
    """Measured, for a level with offsets; else as if all rows were alike."""
    pos = tensor.arrays[-1].get("pos")
    count = len(tensor.arrays[-1].get("crd", ()))
    if pos is None or len(pos) < 2:
        return Rows(tensor.shape[0], count, count // max(tensor.shape[0], 1))
    return Rows(len(pos) - 1, int(pos[-1]) - int(pos[0]), int((pos[1:] - pos[:-1]).max()))


def check_target(target: str) -> None:
    if target not in ("cpu", "cuda"):
        raise ValueError(f"target {target!r} is none of cpu, cuda")


def autoschedule(base: Schedule, target: str = "cpu", rows: Rows | None = None, columns: int | None = None) -> Schedule:
    """The first schedule of the heuristic that the statement allows; `base` itself if there is none.

    `columns`: how many iterations the innermost loop has, where that is a dense one.
    """
    check_schedule(base)
    check_target(target)
    for make in _makers(base, target, rows, columns):
        try:
            made = make()
            lower(made)
        except ScheduleError:
            continue
        return made
    return base


def _makers(base: Schedule, target: str, rows: Rows | None, columns: int | None) -> Iterator[Callable[[], Schedule]]:
    share = 8 * numba.get_num_threads()
    if target == "cuda":
        lanes = 1 << min(int(max(rows.mean if rows else 32, 1)).bit_length() - 1, 5)
        yield lambda: cuda_balanced(base, 4 if columns is None else max(1, min(4, columns // 32)))
        yield lambda: cuda_columns(base)
        yield lambda: cuda_sampled(base)
        yield lambda: cuda_staged(base)
        yield lambda: cuda_rows(base, lanes)
        yield lambda: cuda_blocks(base)
        yield lambda: cuda_atomic(base)
        return
    if rows and rows.longest * share > rows.nonzeros and rows.longest > 1000:
        yield lambda: blocks(base)
    yield lambda: jammed_rows(base)
    yield lambda: summed_rows(base)
    yield lambda: row_blocks(base)
    yield lambda: blocks(base)
    yield lambda: private(base)


def _walked(base: Schedule) -> tuple[str, ...]:
    """The indices of the first sparse operand, from the outermost level in."""
    if not base.sparse:
        raise ScheduleError(f"{base.statement.text} has no sparse operand")
    tensor, form = base.sparse[0]
    return tuple(base.level_index(tensor, level) for level in range(len(form.levels)))


def _threads(made: Schedule, size: int, race: str = "none") -> Schedule:
    """Threads over blocks of the outermost loop."""
    outer = made.loops[0]
    if found := made.iterator(outer):
        made = made.pos(outer, f"{outer}_p", found[0])
        outer = f"{outer}_p"
    return made.split(outer, f"{outer}0", f"{outer}1", size).parallelize(f"{outer}0", "threads", race)


def _fused(made: Schedule) -> Schedule:
    """All levels of the first sparse operand as one loop over the positions of the last: `p`."""
    made, fused = _collapsed(made, _walked(made))
    return made.pos(fused, f"{fused}_p", made.sparse[0][0])


def _collapsed(made: Schedule, indices: tuple[str, ...]) -> tuple[Schedule, str]:
    """Nested loops as one, and its name."""
    fused = indices[-1]
    for index in reversed(indices[:-1]):
        made, fused = made.fuse(index, fused, f"{index}{fused}"), f"{index}{fused}"
    return made, fused


def _last(made: Schedule) -> str:
    return next(loop for loop in made.loops if loop.endswith("_p"))


def jammed_rows(base: Schedule, size: int = 16, unroll: int = 8) -> Schedule:
    """Rows to threads; `unroll` nonzeros together over the dense innermost loop."""
    *_, around, inner = ("", *base.loops)
    found = base.iterator(around) if around else None
    if base.iterator(inner) or inner not in base.statement.output.indices or not found or around == base.loops[0]:
        raise ScheduleError(f"{inner} is no dense loop inside a compressed one")
    made = base.pos(around, f"{around}_p", found[0]).split(f"{around}_p", f"{around}0", f"{around}1", unroll)
    return _threads(made, size).unroll(f"{around}1")


def summed_rows(base: Schedule, size: int = 256) -> Schedule:
    """Rows to threads; the innermost loop adds up as a vector."""
    inner = base.loops[-1]
    if (
        base.firsts
        or inner in base.statement.output.indices
        or len(base.loops) < 2
        or base.statement.semiring.sum != "+"
    ):
        raise ScheduleError(f"{inner} adds up nothing")
    return _threads(base, size).parallelize(inner, "vector", "private")


def row_blocks(base: Schedule, size: int = 16) -> Schedule:
    """Rows to threads."""
    return _threads(base, size)


def blocks(base: Schedule, size: int = 4096) -> Schedule:
    """Blocks of nonzeros to threads; rows at the edges are carried."""
    made = _fused(base)
    p = _last(made)
    made = made.split(p, "block", "one", size)
    rest = [loop for loop in made.loops if loop not in ("block", "one")]
    made = made.reorder("block", *rest, "one").parallelize("block", "threads", "carry")
    return made.parallelize("one", "vector", "private") if base.statement.semiring.sum == "+" else made


def private(base: Schedule, size: int = 256) -> Schedule:
    """Blocks of the outermost loop to threads, each with its own copy of the output."""
    return _threads(base, size, "private")


def cuda_rows(base: Schedule, lanes: int = 32) -> Schedule:
    """A row (a fibre) to so many lanes; with one, a row to a thread."""
    outer, inner = base.loops[0], base.loops[-1]
    if outer == inner or inner in base.statement.output.indices:
        raise ScheduleError(f"{inner} adds up nothing")
    made, walked = base, _walked(base)
    if base.loops == walked and set(walked[:-1]) <= set(base.statement.output.indices):
        made, outer = _collapsed(base, walked[:-1])
    if found := next(filter(None, map(base.iterator, made.roots(outer))), None):
        made, outer = made.pos(outer, f"{outer}_p", found[0]), f"{outer}_p"
    made = made.split(outer, "block", "row", 256 // lanes).parallelize("block", "block")
    if lanes == 1:
        return made.parallelize("row", "thread")
    return made.parallelize("row", "warp").parallelize(inner, "lane", shuffle(lanes))


def cuda_columns(base: Schedule, warps: int = 8) -> Schedule:
    """A row to a warp, a dense loop that follows the output over its lanes."""
    outer, inner = base.loops[0], base.loops[-1]
    if base.iterator(inner) or inner not in base.statement.output.indices or len(base.loops) < 2:
        raise ScheduleError(f"{inner} does not follow the output over a whole dimension")
    made = base
    if found := base.iterator(outer):
        made, outer = made.pos(outer, f"{outer}_p", found[0]), f"{outer}_p"
    made = made.split(outer, "block", "row", warps)
    made = made.reorder(*("block", "row", inner), *(loop for loop in made.loops if loop not in ("block", "row", inner)))
    return made.parallelize("block", "block").parallelize("row", "warp").parallelize(inner, "lane")


def cuda_blocks(base: Schedule, each: int = 8) -> Schedule:
    """Blocks of nonzeros, `each` to a thread."""
    made = _fused(base)
    made = made.split(_last(made), "block", "inside", 256 * each).split("inside", "part", "one", each)
    if made.loops[-1] != "one":
        raise ScheduleError(f"{made.loops[-1]}: blocks are for sums without another loop")
    return made.parallelize("block", "block", "atomic").parallelize("part", "thread", "atomic")


def cuda_balanced(base: Schedule, columns: int = 4, each: int = 256) -> Schedule:
    """`each` nonzeros to a warp, row by row; a dense loop that follows the output over its lanes, `columns` to one."""
    inner, made = base.loops[-1], _fused(base)
    if base.iterator(inner) or inner not in base.statement.output.indices:
        raise ScheduleError(f"{inner} does not follow the output over a whole dimension")
    made = made.split(_last(made), "block", "inside", 8 * each).split("inside", "part", "one", each)
    tile, within, column, lane = (f"{inner}_{part}" for part in ("tile", "within", "column", "lane"))
    if columns > 1:
        made = made.split(inner, tile, within, 32 * columns).split(within, column, lane, 32)
        made = made.reorder("block", "part", tile, lane, column, "one").unroll(column)
    else:
        made, lane = made.reorder("block", "part", inner, "one"), inner
    if set(_walked(base)[:-1]) <= set(base.statement.output.indices):  # else rows end within the loop
        made = made.unroll("one", 2)
    made = made.parallelize("block", "block", "atomic").parallelize("part", "warp", "atomic")
    return made.parallelize(lane, "lane")


def cuda_staged(base: Schedule, each: int = 8) -> Schedule:
    """Blocks of nonzeros, `each` to a thread, whose products lie in shared memory; then rows to threads."""
    made = _fused(base)
    made = made.split(_last(made), "block", "inside", 256 * each).split("inside", "turn", "one", 256)
    made = made.reorder("block", "one", "turn").unroll("turn").parallelize("block", "block", "atomic")
    return made.parallelize("one", "thread", "staged")


def cuda_sampled(base: Schedule, lanes: int = 8) -> Schedule:
    """A nonzero of the output to so many lanes, which share the sum of a dense loop."""
    inner, made = base.loops[-1], _fused(base)
    made = made.split(_last(made), "block", "one", 256 // lanes)
    if made.loops[-1] != inner or base.iterator(inner) or inner in base.statement.output.indices:
        raise ScheduleError(f"{inner} adds up nothing over a whole dimension")
    return made.parallelize("block", "block").parallelize("one", "warp").parallelize(inner, "lane", shuffle(lanes))


def cuda_segments(base: Schedule, size: int = 1024, each: int = 256) -> Schedule:
    """Blocks of nonzeros, `each` to a warp, whose lanes take 32 neighbours at a time and sum them by row."""
    made = _fused(base)
    made = made.split(_last(made), "block", "inside", size).split("inside", "part", "rest", each)
    made = made.split("rest", "step", "one", 32)
    if made.loops[-1] != "one":
        raise ScheduleError(f"{made.loops[-1]}: segments are for sums without another loop")
    made = made.parallelize("block", "block", "atomic").parallelize("part", "warp", "atomic")
    return made.parallelize("one", "lane", "segments")


def cuda_atomic(base: Schedule) -> Schedule:
    """Blocks of the outermost loop, an iteration to a thread."""
    outer = base.loops[0]
    made = base
    if found := base.iterator(outer):
        made, outer = made.pos(outer, f"{outer}_p", found[0]), f"{outer}_p"
    made = made.split(outer, "block", "one", 128)
    return made.parallelize("block", "block", "atomic").parallelize("one", "thread", "atomic")


@dataclass(frozen=True)
class Tuned:
    """The fastest schedule, `code` to paste, and the seconds of every one that was measured."""

    schedule: Schedule
    code: str
    seconds: dict[str, float]


def space(base: Schedule, target: str = "cpu") -> list[Schedule]:
    """The schedules that `tune` measures."""
    check_schedule(base)
    check_target(target)
    if target == "cuda":
        makers = [lambda lanes=lanes: cuda_rows(base, lanes) for lanes in (1, 2, 4, 8, 16, 32)]
        makers += [lambda warps=warps: cuda_columns(base, warps) for warps in (4, 8)]
        makers += [lambda columns=columns: cuda_balanced(base, columns) for columns in (1, 2, 4)]
        makers += [lambda lanes=lanes: cuda_sampled(base, lanes) for lanes in (4, 8, 32)]
        makers += [lambda each=each: cuda_blocks(base, each) for each in (4, 8, 16)]
        makers += [lambda each=each: cuda_staged(base, each) for each in (4, 8)]
        makers += [lambda: cuda_segments(base), lambda: cuda_atomic(base)]
    else:
        makers = [lambda size=size: summed_rows(base, size) for size in (16, 256)]
        makers += [lambda unroll=unroll: jammed_rows(base, 16, unroll) for unroll in (2, 4, 8)]
        makers += [lambda size=size: row_blocks(base, size) for size in (16, 256)]
        makers += [lambda size=size: blocks(base, size) for size in (1024, 16384)]
        makers += [lambda: private(base)]
    found = [base] if target == "cpu" else []
    for make in makers:
        try:
            made = make()
            lower(made)
        except ScheduleError:
            continue
        found.append(made)
    return found


def tune(base: Schedule, target: str = "cpu", repeats: int = 5, out: Any = None, **operands: Any) -> Tuned:
    """Measure a small space of schedules on the operands at hand; the least of a few runs counts."""
    if repeats < 1:
        raise ValueError(f"repeats is at least 1, not {repeats}")
    seconds: dict[str, float] = {}
    best, least = base, np.inf
    for made in space(base, target):
        run = kernel(made).prepared(out=None if out is None else out.copy(), **operands)
        times = []
        for _ in range(repeats + 1):  # the first compiles
            start = perf_counter()
            run()
            if target == "cuda":
                from numba import cuda

                cuda.synchronize()
            times.append(perf_counter() - start)
            if len(times) > 1 and times[-1] > 3 * least:
                break  # far from the best
        seconds[made.code] = min(times[1:])
        if min(times[1:]) < least:
            best, least = made, min(times[1:])
    return Tuned(best, best.code, seconds)
