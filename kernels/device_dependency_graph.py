"""Edge-scan-dependency graph on a GPU: a launch a level, a thread a connection."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
from numba import cuda, uint32, uint64

from . import warp
from .recorded import Recorded

THREADS = 4 if warp.SIMULATED else 256


@warp.jit
def relax(first, count, tail, head, departure, arrival, label, lowered):
    """Relax the connections `first` (uint64) on, `count` (uint32) of them; sets `lowered[0]` (int32) if a label falls.

    `tail`, `head` uint32, `departure`, `arrival` int32 [connections]; `label` int32[vertices].
    """
    k = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    if k < count:
        c = uint64(first + uint64(k))
        v, reached = head[c], arrival[c]
        if (
            label[tail[c]] <= departure[c]
            and reached < label[v]
            and reached < cuda.atomic.min(label, v, reached)  # the label before
        ):
            lowered[0] = 1


class LevelScan:
    """Scans all levels, one query at a time.

    `connections` (tail, head uint32, departure, arrival int32) by level: those of level l are `offset[l] :
    offset[l + 1]` (int64), relaxed until stable if `cyclic[l]` (bool): after each time the host reads back whether a
    label fell. All other levels are launched together.
    """

    def __init__(
        self, connections: tuple[np.ndarray, ...], offset: np.ndarray, cyclic: np.ndarray, vertices: int
    ) -> None:
        self._connections = tuple(cuda.to_device(column) for column in connections)
        self._label = cuda.to_device(np.zeros(vertices, np.int32))
        self._lowered = cuda.to_device(np.zeros(1, np.int32))
        self._relax(0, 0, 0)  # compiled
        self._parts: list[Callable[[], None]] = []
        for again, levels in groupby(range(len(cyclic)), cyclic.__getitem__):
            steps = [partial(self._relax, int(offset[k]), int(offset[k + 1] - offset[k])) for k in levels]
            self._parts += [partial(self._until_stable, step) for step in steps] if again else [_together(steps)]

    def search(self, label: np.ndarray) -> None:
        """Lower the labels (int32[vertices], the sources' set) to earliest arrivals."""
        self._label.copy_to_device(label)
        for part in self._parts:
            part()
        self._label.copy_to_host(label)

    def _relax(self, first: int, count: int, stream: Any) -> None:
        launch: Any = relax  # launching is by subscript, which type checkers don't know of CUDA kernels
        on_grid = launch[max(1, -(-count // THREADS)), THREADS, stream]
        on_grid(np.uint64(first), np.uint32(count), *self._connections, self._label, self._lowered)

    def _until_stable(self, step: Callable[[Any], None]) -> None:
        fell = True
        while fell:
            self._lowered.copy_to_device(np.zeros(1, np.int32))
            step(0)
            fell = bool(self._lowered.copy_to_host()[0])


def _together(steps: list[partial[None]]) -> Callable[[], None]:
    if not warp.SIMULATED:
        return Recorded(steps).launch

    def run() -> None:
        for step in steps:
            step(0)

    return run
