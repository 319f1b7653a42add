"""Sums over the lanes of a warp, whose 32 lanes are threads of Python that exchange values in step."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from cases import MODULE, check
from cuda_cases import operands, schedules
from headway.kernels import warp
from headway.kernels.space import Kernel, device_runtime, runtime
from headway.kernels.space.integers import load_integers
from numba import cuda

LANES = {how: made for how, made in schedules() if how.startswith(("row to", "segments", "columns", "staged by"))}


class Warp:
    """What a warp knows: lanes of a mask wait for one another, then read each other's values."""

    def __init__(self) -> None:
        self.me = threading.local()
        self.slots: dict[int, Any] = {}
        self.lock = threading.Lock()
        self.barriers: dict[int, threading.Barrier] = {}
        self.atomic = SimpleNamespace(add=self.add)

        self.shared = SimpleNamespace(array=self.array)
        self.staged: dict[int, np.ndarray] = {}
        self.first = 0  # thread of the block that is lane 0
        self.blockIdx = self.gridDim = self.blockDim = SimpleNamespace(x=1)

    @property
    def threadIdx(self) -> Any:
        return SimpleNamespace(x=self.first + self.me.lane)

    def add(self, array: np.ndarray, at: Any, value: Any) -> None:
        with self.lock:
            array[at] += value

    def exchange(self, mask: int, value: Any, source: int) -> Any:
        mask, source = int(mask), int(source)
        with self.lock:
            barrier = self.barriers.setdefault(mask, threading.Barrier(mask.bit_count(), timeout=20))
        assert mask >> self.me.lane & 1
        self.slots[self.me.lane] = value
        barrier.wait()
        found = self.slots[source] if 0 <= source < 32 and mask >> source & 1 else 12_345  # anything
        barrier.wait()
        return found

    def shfl_up_sync(self, mask: int, value: Any, step: int) -> Any:
        return self.exchange(mask, value, self.me.lane - step)

    def shfl_down_sync(self, mask: int, value: Any, step: int) -> Any:
        return self.exchange(mask, value, self.me.lane + step)

    def shfl_xor_sync(self, mask: int, value: Any, step: int) -> Any:
        return self.exchange(mask, value, self.me.lane ^ step)

    def ballot_sync(self, mask: int, truth: bool) -> int:
        return sum(1 << lane for lane in range(32) if self.exchange(mask, bool(truth), lane))

    def ffs(self, bits: int) -> int:
        return (bits & -bits).bit_length()

    def grid(self, _: int) -> int:
        return self.blockIdx.x * self.blockDim.x + self.threadIdx.x

    def gridsize(self, _: int) -> int:
        return self.gridDim.x * self.blockDim.x

    def syncthreads(self) -> None:
        """Of a block that is one warp."""
        self.exchange(warp.ALL, 0, 0)

    def array(self, size: int, dtype: Any) -> np.ndarray:
        """In shared memory, of the one array that there is."""
        with self.lock:
            return self.staged.setdefault(self.blockIdx.x, np.empty(size, dtype))

    def run(self, lanes: int, work) -> None:
        def one(lane: int) -> None:
            self.me.lane = lane
            work(lane)

        threads = [threading.Thread(target=one, args=(lane,)) for lane in range(lanes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


@pytest.fixture
def lanes() -> Any:
    if warp.SIMULATED:
        pytest.skip("a warp is one thread here")
    found = Warp()
    with (
        patch.object(device_runtime, "cuda", found),
        patch.object(device_runtime, "lane_mask", device_runtime.lane_mask.py_func),
        patch.object(cuda, "device_array", np.empty),
    ):
        yield found


@pytest.mark.parametrize("width", [2, 4, 8, 16, 32])
def test_row_sums(lanes: Warp, width: int) -> None:
    found = np.zeros((2, 32), np.int64)

    def work(lane: int) -> None:
        found[0, lane] = device_runtime.row_add.py_func(lane * lane, width)
        found[1, lane] = device_runtime.row_min.py_func((lane * 7) % 32, width)

    lanes.run(32, work)
    squares, mixed = (np.array([f(lane) for lane in range(32)]) for f in (lambda n: n * n, lambda n: n * 7 % 32))
    assert np.array_equal(found[0], np.repeat(squares.reshape(-1, width).sum(axis=1), width))
    assert np.array_equal(found[1], np.repeat(mixed.reshape(-1, width).min(axis=1), width))


@pytest.mark.parametrize("count", [1, 2, 5, 31, 32])
@pytest.mark.parametrize("rows", [1, 2, 7, 40])
def test_segments(lanes: Warp, count: int, rows: int) -> None:
    rng = np.random.default_rng(count * rows)
    row, value = np.sort(rng.integers(0, rows, count)), rng.integers(1, 100, count)
    found, adds = np.zeros(rows, np.int64), []
    lanes.atomic.add = lambda array, at, value: (adds.append(at), lanes.add(array, at, value))
    lanes.run(count, lambda lane: device_runtime.segment_add.py_func(found, row[lane], row[lane], value[lane], count))
    assert np.array_equal(found, np.bincount(row, value, rows))
    assert sorted(adds) == sorted(set(row.tolist()))


@pytest.mark.parametrize("how", LANES)
def test_kernels(lanes: Warp, how: str) -> None:
    """Whole kernels, warp after warp, each with all its lanes."""

    def in_python(run: Kernel, dtype: np.dtype, wide: bool) -> Any:
        names = {name: getattr(runtime, name) for name in ("lower", "upper", "term")}
        ours = ("row_add", "segment_add", "lanes_of")
        names |= {name: getattr(device_runtime, name).py_func for name in ours} | {"LANES": run.lanes}
        zero = run.schedule.statement.semiring.zero(dtype)
        found = load_integers(run.source, wide, cuda=lanes, zero=zero, dtype=dtype, **names)
        lanes.staged.clear()

        class Launch:
            def __init__(self, function: Any) -> None:
                self.function = function

            def __getitem__(self, size: tuple[int, int]) -> Any:
                return lambda *arguments: self.launch(size, arguments)

            def launch(self, size: tuple[int, int], arguments: tuple) -> None:
                lanes.gridDim, lanes.blockDim = (SimpleNamespace(x=n) for n in size[:2])
                for block in range(size[0]):
                    lanes.blockIdx = SimpleNamespace(x=block)
                    for lanes.first in range(0, size[1], 32):
                        lanes.run(min(32, size[1] - lanes.first), lambda lane: self.function(*arguments))

        return {name: Launch(found[name]) for name in ("kernel", "starts") if name in found}

    given, shape = operands(LANES[how])
    with patch.object(MODULE, "compiled", in_python):
        check(LANES[how], given, shape)
