"""Graphs that change with time by lists and dictionaries, and what of a DT-CSR is compared with them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from headway.storage.dt_csr import DTCSR, NEVER
from headway.storage.window import Window

Row = tuple[int, int, int, float]  # source, destination, time, value
Edge = tuple[int, int, float]


def ticked(rows: Sequence[Row], starts: list[int]) -> list[list[Edge]]:
    """Events of each tick in order of time, stably; tick k begins at starts[k]."""
    found: list[list[Edge]] = [[] for _ in starts]
    for source, target, time, value in sorted(rows, key=lambda row: row[2]):
        tick = max(place for place, start in enumerate(starts) if start <= time)
        found[tick].append((source, target, value))
    return found


def merged(snapshots: list[list[Edge]], duplicates: str) -> list[list[Edge]]:
    """The same with duplicates of a pair in a tick as asked; edges by source, then destination."""
    found = []
    for edges in snapshots:
        if duplicates != "multi":
            by_pair: dict[tuple[int, int], float] = {}
            for source, target, value in edges:
                before = by_pair.get((source, target), 0.0) if duplicates == "sum" else 0.0
                by_pair[source, target] = before + value
            edges = [(*pair, value) for pair, value in by_pair.items()]
        found.append(sorted(edges, key=lambda edge: edge[:2]))
    return found


def window_edges(snapshots: list[list[Edge]], first: int, last: int, distinct: bool) -> list[Edge]:
    """Edges of a window by source, tick, destination."""
    events = [(s, tick, d, value) for tick in range(first, last + 1) for s, d, value in snapshots[tick]]
    events.sort(key=lambda event: event[:3])
    if distinct:
        latest = {(s, d): place for place, (s, _, d, _) in enumerate(events)}
        events = [events[place] for place in sorted(latest.values())]
    return [(s, d, value) for s, _, d, value in events]


def presences(changes: Sequence[tuple[int, int, int, float, bool]], starts: list[int]) -> list[list[Edge]]:
    """The edges that are there at the end of each tick, of (source, destination, time, value, insert)."""
    waiting = sorted(changes, key=lambda change: change[2])
    held: dict[tuple[int, int], float] = {}
    found = []
    for until in [*starts[1:], float("inf")][: len(starts)]:
        while waiting and waiting[0][2] < until:
            source, target, _, value, insert = waiting.pop(0)
            held.pop((source, target), None)
            if insert:
                held[source, target] = value
        found.append(sorted((*pair, value) for pair, value in held.items()))
    return found


def edges_of(window: Window) -> list[Edge]:
    """What a window says by source."""
    source, target, _ = window.edges()
    return list(zip(source.tolist(), target.tolist(), window.values().tolist(), strict=True))


def check_window(window: Window, expected: list[Edge]) -> None:
    """Edges, values, degrees, the matrix and the twin of a window are those expected; their order by source too."""
    graph, nodes = window.graph, window.graph.nodes
    assert edges_of(window) == expected
    assert window.out_degrees().tolist() == [sum(s == n for s, _, _ in expected) for n in range(nodes)]
    assert window.in_degrees().tolist() == [sum(d == n for _, d, _ in expected) for n in range(nodes)]
    dense = np.zeros((nodes, nodes))
    for source, target, value in expected:
        dense[source, target] += value
    assert (window.to_scipy().toarray() == dense).all()
    low, high = window.by_destination
    twin = []
    ticks = graph.by_source.event_ticks
    for row in range(nodes):
        places = np.arange(low[row], high[row], dtype=np.int64)
        ids = graph.perm[places]
        keep = window.kept(ids)
        keys = [
            (int(ticks[i]), int(graph.by_destination.column_indices[p]), int(i))
            for p, i in zip(places, ids, strict=True)
        ]
        assert keys == sorted(keys)
        for place, edge in zip(places[keep], ids[keep], strict=True):
            value = 1.0 if graph.values is None else float(graph.values[edge])
            twin.append((int(graph.by_destination.column_indices[place]), row, value))
    assert sorted(twin) == sorted(expected)


def check_arrays(graph: DTCSR) -> None:
    """The document's arrays: dtypes, shapes, sentinels, orders; perm and next by their meaning."""
    events = graph.events
    for side in (graph.by_source, graph.by_destination):
        entries = len(side.time_offset) - 1
        assert [held.dtype for held in (side.row_offset, side.time_offset, side.column_indices)] == [
            np.uint32,
            np.uint64,
            np.uint32,
        ]
        assert len(side.row_offset) == graph.nodes + 1
        assert len(side.column_indices) == events
        assert side.row_offset[0] == 0
        assert side.row_offset[-1] == entries
        assert int(side.time_offset[-1]) == NEVER << 32 | events
        words = [int(word) for word in side.time_offset]
        starts = [word & NEVER for word in words]
        assert starts == sorted(set(starts)) or events == 0
        for row in range(graph.nodes):
            ticks = [word >> 32 for word in words[side.row_offset[row] : side.row_offset[row + 1]]]
            assert ticks == sorted(set(ticks))
            assert all(tick < graph.ticks for tick in ticks)
        for begin, end in pairwise(starts):
            assert (np.diff(side.column_indices[begin:end].astype(np.int64)) >= 0).all()
    assert sorted(graph.perm.tolist()) == list(range(events))
    rows = np.repeat(np.arange(graph.nodes), np.diff(graph.by_source.row_offset))
    source = np.repeat(rows, np.diff(graph.by_source.starts.astype(np.int64)))
    ticks = graph.by_source.event_ticks
    seen: dict[tuple[int, int], int] = {}
    for i in reversed(range(events)):
        pair = int(source[i]), int(graph.by_source.column_indices[i])
        assert graph.next[i] == seen.get(pair, NEVER)
        seen[pair] = int(ticks[i])
