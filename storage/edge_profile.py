"""Per edge the Pareto list of (departure, arrival), laid out by time slot, then edge.

One query reads one slot's few megabytes at a time. A group (slot, edge) holds the edge's departures of that
slot that no later departure beats, in order, and ends with the edge's next later one, or with all bits set.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class EdgeProfile:
    """slot     seconds of a slot
    index    int64 or uint32[slots * edges + 1]: group (s, e) is word[index[s * edges + e] : index[... + 1]]
    word     uint32 or uint64: departure << shift | duration, as narrow as the store's maxima allow
    shift    bits of the duration
    least    int32[edges]: the edge's least duration
    """

    slot: int
    shift: int
    index: np.ndarray
    word: np.ndarray
    least: np.ndarray

    @property
    def slots(self) -> int:
        """How many slots there are; at or after their end no edge departs."""
        return (len(self.index) - 1) // len(self.least) if len(self.least) else 0
