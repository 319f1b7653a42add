"""Which ticks are learned from, in which segments, and which of them each of several workers has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...storage.dt_csr import DTCSR
from ..snapshots import Run, runs, window_edges

TEST = 0.2  # of the ticks, the last ones


def first_held_out(ticks: int) -> int:
    """The first tick that is only predicted, of a graph of at least 3; the ticks before are learned from."""
    count = ticks - 1
    return 1 + max(1, min(count - 1, round(count * (1 - TEST))))


@dataclass(frozen=True)
class Plan:
    """Of each segment a run of ticks for each worker, of about equal edges, and of the nodes a share for each.

    segments  ticks [first, last) of each; gradients do not go from one to another
    learned   ticks below are learned from, the others only predicted; no segment has both
    ticks     by segment and worker
    nodes     by worker
    """

    segments: list[Run]
    learned: int
    ticks: list[list[Run]]
    nodes: list[Run]

    @classmethod
    def of(cls, graph: DTCSR, length: int, truncated: int, workers: int) -> Plan:
        """For windows of `length` ticks and segments of `truncated`."""
        learned, sizes = first_held_out(graph.ticks) - 1, window_edges(graph, length)
        segments = [
            (first, min(first + truncated, end))
            for begin, end in ((0, learned), (learned, graph.ticks - 1))
            for first in range(begin, end, truncated)
        ]
        ticks = [runs(sizes[first:last], workers, first) for first, last in segments]
        return cls(segments, learned, ticks, runs(np.ones(graph.nodes), workers))

    def of_worker(self, number: int) -> list[Run]:
        """Its runs, one a segment."""
        return [each[number] for each in self.ticks]
