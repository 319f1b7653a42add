"""Generated kernels in the CUDA simulator, where a warp is one thread: `test_simulator.py` runs this file."""

from __future__ import annotations

import numpy as np
import pytest
from cases import check
from conftest import NEVER, connections_store
from cuda_cases import operands, schedules
from headway.kernels.space import Tensor, interpret, kernel
from relaxation import CUDA, RELAX, WINDOWED, WINDOWED_CUDA, WINDOWS, of_cluster_ap

SCHEDULES = dict(schedules())


@pytest.mark.parametrize("how", SCHEDULES)
def test_schedules(how: str) -> None:
    given, shape = operands(SCHEDULES[how])
    check(SCHEDULES[how], given, shape)


@pytest.mark.parametrize("how", CUDA)
def test_earliest_arrival(how: str) -> None:
    """One round from vertices that nothing in the same round reaches."""
    rng = np.random.default_rng(1)
    rows = [(int(u), 5 + int(v), int(t), 300) for u, v, t in rng.integers(0, (5, 5, 7200), (60, 3))]
    store = of_cluster_ap(connections_store(rows, 10).cluster_ap)
    labels = np.full(10, NEVER, np.int32)
    labels[:5] = 1800
    given = {"S": store, "active": labels < NEVER, "width": 3600}
    expected = interpret(RELAX.statement, labels, arrival=labels, **given)
    assert np.array_equal(kernel(CUDA[how])(out=labels.copy(), **given), expected)


@pytest.mark.parametrize("how", WINDOWED_CUDA)
def test_windowed_sum(how: str) -> None:
    rng = np.random.default_rng(2)
    events = (rng.random((11, 9, 7)) < 0.3) * rng.integers(1, 9, (11, 9, 7)).astype(float)
    at = np.nonzero(events)
    given = {
        "A": Tensor.from_coordinates(at, events[at], events.shape, WINDOWS),
        "X": np.ones((7, 4)),
        "t0": 2,
        "t1": 5,
    }
    expected = interpret(WINDOWED.statement, np.ones((11, 4)), **given)
    assert np.array_equal(kernel(WINDOWED_CUDA[how])(out=np.ones((11, 4)), **given), expected)
