"""Algorithms on a GPU, one query after another: labels of every vertex, as the engines of a CPU find them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any, Literal

import numpy as np
from numba import cuda

from ..kernels import device_dependency_graph, relax, warp
from ..kernels.grid import LATEST
from ..kernels.hierarchy import hierarchy, walking
from ..kernels.levels import NEVER
from ..kernels.space.rounds import Prepared, Rounds
from ..kernels.space.tensors import Tensor
from ..storage.store import Store
from .engines import Kernel, Rows, Task
from .gpu import troubles
from .ordered import by_level

TOLD = 4  # words in which a grid tells how far it is


class DeviceRelaxation:
    """The paper's algorithms in rounds; a round relaxes what leaves the vertices whose labels fell in the one before.

    `sync` tells who finds that no label falls any more: "device", in one launch a query with a barrier of the grid
    after each round; or the host, which launches every round and reads back after each `sync` of them (the paper's
    policies: 1, or the square root of the temporal diameter). Raises `HeadwayError` where the GPU fails.
    """

    def __init__(self, store: Store, algorithm: str, sync: Literal["device"] | int = "device") -> None:
        self._sync, self._lock = sync, Lock()
        found, vertices = (relax.ALGORITHMS | relax.VIRTUAL_WARPS)[algorithm], store.timetable.vertices
        given: dict[str, Any] = hierarchy(store.cluster_ap, store.connections, found.kind, found.listed)
        entries = len(given["S"].arrays[0]["crd"])
        block = max(found.lanes, block_size(max(entries * found.lanes, vertices)))
        schedules = [found.make(block)]
        if len(store.timetable.footpaths.to):
            schedules.append(relax.footpath(block))
            given["F"] = walking(store.timetable.footpaths)
        rounds = Rounds(*schedules, active="active")
        # What a query starts from, and what it leaves: active and nextactive, what the grid tells, labels.
        start = np.zeros(3 * vertices + TOLD, np.int32)
        start[2 * vertices + TOLD :] = NEVER
        self._start = start
        with troubles():
            self._host = _pinned(start)
            self._device = device = self._host if warp.SIMULATED else cuda.to_device(start)
            self._left = device[2 * vertices :]
            self._told = self._left[:TOLD]
            marks = device[: 2 * vertices].reshape(2, vertices)
            operands = _to_device(given) | {"width": store.cluster_ap.width}
            self._rounds: Prepared = rounds.prepared(self._left[TOLD:], marks, self._told, **operands)

    def search(self, order: np.ndarray, sources: Rows, leave: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Earliest arrivals of the queries `order` into `out` int32[queries, vertices]; see `engines.Task`.

        Returns how many rounds each query took, int32[queries].
        """
        taken, vertices = np.zeros(len(leave), np.int32), out.shape[1]
        left = self._host[2 * vertices :]
        marks, told, labels = self._host[vertices : 2 * vertices], left[:TOLD], left[TOLD:]
        with self._lock, troubles():  # the arrays on the device are those of one query
            for q in order:
                at = sources[1][sources[0][q] : sources[0][q + 1]]
                self._host[:] = self._start
                marks[at], labels[at] = 1, leave[q]
                if not warp.SIMULATED:
                    self._device.copy_to_device(self._host)
                taken[q] = self._until_stable(told)
                _fetch(self._left, left)
                out[q] = labels
                if self._sync == "device":
                    taken[q] = told[LATEST]
        return taken

    def _until_stable(self, told: np.ndarray) -> int:
        """All rounds; how many, if the host counts them."""
        if self._sync == "device":
            self._rounds.to_fixed_point()
            return 0
        turn = told[LATEST] = 0
        while told[LATEST] == turn:  # a label fell in the last round
            for turn in range(turn + 1, turn + 1 + self._sync):
                self._rounds.once(turn)
            _fetch(self._told, told)
        return turn


def block_size(threads: int) -> int:
    """Threads of a block for so many positions: a block to each multiprocessor if they fit, so that few meet at a barrier."""
    if warp.SIMULATED:
        return 8
    each = -(-threads // cuda.get_current_device().MULTIPROCESSOR_COUNT)
    return -(-max(each, 1) // warp.WIDTH) * warp.WIDTH if each <= 1024 else 512


def _pinned(array: np.ndarray) -> np.ndarray:
    """A copy that a GPU reads and writes directly; in the simulator the host's memory is the device's."""
    found = np.empty_like(array) if warp.SIMULATED else cuda.pinned_array(array.shape, array.dtype)
    found[:] = array
    return found


def _fetch(device: Any, host: np.ndarray) -> None:
    """Copy to the host when all that was launched is done."""
    if not warp.SIMULATED:
        device.copy_to_host(host)


def _to_device(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copies on the GPU; what tensors share stays shared."""
    copies: dict[int, Any] = {}

    def copy(array: Any) -> Any:
        if array is None or isinstance(array, int):
            return array
        if id(array) not in copies:
            copies[id(array)] = array if warp.SIMULATED else cuda.to_device(array)
        return copies[id(array)]

    return {
        name: Tensor(
            one.format,
            one.shape,
            tuple({part: copy(array) for part, array in level.items()} for level in one.arrays),
            copy(one.values),
            checked=False,
        )
        for name, one in tensors.items()
    }


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
                on_device.copy_to_host(task.out[q])

    return run


ALGORITHMS: dict[str, Callable[[Store], Kernel]] = {
    "esdg": _esdg,  # edge-scan-dependency graph
    **{name: partial(_relaxation, name) for name in (*relax.ALGORITHMS, *relax.VIRTUAL_WARPS)},
}
