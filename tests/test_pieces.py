"""How long the sub-trips of a trip are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from headway.pipeline.graph import _pieces
from headway.pipeline.partition import TripPart

ROWS = [0, 1, 2, 3, 5, 7, 14, 31, 57, 200]
RUNS = [1, 2, 1, 3, 1, 9, 1, 2, 4, 1]


@pytest.mark.parametrize("scheme", ["sqrt-trip", "sqrt-mean"])
@pytest.mark.filterwarnings("error")
def test_pieces(scheme: str) -> None:
    """The root of the hops, a trip's own or the mean over runs; trips without a hop give no warning."""
    hops = [max(0, rows - 1) for rows in ROWS]
    mean = sum(k * runs for k, runs in zip(hops, RUNS, strict=True)) / sum(RUNS)
    nothing = np.empty(0, np.int32)
    offset, run_offset = np.cumsum([0, *ROWS]), np.cumsum([0, *RUNS])
    trips = TripPart(offset, nothing, nothing, nothing, nothing, run_offset, nothing)
    expected = [max(2, round(math.sqrt(k if scheme == "sqrt-trip" else mean))) for k in hops]
    assert _pieces(trips, scheme, mean).tolist() == expected
