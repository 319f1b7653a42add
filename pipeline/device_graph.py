"""One partition of a build on a GPU: the functions of `partition`, with the same bytes.

They raise `HeadwayError` where the GPU fails.

Array code is CuPy's, and NumPy's where kernels run in the CUDA simulator.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ..kernels import device_connections, device_cover, device_profiles, warp
from . import partition
from .gpu import troubles
from .partition import KINDS, SLOT, Assembled, Expanded, TripPart

if warp.SIMULATED:
    xp: Any = np
else:
    import cupy as xp  # pyright: ignore[reportMissingImports]

THREADS = 8 if warp.SIMULATED else 128
Array = Any  # one of `xp`'s


class Columns(NamedTuple):
    """Connections: `tail`, `head` uint32, `departure`, `duration` int32, `run` uint32 or none of them."""

    tail: Array
    head: Array
    departure: Array
    duration: Array
    run: Array


class Types(NamedTuple):
    """Distinct connections sorted by (tail, head, duration, departure), and where their groups begin: int64.

    `connection` in the sorted raw ones, `kind` in connections, `edge` in types, each with one more for the end.
    `tail`, `head` [edges] uint32, `duration` int32[types], `departure` int32[connections], `run` uint32[raw].
    """

    tail: Array
    head: Array
    edge: Array
    duration: Array
    kind: Array
    departure: Array
    connection: Array
    run: Array


_alone = Lock()


@contextmanager
def _gpu() -> Iterator[None]:
    """The GPU, for one thread at a time: those that share one would only wait for each other in small steps."""
    with _alone, troubles("build on CPUs, with --set build.frames=pandas"):
        yield


_on_gpu = _gpu()  # as a decorator, entered anew in each call


@_on_gpu
def expand_part(trips: TripPart, piece: np.ndarray, horizon: int, first_run: int, cuts: np.ndarray) -> Expanded:
    """As `partition.expand_part`."""
    if not len(trips.vertex) or not len(trips.shift):
        return partition.expand_part(trips, piece, horizon, first_run, cuts)
    found = expand(TripPart._make(map(to_device, trips)), to_device(piece), horizon)
    found.run[...] += np.uint32(first_run)
    begin, columns = by_range(found, to_device(cuts))
    return Expanded._make(to_host(begin, *columns))


@_on_gpu
def assemble_part(
    tail: np.ndarray,
    head: np.ndarray,
    departure: np.ndarray,
    duration: np.ndarray,
    run: np.ndarray,
    first: int,
    last: int,
    vertices: int,
    width: int,
) -> tuple[Assembled, dict[str, float]]:
    """As `partition.assemble_part`."""
    if not len(tail):
        return partition.assemble_part(tail, head, departure, duration, run, first, last, vertices, width)
    clock = Clock()
    raw = Columns._make(map(to_device, (tail, head, departure, duration, run)))
    found = sort_types(raw, first, last, vertices)
    counted = levels(found, first, last)
    clock.lap("sort, types")
    clusters = cover(found, width)
    clock.lap("progressions")
    made = Assembled._make(to_host(*counted, *clusters, *pareto(found)))
    clock.lap("profiles")  # and the way back
    return made, clock.seconds


@_on_gpu
def layout_part(
    edge_leave: np.ndarray, leave: np.ndarray, lasts: np.ndarray, slots: int, shift: int, wide: bool
) -> tuple[np.ndarray, np.ndarray]:
    """As `partition.layout_part`."""
    if not len(edge_leave):
        return partition.layout_part(edge_leave, leave, lasts, slots, shift, wide)
    found = layout(to_device(edge_leave), to_device(leave), to_device(lasts), slots, shift, wide)
    index, word = to_host(*found)
    return index, word


def expand(trips: TripPart, piece: Array, horizon: int) -> Columns:
    """The connections of trips, of which there are some, in the order of `kernels.connections.fill`."""
    count, begin = xp.empty(len(piece), np.int64), xp.zeros(len(piece) + 1, np.int64)

    def fill(size: int) -> Columns:
        out = Columns._make(xp.empty(size, kind) for kind in KINDS)
        launch(device_connections.fill, len(piece), *trips, horizon, piece, begin, count, *out)
        return out

    nothing = fill(1)  # no trip has room yet: it only counts
    begin[1:] = xp.cumsum(count)
    size = int(begin[-1])
    return fill(size) if size else Columns._make(column[:0] for column in nothing)


def by_range(columns: Columns, cuts: Array) -> tuple[Array, Columns]:
    """Connections grouped by range of tails, else in their order, and where each range begins."""
    if not len(columns.tail):
        return xp.zeros(len(cuts), np.int64), columns
    range_of = xp.searchsorted(cuts, columns.tail.astype(np.int64), side="right")
    order = xp.argsort(range_of.astype(np.uint32), kind="stable")
    begin = xp.searchsorted(range_of[order], xp.arange(1, len(cuts) + 1))
    return begin, Columns._make(column[order] for column in columns)


def sort_types(raw: Columns, first: int, last: int, vertices: int) -> Types:
    """Types and distinct connections of those whose tails are in [first, last)."""
    order = _order(raw, last - first, vertices, first)
    tail, head, departure, duration = (column[order] for column in raw[:4])
    new_edge = _changes(tail) | _changes(head)
    new_type = new_edge | _changes(duration)
    connection = xp.flatnonzero(new_type | _changes(departure))
    kind, edge = xp.flatnonzero(new_type), xp.flatnonzero(new_edge)
    return Types(
        tail[edge],
        head[edge],
        _with_end(xp.searchsorted(kind, edge), len(kind)),
        duration[kind],
        _with_end(xp.searchsorted(connection, kind), len(connection)),
        departure[connection],
        _with_end(connection, len(tail)),
        raw.run[order] if len(raw.run) else raw.run,
    )


def _order(raw: Columns, tails: int, vertices: int, first: int) -> Array:
    """Stable, so that runs stay in order."""
    head_bits, leave_bits, last_bits = _bits(vertices - 1), _most(raw.departure), _most(raw.duration)
    key = raw.head.astype(np.uint64) << np.uint64(leave_bits + last_bits)
    key |= raw.duration.astype(np.uint64) << np.uint64(leave_bits)
    key |= raw.departure.astype(np.uint64)
    if _bits(tails - 1) + head_bits + leave_bits + last_bits <= 64:
        tail = (raw.tail - np.uint32(first)).astype(np.uint64)
        return xp.argsort(key | (tail << np.uint64(head_bits + leave_bits + last_bits)), kind="stable")
    order = xp.argsort(key, kind="stable")
    return order[xp.argsort(raw.tail[order], kind="stable")]


def levels(found: Types, first: int, last: int) -> tuple[Array, ...]:
    """`Assembled`'s columns from `edges` to `run`."""
    tails = (found.tail - np.uint32(first)).astype(np.int64)
    connection = found.connection if len(found.run) else xp.zeros_like(found.connection)
    return (
        xp.bincount(tails, minlength=last - first).astype(np.int32),
        found.head,
        _sizes(found.edge),
        found.duration,
        _sizes(found.kind),
        found.departure,
        _sizes(connection),
        found.run,
    )


def cover(found: Types, width: int) -> tuple[Array, ...]:
    """`Assembled`'s columns from `type_clusters` to `step`: clusters of `width` seconds and their progressions."""
    departure, kind = found.departure, found.kind
    size = len(departure)
    number = departure // np.int32(width)
    new = _changes(number)
    new[kind[:-1]] = True
    cluster = xp.flatnonzero(new)
    begin = _with_end(cluster, size)
    end, step = xp.empty(size, np.int32), xp.empty(size, np.int32)
    sizes = _sizes(begin)
    order = xp.argsort(sizes, kind="stable")  # threads side by side have as much to do
    few = int(xp.count_nonzero(sizes <= device_cover.FEW))
    launch(device_cover.few, few, order[:few], begin, departure, end, step)
    if few < len(order):
        shared = device_cover.shared_bytes(width)
        grid: Any = device_cover.many
        grid = grid[len(order) - few, device_cover.THREADS, 0, shared]
        grid(order[few:][::-1].copy(), begin, departure, np.int64(width), end, step)  # the largest first
    first = xp.flatnonzero(step)
    return (
        _sizes(_with_end(xp.searchsorted(cluster, kind[:-1]), len(cluster))),
        number[cluster].astype(np.uint16),
        _sizes(_with_end(xp.searchsorted(first, cluster), len(first))),
        departure[first],
        end[first],
        step[first],
    )


def pareto(found: Types) -> tuple[Array, ...]:
    """`Assembled`'s columns from `edge_leave` to `lasts`: the Pareto list of each edge."""
    size, begin = len(found.departure), found.kind[found.edge]
    edge, kind = _owner(begin, size), _owner(found.kind, size)
    key = (edge.astype(np.uint64) << np.uint64(_most(found.departure))) | found.departure.astype(np.uint64)
    # Stable, and an edge's types ascend by duration: so do connections of one second.
    order = xp.argsort(key, kind="stable")
    departure, duration = found.departure[order], found.duration[kind[order]]
    keep = xp.zeros(size, np.bool_)
    launch(device_profiles.mark, len(begin) - 1, begin, departure, duration, keep)
    kept = xp.flatnonzero(keep)
    return _sizes(xp.searchsorted(kept, begin)), departure[kept], duration[kept]


def layout(edge_leave: Array, leave: Array, lasts: Array, slots: int, shift: int, wide: bool) -> tuple[Array, Array]:
    """Words of Pareto lists by slot, then edge, and where each group begins."""
    kind = np.uint64 if wide else np.uint32
    groups = slots * len(edge_leave)
    offset, index = xp.zeros(len(edge_leave) + 1, np.int64), xp.zeros(groups + 1, np.int64)
    offset[1:] = xp.cumsum(edge_leave, dtype=np.int64)
    counts = index[1:]
    launch(device_profiles.count, groups, offset, leave, slots, SLOT, counts)
    counts[...] = xp.cumsum(counts)
    word = xp.empty(len(leave) + groups, kind)
    none = kind(np.iinfo(kind).max)
    launch(device_profiles.by_slot, groups, offset, leave, lasts, slots, SLOT, kind(shift), none, index, word)
    return index, word


def launch(kernel: Any, threads: int, *given: Any) -> None:
    """A kernel with so many threads, if any."""
    if threads:
        kernel[-(-threads // THREADS), THREADS](*given)


class Clock:
    """Seconds of steps, each to the end of all that it launched."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._begun = perf_counter()

    def lap(self, step: str) -> None:
        """A step ends here."""
        if not warp.SIMULATED:
            xp.cuda.get_current_stream().synchronize()
        now = perf_counter()
        self.seconds[step], self._begun = now - self._begun, now


def to_device(array: np.ndarray) -> Array:
    """A copy on the GPU."""
    return xp.asarray(array)


def to_host(*arrays: Array) -> tuple[np.ndarray, ...]:
    """Copies on the host, when all is done on the GPU."""
    return arrays if warp.SIMULATED else tuple(array.get() for array in arrays)


def _changes(values: Array) -> Array:
    """Whether each value differs from the one before; the first does."""
    found = xp.ones(len(values), np.bool_)
    found[1:] = values[1:] != values[:-1]
    return found


def _with_end(begin: Array, end: int) -> Array:
    found = xp.empty(len(begin) + 1, np.int64)
    found[:-1], found[-1] = begin, end
    return found


def _sizes(begin: Array) -> Array:
    return xp.diff(begin).astype(np.int32)


def _owner(begin: Array, size: int) -> Array:
    """The group of each of `size` items: group g's are `begin[g] : begin[g + 1]`, at least one."""
    marks = xp.zeros(size, np.int32)
    marks[begin[:-1]] = 1
    return xp.cumsum(marks, dtype=np.int32) - np.int32(1)


def _bits(most: int) -> int:
    return max(1, most.bit_length())


def _most(values: Array) -> int:
    """Bits of the largest value."""
    return _bits(int(values.max())) if len(values) else 1
