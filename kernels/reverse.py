"""The document's way to the edges that reach a node: labels of a window's edges, and a reverse CSR built for it.

The label of an edge is its number among those of the window, in order of their places: `base[row] + place - low[row]`,
base the exclusive sum of the rows' lengths. `neighbours.incoming` needs neither.

Source: "DT-CSR: Dynamic Time CSR", its kernels 'label edges' and 'build reverse CSR', here in an order that is always
the same: by destination, then by label.
"""

from __future__ import annotations

import numpy as np

from ..storage.window import Window
from .jit import njit
from .neighbours import Neighbours


def labels(window: Window) -> tuple[np.ndarray, np.ndarray]:
    """Row and place (edge id), uint32[E] each, of each label of a window whose edges all count."""
    all_count(window)
    low, high = (one.astype(np.int64) for one in window.by_source)
    base = np.concatenate([[0], np.cumsum(high - low)])
    row, place = (np.empty(base[-1], np.uint32) for _ in range(2))
    _label(low, base, row, place)
    return row, place


def reversed_edges(window: Window) -> Neighbours:
    """The edges that reach each node, as `neighbours.incoming` has them, from the source-major store alone.

    O(edges of the window) a window. Raises `ValueError` for a window with a filter.
    """
    all_count(window)
    graph = window.graph
    row, place = labels(window)
    pos, source, ids = np.zeros(graph.nodes + 1, np.int64), np.empty_like(row), np.empty_like(row)
    _reverse(row, place, graph.by_source.column_indices, pos, source, ids)
    return Neighbours(pos[:-1], pos[1:], source, ids, graph.events)


def all_count(window: Window) -> None:
    if not window.whole:
        raise ValueError(
            "labels and a reverse CSR are those of windows whose edges all count; take neighbours.incoming"
        )


@njit
def _label(low, base, row, place):
    for r in range(low.size):
        for label in range(base[r], base[r + 1]):
            row[label] = r
            place[label] = low[r] + label - base[r]


@njit
def _reverse(row, place, columns, pos, source, ids):
    """A counting sort by destination, which keeps the order of labels. `pos` is 0 before."""
    for label in range(row.size):
        pos[columns[place[label]] + np.uint32(1)] += 1
    for r in range(1, pos.size):
        pos[r] += pos[r - 1]
    at = pos[:-1].copy()
    for label in range(row.size):
        destination = columns[place[label]]
        where = at[destination]
        source[where], ids[where] = row[label], place[label]
        at[destination] = where + 1
