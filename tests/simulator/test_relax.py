"""The paper's algorithms in the CUDA simulator, round by round, against the connection scan."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import NEVER, connections_store
from headway.kernels import relax
from headway.kernels.hierarchy import hierarchy
from headway.kernels.space import kernel
from headway.pipeline.engines import Arrivals

SCHEDULES = {
    **{name: (make(True), kind) for name, (kind, make) in relax.ALGORITHMS.items()},
    "virtual warp": (relax.virtual_warp(4), "clusters"),
}


@pytest.mark.parametrize("how", SCHEDULES)
def test_rounds(how: str) -> None:
    made, kind = SCHEDULES[how]
    rng = np.random.default_rng(3)
    rows = [(*rng.integers(0, 8, 2).tolist(), int(t), int(d)) for t, d in rng.integers(0, (9000, 900), (80, 2))]
    store = connections_store([*rows, (0, 1, 500, 0), (1, 0, 500, 0)], 8)
    operands = hierarchy(store.cluster_ap, store.connections, kind) | {"width": store.cluster_ap.width}
    wanted = {*made.statement.operands, *made.statement.scalars}
    operands = {name: one for name, one in operands.items() if name in wanted}
    for source, leave in ((0, 0), (1, 500), (3, 4000)):
        labels, active = np.full(8, NEVER, np.int32), np.zeros(8, bool)
        labels[source], active[source] = leave, True
        while active.any():
            before = labels.copy()
            kernel(made)(out=labels, active=active, **operands)
            active = labels < before
        one = np.arange(2), np.array([source], np.uint32)
        assert np.array_equal(labels, Arrivals(store, "connection-scan")(one, np.array([leave], np.int32))[0])
