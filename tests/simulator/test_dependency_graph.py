"""The edge-scan-dependency graph in the CUDA simulator: `test_simulator.py` runs this file."""

from __future__ import annotations

import numpy as np
from conftest import connections_store
from headway.pipeline.ordered import by_level
from kernel_checks import assert_levels_equal_to_scan, random_queries


def test_equals_connection_scan() -> None:
    """Also where a level is relaxed again: a cycle of no duration, in the worst order."""
    rng = np.random.default_rng(1)
    rows = np.column_stack([rng.integers(0, 12, (60, 2)), rng.integers(0, 300, 60), rng.integers(0, 60, 60)]).tolist()
    store = connections_store(rows + [(k + 1, k, 150, 0) for k in range(5)] + [(0, 5, 150, 0)], 12)
    assert by_level(store).cyclic.any()
    assert_levels_equal_to_scan(store, random_queries(store, 8, 1))
