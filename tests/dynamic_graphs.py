"""Small graphs that change with time, and what NumPy makes of their windows edge by edge."""

from __future__ import annotations

import numpy as np
from headway.pipeline.dynamic_graph import DTCSR
from headway.storage.window import Window
from hypothesis import strategies as st


def graph_of(events: list[tuple[int, int, int]], nodes: int, values: bool = False) -> DTCSR:
    """Events (source, destination, tick); values 1, 2, ... in their order."""
    src, dst, time = (np.array([event[n] for event in events], np.int64) for n in range(3))
    columns = {"src": src, "dst": dst, "time": time}
    if values:
        columns["value"] = np.arange(1.0, len(events) + 1)
    return DTCSR.from_events(columns, nodes=nodes, dtype=np.float64, width=1, start=0)


@st.composite
def graphs(draw: st.DrawFn, most: int = 40) -> DTCSR:
    """Few nodes and ticks, so that pairs repeat, in a tick and over ticks; self loops and idle nodes too."""
    nodes = draw(st.integers(1, 7))
    node = st.integers(0, nodes - 1)
    events = draw(st.lists(st.tuples(node, node, st.integers(0, 4)), min_size=1, max_size=most))
    return graph_of(events, nodes)


@st.composite
def changing(draw: st.DrawFn) -> DTCSR:
    """Insertions and deletions."""
    nodes = draw(st.integers(1, 5))
    node = st.integers(0, nodes - 1)
    rows = draw(
        st.lists(st.tuples(node, node, st.integers(0, 4), st.sampled_from([1, 1, -1])), min_size=1, max_size=30)
    )
    src, dst, time, op = (np.array([row[n] for row in rows]) for n in range(4))
    return DTCSR.from_events({"src": src, "dst": dst, "time": time, "op": op}, op="op", nodes=nodes, width=1, start=0)


@st.composite
def windows(draw: st.DrawFn) -> Window:
    """Multisets, sets, and what insertions and deletions leave."""
    graph = draw(st.one_of(graphs(), changing()))
    first = draw(st.integers(0, graph.ticks - 1))
    return graph.window(first, draw(st.integers(first, graph.ticks - 1)), distinct=draw(st.booleans()))


def summed(window: Window, features: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Sums over the edges that reach each node, one edge at a time."""
    out = np.zeros_like(features)
    for source, destination, edge in zip(*window.edges(), strict=True):
        out[destination] += features[source] * (1 if weights is None else weights[edge])
    return out
