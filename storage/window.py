"""A window of ticks: for each row one slice of its events, and what of it counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from .dt_csr import DTCSR

Bounds = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Window:
    """Ticks `first` to `last`, both included; none where first > last.

    Row r's candidates are column_indices[lo[r] : hi[r]] of a side, with `by_source` and `by_destination` (lo, hi),
    uint32[N] each. Where `whole`, all of them count; otherwise edge id i counts iff (not distinct or next[i] > last)
    and (the graph has no `end`, or end[i] > first): of equal pairs the last.
    """

    graph: DTCSR
    first: int
    last: int
    distinct: bool
    by_source: Bounds
    by_destination: Bounds

    @property
    def whole(self) -> bool:
        """Whether every candidate counts, so that degrees are differences of offsets."""
        return not self.distinct and self.graph.end is None

    def kept(self, ids: np.ndarray) -> np.ndarray:
        """Which of these edge ids count, bool."""
        keep = np.ones(len(ids), np.bool_)
        if self.distinct:
            keep &= self.graph.next[ids].astype(np.int64) > self.last
        if self.graph.end is not None:
            keep &= self.graph.end[ids] > self.first
        return keep

    def out_degrees(self) -> np.ndarray:
        """Edges that leave each node, int64[N]."""
        return self._degrees(self.by_source, None)

    def in_degrees(self) -> np.ndarray:
        """Edges that reach each node, int64[N]."""
        return self._degrees(self.by_destination, self.graph.perm)

    def _degrees(self, bounds: Bounds, perm: np.ndarray | None) -> np.ndarray:
        if self.whole:
            return bounds[1].astype(np.int64) - bounds[0]
        rows, positions = _expanded(bounds)
        keep = self.kept(positions if perm is None else perm[positions])
        return np.bincount(rows[keep], minlength=self.graph.nodes)

    def edges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Source, destination and edge id, uint32[E] each, by source, tick and destination."""
        rows, ids = _expanded(self.by_source)
        if not self.whole:
            keep = self.kept(ids)
            rows, ids = rows[keep], ids[keep]
        return rows.astype(np.uint32), self.graph.by_source.column_indices[ids], ids.astype(np.uint32)

    def values(self) -> np.ndarray:
        """Values of `edges()`, float32 or float64[E]; ones where the graph has none."""
        ids = self.edges()[2]
        return np.ones(len(ids), np.float32) if self.graph.values is None else self.graph.values[ids]

    def to_scipy(self) -> csr_array:
        """A SciPy matrix [N, N] with the value of u -> v in row u, column v; equal pairs are entries of their own."""
        from scipy.sparse import csr_array

        rows, columns, ids = self.edges()
        offset = np.zeros(self.graph.nodes + 1, np.int32 if len(ids) < 2**31 else np.int64)
        np.cumsum(np.bincount(rows, minlength=self.graph.nodes), out=offset[1:])
        shape = (self.graph.nodes, self.graph.nodes)
        return csr_array((self.values(), columns.astype(offset.dtype), offset), shape=shape)


def _expanded(bounds: Bounds) -> tuple[np.ndarray, np.ndarray]:
    """Row and position of each candidate, int64."""
    low, size = bounds[0].astype(np.int64), bounds[1].astype(np.int64) - bounds[0]
    rows = np.repeat(np.arange(len(low)), size)
    return rows, np.arange(len(rows)) + np.repeat(low - np.cumsum(size) + size, size)
