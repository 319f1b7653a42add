"""Edge-scan-dependency graph on a GPU: a launch a level, a thread a connection."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, uint32, uint64

from . import warp

THREADS = 4 if warp.SIMULATED else 256


@cuda.jit
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


def scan(connections: tuple[Any, ...], offset: np.ndarray, cyclic: np.ndarray, label: Any) -> None:
    """Lower the labels (int32[vertices], the sources' set) to earliest arrivals.

    `connections` (tail, head uint32, departure, arrival int32) and `label` are on the device, `offset` int64[levels +
    1] and `cyclic` bool[levels] are not: the host reads back only whether a level with a cycle is stable.
    """
    lowered = cuda.to_device(np.zeros(1, np.int32))
    launch: Any = relax  # launching is by subscript, which type checkers don't know of CUDA kernels
    for level, again in enumerate(cyclic.tolist()):
        first, count = int(offset[level]), int(offset[level + 1] - offset[level])
        on_grid = launch[-(-count // THREADS), THREADS]
        on_grid(np.uint64(first), np.uint32(count), *connections, label, lowered)
        while again and lowered.copy_to_host()[0]:
            lowered.copy_to_device(np.zeros(1, np.int32))
            on_grid(np.uint64(first), np.uint32(count), *connections, label, lowered)
