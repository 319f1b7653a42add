"""Aggregation on a GPU with small operands: `test_aggregate_cuda.py` compiles it, the simulator runs it."""

from __future__ import annotations

from typing import Any

import numpy as np
from dynamic_graphs import graph_of
from headway.kernels.neighbours import Arrays, Neighbours, incoming, outgoing
from headway.pipeline.dynamic_graph import DTCSR
from headway.storage.window import Window

COLUMNS = (1, 8, 33, 70)


def graph(seed: int = 0) -> DTCSR:
    """Hubs, duplicates, self loops, idle nodes."""
    rng = np.random.default_rng(seed)
    rows = [(int(u) % 3 if u % 2 else int(u), int(v), int(t)) for u, v, t in rng.integers(0, (9, 7, 4), (120, 3))]
    return graph_of(rows, 12)


def window(distinct: bool) -> Window:
    return graph().window(1, 3, distinct=distinct)


def sides(found: Window, arrays: Arrays) -> tuple[Neighbours, Neighbours]:
    return incoming(found, arrays), outgoing(found, arrays)


def numbers(*shape: int) -> Any:
    """Whole numbers as float32."""
    return np.random.default_rng(sum(shape)).integers(-9, 9, shape).astype(np.float32)
