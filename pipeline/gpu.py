"""Queries on a GPU: the store there, batches through the kernel, answers back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from queue import SimpleQueue
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda.cudadrv import error as cuda_error

from ..kernels import batch, sectors, warp
from ..kernels.block import Shape, gathered_words, list_room, scratch_words, shared_bytes
from ..kernels.device_labels import NARROW, NEVER
from ..storage.errors import HeadwayError
from ..storage.store import Store
from .ahead import run_ahead
from .asked import Answer
from .chains import chains
from .engines import Piece, Result, vertices_of
from .query_file import PART, Queries

# One computes while the other is copied to the host; the simulator can't.
BUFFERS = 1 if warp.SIMULATED else 2
WIDTHS = (600, 150)  # seconds of a bucket without footpaths and with
SLOTS = (12, 11, 10, 9, 8)  # a time slot of the sectors is 2 ** this seconds, the widest that serves
MISSED = 0.01  # share of departures without room in their sectors that is put up with
BLOCKS = 16  # of a multiprocessor at most
MULTIPROCESSOR = 1536  # threads that its registers are enough for
HOST = 2**28  # bytes of arrivals that a buffer brings to the host at once
PIECE = 2**19  # cells of arrivals that are made into a table at once

# The simulator knows fewer.
CUDA_ERRORS = tuple(
    kind
    for name in ("CudaDriverError", "CudaSupportError", "NvvmSupportError")
    if (kind := getattr(cuda_error, name, None)) is not None
)

# Launching is by subscript, which type checkers don't know of CUDA kernels.
kernel_of: Callable[[Shape], Any] = cache(batch.make)
sectors_of: Callable[[bool], Any] = cache(sectors.make)


class GpuEngine:
    """A store on the current CUDA device.

    `memory` bounds the device memory in bytes (None: four fifths of what is free). Raises `HeadwayError` where the
    store alone needs more.
    """

    keeps_order = True

    def __init__(self, store: Store, memory: int | None = None, narrow: bool | None = None) -> None:
        self._store = store
        vertices, lists = store.timetable.vertices, store.profile
        self._memory = memory if memory is not None else _free() * 4 // 5
        self._walking = len(store.timetable.footpaths.to) > 0
        self._wide = lists.word.dtype == np.uint64
        self._processors, per_block, per_processor = _limits()
        fits = vertices <= NARROW and shared_bytes(True, vertices, 1024) <= per_block
        self._narrow = fits if narrow is None else narrow
        self._room = list_room(vertices)
        alone = shared_bytes(self._narrow, vertices, 0) + 1024  # the driver keeps 1 KiB of a block's for itself
        self._per_processor = int(np.clip((per_processor - 4 * gathered_words(MULTIPROCESSOR)) // alone, 1, BLOCKS))
        host = host_arrays(store)
        needed = sum(array.nbytes for array in host.values())
        self._need(needed)
        self._buffers: SimpleQueue[Buffer] = SimpleQueue()
        with troubles():
            self._arrays = {name: cuda.to_device(array) for name, array in host.items()}
            self._groups, self._bits, self._slots = self._sectors(needed)
            for _ in range(BUFFERS):
                self._buffers.put(Buffer())
        self._left = self._memory - needed - self._groups.nbytes

    def pieces(self, queries: Queries, asked: Answer) -> Iterator[Piece]:
        """Queries in pieces, each with the call that gives its results, computed a block ahead."""
        size = self._block(asked)
        blocks = (queries.take(slice(first, first + size)) for first in range(0, len(queries), size))
        # What is one launch gains nothing from threads, which CUDA takes a while to know.
        ahead = run_ahead if len(queries) > size else lambda work, some, _: map(work, some)
        for block, result in ahead(lambda some: (some, self.compute(some, asked)), blocks, BUFFERS):
            if asked.kind != "arrivals":
                yield block, lambda result=result: result
                continue
            rows = max(1, PIECE // max(1, result.shape[1]))
            for first in range(0, len(block), rows):
                part = slice(first, first + rows)
                yield block.take(part), lambda part=part, result=result: result[part]

    def _block(self, asked: Answer) -> int:
        """Queries of a launch. Of a buffer's part of the memory half is for answers, half for what blocks work with."""
        columns = self._columns(asked)
        each = 4 * columns + 8 * columns * len(asked.weights.names) + 64
        weights = 8 * self._store.timetable.places.stops * len(asked.weights.names)
        half = self._half()
        if half < max(each, self._scratch_bytes(1) + weights):
            self._need(self._memory - self._left + 2 * BUFFERS * max(each, self._scratch_bytes(1) + weights))
        size = half // each
        if asked.kind == "arrivals":
            size = min(size, max(1, HOST // each))
        return min(size, PART)

    def _half(self) -> int:
        return self._left // BUFFERS // 2

    def _columns(self, asked: Answer) -> int:
        return {"arrivals": len(self._store.timetable.places.table), "od": 1, "reach": len(asked.cutoffs)}[asked.kind]

    def _need(self, size: int) -> None:
        if size > self._memory:
            raise HeadwayError(
                f"the GPU needs {size / 2**30:.2f} GiB for this store, and may use {self._memory / 2**30:.2f}; "
                "raise gpu.memory_gib, or use --device cpu"
            )

    def _scratch_bytes(self, blocks: int) -> int:
        return 4 * blocks * scratch_words(self._narrow, self._store.timetable.vertices, self._room)

    def _sectors(self, needed: int) -> tuple[Any, int, int]:
        """Sectors of the widest slots in which few departures find no room, within half of the memory left."""
        lists, arrays = self._store.profile, self._arrays
        _, fill, size = sectors_of(self._wide)
        edges = len(lists.least)
        found = None
        for bits in SLOTS:
            slots = -(-lists.slots * lists.slot // 2**bits)
            words = max(1, slots * edges * size)
            if found is not None and words * lists.word.itemsize > (self._memory - needed) // 2:
                break
            self._need(needed + words * lists.word.itemsize)
            found = groups = None  # free the wider ones first
            groups = cuda.device_array(words, lists.word.dtype)
            missed = cuda.to_device(np.zeros(1, np.uint64))
            if slots * edges:
                fill[-(-slots * edges // 256), 256](
                    groups, *_unsigned(bits, slots, lists.slot, lists.slots), arrays["index"], arrays["word"],
                    np.uint32(edges), self._shift, missed,
                )  # fmt: skip
            found = groups, bits, slots
            if int(missed.copy_to_host()[0]) <= MISSED * len(lists.word):
                break
        assert found is not None
        return found

    @property
    def _shift(self) -> np.unsignedinteger:
        return (np.uint64 if self._wide else np.uint32)(self._store.profile.shift)

    def compute(self, some: Queries, asked: Answer) -> Result:
        """Results of one piece, from queries on the host to arrays there."""
        buffer = self._buffers.get()
        try:
            with troubles():
                run, out, sums = self.prepared(some, asked, buffer)
                run()
                found, totals = buffer.to_host(out, sums if asked.weights.names else None)
        finally:
            self._buffers.put(buffer)
        if asked.kind == "reach":
            return found, totals if asked.weights.names else np.empty((*found.shape, 0), np.int64)
        return found[:, 0] if asked.kind == "od" else found

    def prepared(self, some: Queries, asked: Answer, buffer: Buffer) -> tuple[Callable[[], None], Any, Any]:
        """Queries sent to the device: the call that launches the kernel, and the arrays that it fills there.

        int32[queries, columns] and int64[queries, columns, weights], as `Result` of the kind.
        """
        store, lists, arrays = self._store, self._store.profile, self._arrays
        order, begin = chains(some.origin, some.departure)
        host = query_arrays(store, some.take(order), asked, begin, order)
        shape = Shape(self._narrow, self._wide, self._walking, asked.kind)
        count = len(begin) - 1
        blocks = min(count, self._processors * self._per_processor)
        blocks = max(1, min(blocks, self._half() // self._scratch_bytes(1)))
        # As many threads as a multiprocessor's registers are enough for, shared by its blocks.
        busy = -(-blocks // self._processors)
        threads = min(1024, MULTIPROCESSOR // busy // 32 * 32) if not warp.SIMULATED else 4
        shared = shared_bytes(self._narrow, store.timetable.vertices, threads)
        out, sums = buffer.answers(len(some), self._columns(asked), len(asked.weights.names))
        scratch = buffer.scratch(self._scratch_bytes(blocks) // 4)
        stream = buffer.stream
        sent = {name: buffer.sent(name, array) for name, array in host.items()}
        next_chain = buffer.counter()
        launch = kernel_of(shape)[blocks, threads, stream, shared]
        if not warp.SIMULATED:
            launch.pre_launch_callbacks.append(lambda kernel, _: _allow_shared(kernel, shared))
        zero, per_warp = np.zeros(1, np.uint32), np.uint32(0xFFFF // (threads // warp.WIDTH))

        def run() -> None:
            next_chain.copy_to_device(zero, stream=stream)
            launch(
                np.uint32(store.timetable.vertices), arrays["vertex_edges"], arrays["edge"], self._groups,
                *_unsigned(self._bits, self._slots, lists.slot, lists.slots), arrays["index"], arrays["word"],
                self._shift, arrays["vertex_foot"], arrays["foot"], arrays["place"], arrays["place_vertex"],
                np.int32(WIDTHS[self._walking]), per_warp, sent["chain"], sent["row"], sent["leave"], sent["limit"],
                sent["source_offset"], sent["source"], sent["target"], sent["target_vertex"], sent["cutoffs"],
                sent["weights"], scratch, np.uint32(self._room), next_chain, out, sums,
            )  # fmt: skip

        return run, out, sums


def host_arrays(store: Store) -> dict[str, np.ndarray]:
    """What of a store the kernel reads, as it takes it: offsets uint32, pairs of words uint64.

    Pairs are the first edge or footpath of a vertex with their count, a head with the least duration to it, and the
    vertices of a place (`device_answers.make`).
    """
    graph, lists, paths, places = store.cluster_ap, store.profile, store.timetable.footpaths, store.timetable.places

    return {
        "vertex_edges": _pairs(graph.vertex_edge[:-1], np.diff(graph.vertex_edge)),
        "edge": _pairs(graph.edge_to, lists.least),
        "index": np.ascontiguousarray(lists.index),
        "word": np.ascontiguousarray(lists.word),
        "vertex_foot": _pairs(paths.offset[:-1], np.diff(paths.offset)),
        "foot": _pairs(paths.to, paths.seconds),
        "place": _some(places.offset, places.vertex),
        "place_vertex": np.ascontiguousarray(places.vertex),
    }


def query_arrays(
    store: Store, some: Queries, asked: Answer, begin: np.ndarray, row: np.ndarray
) -> dict[str, np.ndarray]:
    """Queries in order of work, as the kernel takes them; query q's answer goes to row `row[q]`."""

    def vertices(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        offset, vertex = vertices_of(store, places)
        return offset.astype(np.uint32), vertex

    source_offset, source = vertices(some.origin)
    target_offset, target = vertices(some.destination) if asked.kind == "od" else (np.zeros(1, np.uint32),) * 2
    limit = np.full(len(some), NEVER, np.int32)
    if asked.kind == "reach":
        limit = some.departure + asked.cutoffs.max()
    return {
        "chain": begin,
        "row": row.astype(np.uint32),
        "leave": some.departure,
        "limit": limit,
        "source_offset": source_offset,
        "source": source,
        "target": _some(target_offset, target),
        "target_vertex": target,
        "cutoffs": asked.cutoffs,
        "weights": asked.weights.by_stop(store.timetable.places.stops),
    }


def _pairs(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))


def _some(offset: np.ndarray, vertex: np.ndarray) -> np.ndarray:
    """Groups of vertices with their counts: where they start, or the only one."""
    count = np.diff(offset)
    alone = count == 1
    start = offset[:-1].astype(np.int64)
    start[alone] = vertex[start[alone]]
    return _pairs(start, count)


class Buffer:
    """Device and pinned host memory of one block of queries, kept from one to the next, and its stream."""

    def __init__(self) -> None:
        self.stream = cuda.stream()
        self._kept: dict[str, Any] = {}

    def answers(self, rows: int, columns: int, weights: int) -> tuple[Any, Any]:
        """Arrays int32[rows, columns] and int64[rows, columns, weights], at least one of each."""
        out = self._device("out", rows * columns, np.int32).reshape(rows, columns)
        shape = (rows, columns, weights) if weights else (1, 1, 1)
        return out, self._device("sums", int(np.prod(shape)), np.int64).reshape(shape)

    def scratch(self, words: int) -> Any:
        """An array uint32[words]."""
        return self._device("scratch", words, np.uint32)

    def counter(self) -> Any:
        """An array uint32[1]."""
        return self._device("counter", 1, np.uint32)

    def sent(self, name: str, array: np.ndarray) -> Any:
        """A copy on the device. Memory is kept for arrays of one axis: to allocate and free it waits for the device."""
        if array.ndim > 1 or not array.size:
            return cuda.to_device(array, stream=self.stream)
        there = self._device(name, array.size, array.dtype)
        there.copy_to_device(array, stream=self.stream)
        return there

    def to_host(self, out: Any, sums: Any | None) -> tuple[np.ndarray, np.ndarray]:
        """Both on the host, when the kernel is done; sums int64[0] where there are none."""
        found = [np.empty(0, np.int32), np.empty(0, np.int64)]
        for k, (name, array) in enumerate((("out", out), ("sums", sums))):
            if array is None:
                continue
            pinned = self._kept.get(f"host {name}")
            if pinned is None or pinned.size < array.size:
                pinned = self._kept[f"host {name}"] = cuda.pinned_array(array.size, array.dtype)
            some = pinned[: array.size].reshape(array.shape)
            array.copy_to_host(some, stream=self.stream)
            found[k] = some
        self.stream.synchronize()
        return found[0].copy(), found[1].copy()

    def _device(self, name: str, size: int, dtype: Any) -> Any:
        kept = self._kept.get(name)
        if kept is None or kept.size < size:
            self._kept[name] = kept = None
            self._kept[name] = kept = cuda.device_array(max(1, size), dtype)
        return kept[:size]


@contextmanager
def troubles(way_out: str = "try a smaller gpu.memory_gib, or --device cpu") -> Iterator[None]:
    """What CUDA raises, in one line; some of it comes from NVIDIA's own packages, which name no public class."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, CUDA_ERRORS) and not type(error).__module__.startswith(("cuda.", "cupy")):
            raise
        cause = " ".join(str(error).split())
        raise HeadwayError(f"the GPU failed: {cause}; {way_out}") from error


def _unsigned(*values: int) -> list[np.uint32]:
    return [np.uint32(value) for value in values]


def _free() -> int:
    return 2**32 if warp.SIMULATED else int(cuda.current_context().get_memory_info()[0])


def _limits() -> tuple[int, int, int]:
    """Multiprocessors, and the bytes of shared memory that a block and a multiprocessor can have."""
    if warp.SIMULATED:
        return 1, 2**17, 2**18
    device = cuda.get_current_device()
    return (
        device.MULTIPROCESSOR_COUNT,
        device.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        device.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
    )


def _allow_shared(kernel: Any, size: int) -> None:
    """Let a kernel have more shared memory than the 48 KiB that every device gives."""
    from numba.cuda.cudadrv import driver

    function = kernel._codelibrary.get_cufunc()
    attribute = driver.binding.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    driver.driver.cuKernelSetAttribute(attribute, size, function.handle, function.device.id)
