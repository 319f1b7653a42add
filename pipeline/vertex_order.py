"""Numbers of vertices: what is joined by connections and footpaths lies close together."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from ..cluster.devices import cuda_device
from ..storage.timetable import Footpaths, Places

CUGRAPH_PAYS = 2**25  # entries: of fewer, SciPy has counted before cuGraph is imported (benchmarks/components.py)


def distinct_pairs(tail: np.ndarray, head: np.ndarray) -> np.ndarray:
    """Each pair of neighbours once, whichever leads to which: the lesser << 32 | the greater, int64, ascending."""
    return np.unique(_packed(tail, head))


def _packed(tail: np.ndarray, head: np.ndarray) -> np.ndarray:
    lesser, greater = np.minimum(tail, head), np.maximum(tail, head)
    return lesser.astype(np.int64) << 32 | greater.astype(np.int64)


def order(footpaths: Footpaths, pairs: list[np.ndarray], gpu: bool = False) -> tuple[np.ndarray, int]:
    """New number of each vertex, uint32[vertices], by reverse Cuthill-McKee; connected components.

    `pairs` as of `distinct_pairs`, of any parts of the network. `gpu` as for `components`.
    """
    n = len(footpaths.offset) - 1
    walkers = np.repeat(np.arange(n, dtype=np.uint32), np.diff(footpaths.offset))
    # NumPy's `unique` hashes integers, which takes ten times as long as merging these ascending runs.
    both = np.sort(np.concatenate([*pairs, _packed(walkers, footpaths.to)]), kind="stable")
    both = np.concatenate([both[:1], both[1:][both[1:] != both[:-1]]])
    u, v = (both >> 32).astype(np.int32), both.astype(np.int32)  # of the second, the lower half
    half = coo_array((np.ones(len(both), np.int8), (u, v)), shape=(n, n)).tocsr()
    graph = half + half.T.tocsr()
    number = np.empty(n, np.uint32)
    number[reverse_cuthill_mckee(graph, symmetric_mode=True)] = np.arange(n, dtype=np.uint32)
    return number, components(graph, gpu)


def components(graph: csr_array, gpu: bool = False) -> int:
    """How many connected components a symmetric graph has, by cuGraph where this process has a GPU, it is asked for and
    the graph is large, else by SciPy; a count is the same."""
    large = CUGRAPH_PAYS <= graph.nnz < 2**31  # cuGraph takes offsets of 32 bits
    if gpu and large and importlib.util.find_spec("pylibcugraph") and cuda_device().name:
        from . import device_components

        return device_components.components(graph)
    return int(connected_components(graph, directed=False, return_labels=False))


def renumber(places: Places, walks: Footpaths, number: np.ndarray) -> tuple[Places, Footpaths]:
    """Both with a new number (uint32) for each vertex."""
    tail = np.repeat(number, np.diff(walks.offset))
    head = number[walks.to]
    by_ends = np.argsort(tail.astype(np.int64) << 32 | head, kind="stable")
    offset = np.searchsorted(tail[by_ends], np.arange(len(number) + 1))
    walks = Footpaths(offset.astype(np.int64), head[by_ends], walks.seconds[by_ends])
    return replace(places, vertex=number[places.vertex]), walks
