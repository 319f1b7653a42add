"""Algorithms on a GPU by name, the counterpart of `engines.ALGORITHMS`: each finds labels, one query after another."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Lock

from ..kernels import relax
from ..kernels.device_dependency_graph import LevelScan
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
        scan, lock = LevelScan(columns, found.offset, found.cyclic, store.timetable.vertices), Lock()

    def run(task: Task) -> None:
        with lock, troubles():  # the labels on the device are those of one query
            for q in task.order:
                label = task.out[q]
                label[:] = NEVER
                label[task.sources[1][task.sources[0][q] : task.sources[0][q + 1]]] = task.leave[q]
                scan.search(label)

    return run


ALGORITHMS: dict[str, Callable[[Store], Kernel]] = {
    "esdg": _esdg,  # edge-scan-dependency graph
    **{name: partial(_relaxation, name) for name in (*relax.ALGORITHMS, *relax.VIRTUAL_WARPS)},
}
