"""The paper's algorithms on a GPU: rounds of a relaxation until no label falls, one query after another."""

from __future__ import annotations

from functools import cached_property
from threading import Lock
from typing import Any, Literal

import numpy as np
from numba import cuda

from ..kernels import relax, warp
from ..kernels.grid import LATEST, TOLD
from ..kernels.hierarchy import fitting, hierarchy, walking
from ..kernels.levels import NEVER
from ..kernels.recorded import Recorded
from ..kernels.space.rounds import rounds
from ..kernels.space.tensors import Tensor
from ..storage.store import Store
from .engines import Rows
from .gpu import troubles


class DeviceRelaxation:
    """A round relaxes what leaves the vertices whose labels fell in the one before (the paper's active, nextactive).

    `sync` is who finds that no label falls any more: "device", in one launch a query with a barrier of the grid
    after each round; or the host, which launches every round and reads back after each `sync` of them (the paper's
    policies: 1, or the square root of the temporal diameter). Calls may be made from many threads at once and wait
    for each other. Raises `HeadwayError` where the GPU fails.
    """

    def __init__(self, store: Store, algorithm: str, sync: Literal["device"] | int = "device") -> None:
        if sync != "device" and sync < 1:
            raise ValueError(f"sync is 'device' or a number of rounds, not {sync}")
        self._every = None if sync == "device" else sync
        found, vertices = (relax.ALGORITHMS | relax.VIRTUAL_WARPS)[algorithm], store.timetable.vertices
        kind = fitting(store.cluster_ap, found.kind)
        given = hierarchy(store.cluster_ap, store.connections, kind, found.listed)
        entries = len(given["S"].arrays[0]["crd"])
        block = max(found.lanes, block_size(max(entries * found.lanes, vertices)))
        schedules = [found.make(block, kind)]
        if len(store.timetable.footpaths.to):
            schedules.append(relax.footpath(block))
            given["F"] = walking(store.timetable.footpaths)
        # What a query starts from, and what it leaves: vertices active now and next, what the grid tells, labels.
        told, labels = slice(2 * vertices, 2 * vertices + TOLD), slice(2 * vertices + TOLD, None)
        start = np.zeros(3 * vertices + TOLD, np.int32)
        start[labels] = NEVER
        self._lock = Lock()  # the arrays are those of one query
        with troubles():
            self._stream: Any = 0 if warp.SIMULATED else cuda.stream()
            self._start, self._end, self._device = _pinned(start), _pinned(start), _copy(start)
            self._told, self._labels = (self._device[told], self._end[told]), (self._device[labels], self._end[labels])
            self._left = self._device[2 * vertices :], self._end[2 * vertices :]
            self._first = self._start[vertices : 2 * vertices], self._start[labels]  # marks of the first round
            operands = _to_device(given) | {"width": store.cluster_ap.width}
            self._rounds = rounds(*schedules, active="active").prepared(
                self._labels[0],
                self._device[: 2 * vertices].reshape(2, vertices),
                self._told[0],
                self._stream,
                **operands,
            )

    def search(self, order: np.ndarray, sources: Rows, leave: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Earliest arrivals of the queries `order` into `out` int32[queries, vertices]; see `engines.Task`.

        Returns how many rounds each query took, int32[queries].
        """
        taken, (marks, labels) = np.zeros(len(leave), np.int32), self._first
        with self._lock, troubles():
            for q in order:
                at = sources[1][sources[0][q] : sources[0][q + 1]]
                marks[at], labels[at] = 1, leave[q]
                try:
                    taken[q] = self._until_stable() if self._every is None else self._reading_back(self._every)
                finally:  # also when interrupted
                    marks[at], labels[at] = 0, NEVER
                out[q] = self._labels[1]
        return taken

    def _until_stable(self) -> int:
        """All rounds, and the labels on the host; how many rounds there were."""
        if warp.SIMULATED:
            self._whole(self._stream)
        else:
            self._recorded.launch(self._stream)
            self._stream.synchronize()
        return self._told[1][LATEST]

    @cached_property
    def _recorded(self) -> Recorded:
        """A query from host to host: its parts take longer to launch than to run."""
        self._whole(self._stream)  # compiled
        return Recorded([self._whole])

    def _whole(self, stream: Any) -> None:
        _send(self._start, self._device, stream)
        self._rounds.to_fixed_point(stream)
        _fetch(*self._left, stream)

    def _reading_back(self, every: int) -> int:
        """The same, asking after so many rounds."""
        told = self._told[1]
        _send(self._start, self._device, self._stream)
        turn = told[LATEST] = 0
        while told[LATEST] == turn:  # a label fell in the last round
            for _ in range(every):
                turn += 1
                self._rounds.once(turn)
            self._wait_for(*self._told)
        self._wait_for(*self._labels)
        return turn

    def _wait_for(self, part: Any, host: np.ndarray) -> None:
        _fetch(part, host, self._stream)
        if not warp.SIMULATED:
            self._stream.synchronize()


def _send(host: np.ndarray, part: Any, stream: Any) -> None:
    if warp.SIMULATED:
        part[:] = host
    else:
        part.copy_to_device(host, stream=stream)


def _fetch(part: Any, host: np.ndarray, stream: Any) -> None:
    if warp.SIMULATED:
        host[:] = part
    else:
        part.copy_to_host(host, stream=stream)


def block_size(threads: int) -> int:
    """Threads of a block where so many are wanted.

    A block to each multiprocessor if that is enough, so that each thread has one position and few blocks meet at a
    barrier.
    """
    if warp.SIMULATED:
        return 8
    each = -(-threads // cuda.get_current_device().MULTIPROCESSOR_COUNT)
    return -(-max(each, 1) // warp.WIDTH) * warp.WIDTH if each <= 1024 else 512


def _pinned(array: np.ndarray) -> np.ndarray:
    """A copy that a GPU reads and writes directly."""
    found = np.empty_like(array) if warp.SIMULATED else cuda.pinned_array(array.shape, array.dtype)
    found[:] = array
    return found


def _copy(array: np.ndarray) -> Any:
    """A copy on the GPU; the simulator's memory is the host's."""
    return array.copy() if warp.SIMULATED else cuda.to_device(array)


def _to_device(tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Copies on the GPU; what tensors share stays shared."""
    copies: dict[int, Any] = {}

    def copy(array: Any) -> Any:
        if array is None or isinstance(array, int):
            return array
        if id(array) not in copies:
            copies[id(array)] = _copy(array)
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
