"""Algorithms on a GPU by name, the counterpart of `engines.ALGORITHMS`: each finds labels, one query after another."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numba import cuda

from ..kernels import device_dependency_graph, relax
from ..kernels.levels import NEVER
from ..storage.store import Store
from .device_relaxation import DeviceRelaxation
from .engines import Kernel, Task
from .gpu import troubles
from .ordered import by_level


def _relaxation(algorithm: str, store: Store) -> Kernel:
    one = DeviceRelaxation(store, algorithm)

    def run(task: Task) -> None:
        one.search(task.order, task.sources, task.leave, task.out)

    return run


def _esdg(store: Store) -> Kernel:
    found = by_level(store)
    with troubles():
        columns = (found.tail, found.head, found.departure, found.arrival)
        connections = tuple(cuda.to_device(column) for column in columns)

    def run(task: Task) -> None:
        with troubles():
            for q in task.order:
                label = np.full(task.out.shape[1], NEVER, np.int32)
                label[task.sources[1][task.sources[0][q] : task.sources[0][q + 1]]] = task.leave[q]
                on_device = cuda.to_device(label)
                device_dependency_graph.scan(connections, found.offset, found.cyclic, on_device)
                task.out[q] = on_device.copy_to_host()

    return run


ALGORITHMS: dict[str, Callable[[Store], Kernel]] = {
    "esdg": _esdg,  # edge-scan-dependency graph
    **{name: partial(_relaxation, name) for name in (*relax.ALGORITHMS, *relax.VIRTUAL_WARPS)},
}
