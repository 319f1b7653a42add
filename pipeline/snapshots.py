"""Snapshots dealt out to devices: runs of ticks that follow each other, and of the graph what each run needs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from dask.delayed import delayed

from ..cluster.dask import Workers
from ..storage.dt_csr import DTCSR, HALF, NEVER, Side
from ..storage.parts import Part

Run = tuple[int, int]
"""Ticks [first, last), at which snapshots end; none where both are the same."""


def window_edges(graph: DTCSR, length: int) -> np.ndarray:
    """Edges in the window of `length` ticks that ends at each tick, int64[T]; a pair counts as often as it occurs."""
    side = graph.by_source
    events = np.bincount(side.entry_ticks, np.diff(side.starts.astype(np.int64)), graph.ticks).astype(np.int64)
    begun = np.concatenate([[0], np.cumsum(events)])  # before tick t
    first = np.maximum(np.arange(graph.ticks) - (length - 1), 0)
    if graph.end is None:
        return begun[1:] - begun[first]
    over = np.cumsum(np.bincount(graph.end[graph.end != NEVER], minlength=graph.ticks))  # at tick t
    return begun[1:] - over[first]


def runs(sizes: np.ndarray, count: int, first: int = 0) -> list[Run]:
    """`count` runs of the snapshots that have these sizes [ticks], the first at tick `first`.

    Borders lie where the sums are nearest to equal ones: none is larger than its share and the largest snapshot.
    """
    if not np.any(sizes):
        sizes = np.ones(len(sizes))
    until = np.concatenate([[0], np.cumsum(sizes)])
    share = until[-1] * np.arange(1, count) / count
    after = np.minimum(np.searchsorted(until, share), len(until) - 1)
    before = np.maximum(after - 1, 0)
    borders = np.where(share - until[before] < until[after] - share, before, after) + first
    return list(zip([first, *borders.tolist()], [*borders.tolist(), first + len(sizes)], strict=True))


def part(graph: DTCSR, runs: Sequence[Run], length: int, ahead: int = 0) -> Part:
    """What snapshots of `length` ticks that end in these runs need, and the snapshots of `ahead` ticks after each."""
    held = np.zeros(graph.ticks + 1, np.int64)
    spans = [(max(first - length + 1, 0), min(last + ahead, graph.ticks)) for first, last in runs if first < last]
    for first, last in spans:
        held[first] += 1
        held[last] -= 1
    ticks = graph.by_source.event_ticks
    if graph.end is None:
        keep = (np.cumsum(held) > 0)[ticks]
    else:
        keep = np.zeros(graph.events, np.bool_)
        for first, last in spans:
            keep |= (ticks < last) & (graph.end > first)
    of_twin = keep[graph.perm]
    edges = np.flatnonzero(keep).astype(np.uint32)
    place = np.cumsum(keep, dtype=np.uint32) - np.uint32(1)
    end, values = (None if one is None else one[edges] for one in (graph.end, graph.values))
    found = DTCSR(
        _kept(graph.by_source, keep),
        _kept(graph.by_destination, of_twin),
        place[graph.perm[of_twin]],
        graph.next[edges],
        end,
        values,
        graph.times,
        graph.ids,
        graph.facts,
    )
    return Part(found, edges)


def cut(graph: DTCSR, runs_of: Sequence[Sequence[Run]], length: int, ahead: int, workers: Workers) -> list[Part]:
    """A part for each list of runs, made by Dask's workers. Raises as `Workers.compute` does."""
    whole = delayed(graph, traverse=False)
    return workers.compute([delayed(part)(whole, list(mine), length, ahead) for mine in runs_of])


def _kept(side: Side, keep: np.ndarray) -> Side:
    """Those of a side's events, bool[M]; entries without any are dropped."""
    starts = side.starts[:-1]
    count = np.add.reduceat(keep, starts, dtype=np.int64) if len(starts) else np.empty(0, np.int64)
    some = count > 0
    entries = np.concatenate([[0], np.cumsum(some)]).astype(np.uint32)
    begin = np.concatenate([[0], np.cumsum(count[some])]).astype(np.uint64)
    ticks = np.append(side.entry_ticks[some], np.uint32(NEVER)).astype(np.uint64)
    return Side(entries[side.row_offset], ticks << HALF | begin, side.column_indices[keep])
