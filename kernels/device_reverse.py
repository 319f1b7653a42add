"""Labels of a window's edges and its reverse CSR on a GPU: `reverse` says what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from ..storage.window import Window
from .neighbours import Arrays, Neighbours, to_device
from .reverse import all_count
from .warp import jit

THREADS = 128
BLOCKS = 2**14  # beside each other at most
STRIDES = 64  # blocks that share a row at most


@jit
def rows(low, base, row, place):
    """A thread for each row."""
    for r in range(cuda.grid(1), low.size, cuda.gridsize(1)):
        for label in range(base[r], base[r + 1]):
            row[label] = r
            place[label] = low[r] + label - base[r]


@jit
def grid(low, base, row, place):
    """x over rows, y striding over the edges of one."""
    for r in range(cuda.blockIdx.x, low.size, cuda.gridDim.x):
        begin = base[r] + cuda.blockIdx.y * cuda.blockDim.x + cuda.threadIdx.x
        for label in range(begin, base[r + 1], cuda.gridDim.y * cuda.blockDim.x):
            row[label] = r
            place[label] = low[r] + label - base[r]


def device_labels(window: Window, two_dimensional: bool = True) -> tuple[Any, Any]:
    """`reverse.labels` in the memory of the current GPU, by a grid of two dimensions or one."""
    all_count(window)
    low, high = (one.astype(np.int64) for one in window.by_source)
    base = np.concatenate([[0], np.cumsum(high - low)])
    row, place = (cuda.device_array(int(base[-1]), np.uint32) for _ in range(2))
    if not base[-1]:
        return row, place
    given = to_device(low), to_device(base), row, place
    launched: Any = grid if two_dimensional else rows
    blocks: Any = min(-(-len(low) // THREADS), BLOCKS)
    if two_dimensional:
        longest = int((high - low).max())
        blocks = min(len(low), BLOCKS), min(-(-longest // THREADS), STRIDES)
    launched[blocks, THREADS](*given)
    return row, place


def device_reversed_edges(window: Window, arrays: Arrays) -> Neighbours:
    """`reversed_edges` on the current GPU, by CuPy's stable sort; `arrays` lie there."""
    import cupy  # pyright: ignore[reportMissingImports]

    row, place = (cupy.asarray(one) for one in device_labels(window))
    destination = cupy.asarray(arrays.destinations)[place]
    order = cupy.argsort(destination, kind="stable")
    count = cupy.asnumpy(cupy.bincount(destination, minlength=window.graph.nodes)).astype(np.int64)
    pos = np.concatenate([[0], np.cumsum(count)])
    return Neighbours(pos[:-1], pos[1:], row[order], place[order], window.graph.events, cuda=True)
