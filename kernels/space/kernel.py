"""Compiled kernels: the text of a schedule, what it is called with, and how its iterations are shared."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import numba
import numpy as np

from . import runtime
from .arguments import arguments, check, parameters, patterned, shape_of, values_of
from .cpu import CpuText
from .gpu import GpuText
from .integers import ROOM, load_integers
from .levels import array_module, factor, on_device
from .lower import Nest, lower
from .nest import texts
from .relations import Fuse
from .schedule import Schedule, check_schedule
from .source import load, njit
from .tensors import Tensor

THREADS_OF_BLOCK = 256
CHUNKS = 8  # of each thread, so that none waits long for the last
_POOL = ThreadPoolExecutor(os.cpu_count() or 1)


class Kernel:
    """Call it with the operands by name, and `out` to add to or to write into.

    `source` is the text that Numba compiles, once for each kind of arrays. With `active` it is a step of `Rounds`.
    """

    def __init__(self, schedule: Schedule, active: str = "") -> None:
        check_schedule(schedule)
        self.schedule = schedule
        self.nest = lower(schedule, active)
        self.parameters = parameters(schedule, self.nest)
        self.source = source_of(schedule, self.nest, self.parameters)
        self._count = load(self.source).get("iterations")
        self.lanes = next((race.width for _, _, race in schedule.tags if race.kind == "shuffle"), 32)

    def __repr__(self) -> str:
        return f"kernel({self.schedule.code})"

    def __call__(self, out: Any = None, threads: int | None = None, **operands: Any) -> Any:
        """The output: an array, or a tensor where it follows an input's pattern."""
        return self.prepared(out, threads, **operands)()

    def prepared(self, out: Any = None, threads: int | None = None, **operands: Any) -> Callable[[], Any]:
        """The call, to be made many times: arrays are looked at once, and read and written each time.

        Every call returns the same output, so copy what is to be kept; two threads must not call it at a time.
        """
        schedule, statement = self.schedule, self.schedule.statement
        whole_number = isinstance(threads, int | np.integer) and not isinstance(threads, bool)
        if threads is not None and not (whole_number and threads >= 1):
            raise ValueError(f"threads is a whole number of at least 1, not {threads!r}")
        dtype = check(statement, operands, out)
        given = arguments(schedule, operands, out)
        where = next((array for array in given.values() if on_device(array)), None)
        shape, result = shape_of(schedule, given, operands), values_of(out)
        if result is None:
            result = _empty(shape, dtype, where)
        races = {race.kind for _, _, race in schedule.tags} - {"none", "carry", "private"}
        if races and result.dtype.kind == "c":
            raise ValueError(f"{statement.text}: {', '.join(races)} is not for complex numbers")
        name = f"{statement.output.tensor}_val" if schedule.pattern else statement.output.tensor
        whole = result if result.ndim else result.reshape(1)
        if schedule.pattern:
            if result.size != np.prod(shape):
                raise ValueError(f"out has {result.size} values, the coordinates of {schedule.pattern} {shape}")
            whole = whole.reshape(shape)
        fresh = not (statement.accumulate or self.nest.whole)
        zero = statement.semiring.zero(result.dtype) if fresh else None
        work = self._work(given | {name: whole}, name, zero, threads)
        found = out if isinstance(out, Tensor) else result
        if schedule.pattern and not isinstance(out, Tensor):
            found = patterned(schedule, operands[schedule.pattern], result, operands)

        def run() -> Any:
            work()
            return found

        return run

    def _work(self, given: dict[str, Any], name: str, zero: Any, threads: int | None) -> Callable[[], None]:
        """What a call does with its arrays: it sets the output to `zero`, unless that is None, and computes."""
        out = given[name]
        if self.schedule.cuda:
            from .launch import launches  # only CUDA schedules import CUDA's packages

            wide = self.wide(given)
            return launches(self, compiled(self, out.dtype, wide), given, name, zero, wide)
        function, onto = compiled(self, out.dtype), self.schedule.tag(next(iter(self.schedule.loops), ""))
        if onto and onto[0] == "threads":
            count, race = threads or numba.get_num_threads(), onto[1].kind
            compute = partial(self._on_threads, function, given, name, count, race)
        else:
            compute = partial(function, *(given[key] for key in self.parameters))

        def work() -> None:
            if zero is not None:
                out[...] = zero
            compute()

        return work

    def wide(self, given: dict[str, Any]) -> bool:
        """Whether counters need 64 bits: for entries of an array, the extent of a fused loop, or what bounds one."""
        extents = [given[key] for key in given if key.startswith("n_")]
        for made in self.schedule.relations:
            if isinstance(made, Fuse):
                roots = (f"n_{root}" for root in self.schedule.roots(made.fused))
                extents.append(math.prod(int(given.get(root, 1)) for root in roots))
        arrays = {key: one for key, one in given.items() if hasattr(one, "size") and not isinstance(one, np.generic)}
        extents += [one.size for one in arrays.values()]
        scalars = (given.get(name) for name in self.schedule.statement.scalars)
        extents += [abs(int(one)) for one in scalars if isinstance(one, int | np.integer)]
        # What arrays hold is not looked at: whole numbers of 64 bits, but for offsets, may be any.
        large = any(
            one.dtype.kind in "iu" and one.dtype.itemsize > 4 and "_pos" not in key for key, one in arrays.items()
        )
        return large or max(extents, default=0) >= ROOM

    def _on_threads(self, function: Any, given: dict[str, Any], name: str, threads: int, race: str) -> None:
        """Share the outermost loop; then add up what was carried, or the private copies."""
        semiring, out, count = self.schedule.statement.semiring, given[name], self.iterations(given)
        zero, threads = semiring.zero(out.dtype), min(threads, max(count, 1))
        if race == "carry":
            given["aside"] = np.full((2 * count, *out.shape[self.nest.kept :]), zero)
            given["aside_row"] = np.zeros((2 * count, self.nest.kept), np.int64)
        copies = [out, *(np.full_like(out, zero) for _ in range(threads - 1 if race == "private" else 0))]
        parts = threads if race == "private" else min(count, threads * CHUNKS if threads > 1 else 1)

        def work(part: int) -> None:
            mine = given | {"first": count * part // parts, "last": count * (part + 1) // parts}
            mine[name] = copies[part] if race == "private" else out
            function(*(mine[key] for key in self.parameters))

        _shared(work, parts, threads)
        for copy in copies[1:]:
            semiring.total(out, copy, out=out)
        if race == "carry" and count:
            semiring.total.at(out, tuple(given["aside_row"].T), given["aside"])

    def iterations(self, given: dict[str, Any]) -> int:
        """How many iterations threads or blocks share."""
        if not self._count:
            return 1
        host = dict[str, Any]()
        for key in self.parameters:
            one = given.get(key)
            host[key] = _Ends(given, key) if on_device(one) else _Whole(one) if isinstance(one, np.ndarray) else one
        return int(self._count(*host.values()))

    def block(self, most: int = THREADS_OF_BLOCK) -> int:
        """Threads of a block: as many as its loops have iterations, where that is known and fits; whole warps."""
        from .. import warp

        tags = {onto: loop for loop, onto, _ in self.schedule.tags}
        lanes = width_of(self) if "lane" in tags else 1
        if not tags.keys() & {"thread", "warp"}:
            return lanes
        several = self.schedule.constant(tags.get("thread") or tags["warp"]) or THREADS_OF_BLOCK
        threads = lanes * min(several, most // lanes)
        return -(-threads // warp.WIDTH) * warp.WIDTH


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


class _Whole:
    """Offsets as Python's numbers: sums of NumPy's wrap around at 32 bits."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.size = array, array.size

    def __getitem__(self, place: int) -> int:
        return int(self.array[place])


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
def compiled(kernel: Kernel, dtype: np.dtype, wide: bool = True) -> Any:
    """The function of a kernel for an output of `dtype`; Numba specialises it for the operands.

    For CUDA two of them by name, `kernel` and `starts`; `wide` as of `load_integers`.
    """
    schedule = kernel.schedule
    constants = {"zero": schedule.statement.semiring.zero(dtype), "dtype": dtype.type}
    if schedule.cuda:
        from numba import cuda

        from . import device_runtime

        constants["LANES"] = width_of(kernel)
        found = load_integers(kernel.source, wide, **constants, **device_runtime.GPU)
        return {name: cuda.jit(found[name]) for name in ("kernel", "starts") if name in found}
    # Only where a vector adds up may sums be taken in another order.
    free = any(onto == "vector" and race.kind == "private" for _, onto, race in schedule.tags)
    fast = {"reassoc", "contract"} if free else {"contract"}
    return njit(kernel.source, "kernel", constants, runtime.CPU, fast)


def width_of(kernel: Kernel) -> int:
    """Lanes of a row, on the machine at hand."""
    from .. import warp

    return min(kernel.lanes, warp.WIDTH)


def text_of(schedule: Schedule) -> CpuText:
    """What writes down the nest of a schedule."""
    return (GpuText if schedule.cuda else CpuText)(schedule.statement.semiring)


def source_of(schedule: Schedule, nest: Nest, parameters: tuple[str, ...]) -> str:
    """The text of a kernel, and of how many iterations its outermost parallel loop has."""
    text = text_of(schedule)
    shared = any(onto in ("threads", "block") for _, onto, _ in schedule.tags)
    lines = [f"# {schedule.statement.text}", f"def kernel({', '.join(parameters)}):"]
    lines += text.lines([*nest.setup, *nest.body])
    needed = text.lines([line for line in nest.setup if not any("dtype" in text for text in texts([line]))])
    if shared:
        lines += ["", "", f"def iterations({', '.join(parameters)}):", *needed, f"    return {nest.parallel}"]
    if nest.starts:
        block = next(loop for loop, onto, _ in schedule.tags if onto == "block")
        lines += ["", "", f"def starts({', '.join(parameters)}):", *needed]
        lines.append(f"    for {block} in range(cuda.grid(1), {factor(nest.parallel)} + 1, cuda.gridsize(1)):")
        lines += [f"    {line}" for line in text.lines(nest.starts)]
    return "\n".join(lines) + "\n"


def _empty(shape: tuple[int, ...], dtype: np.dtype, where: Any) -> Any:
    """A new output, on the device where operands are."""
    if where is None:
        return np.empty(shape, dtype)
    if type(where).__module__.startswith("cupy"):
        return array_module(where).empty(shape, dtype)
    from numba import cuda

    return cuda.device_array(shape, dtype)
