"""Launches of a CUDA kernel: what comes before it, on which grid, and all of them again as one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import cuda

from .. import warp
from ..recorded import Recorded, Step
from . import device_runtime
from .arguments import starts_of
from .levels import on_device

if TYPE_CHECKING:
    from .kernel import Kernel

THREADS = 256
BLOCKS = 2**31 - 1


def launches(
    run: Kernel, functions: dict[str, Any], given: dict[str, Any], name: str, zero: Any, wide: bool
) -> Callable[[], None]:
    """The call that computes; `functions` as of `compiled`.

    `zero` is what the output `name` is set to before, None: nothing.
    """
    fixed = all(on_device(one) for one in given.values() if hasattr(one, "size"))
    count = run.iterations(given)
    # Here, once: for an array of another library Numba waits until its stream is done.
    given = {key: cuda.as_cuda_array(one) if on_device(one) else one for key, one in given.items()}
    given |= {key: cuda.device_array(count + 1, np.int64 if wide else np.int32) for key in starts_of(run.nest)}
    read = [given[key] for key in run.parameters]
    steps: list[Step] = []
    if zero is not None and given[name].size:
        steps.append(_fill(given[name], zero))
    if run.nest.starts:
        blocks = count // THREADS + 1
        steps.append(lambda stream: functions["starts"][blocks, THREADS, stream](*read))
    grid = max(1, min(count, BLOCKS)), run.block()
    steps.append(lambda stream: functions["kernel"][*grid, stream](*read))
    return _Launches(steps, fixed and not warp.SIMULATED)


class _Launches:
    """The steps; from the second call on as a graph where all arrays stay on the device."""

    def __init__(self, steps: list[Step], fixed: bool) -> None:
        self._steps, self._fixed = steps, fixed
        self._graph: Recorded | None = None
        self._called = False

    def __call__(self) -> None:
        if self._graph is None and self._called and self._fixed:
            self._graph = Recorded(self._steps)
        if self._graph is not None:
            self._graph.launch()
            return
        for step in self._steps:
            step(0)
        self._called = True


def _fill(array: Any, value: Any) -> Step:
    """Set all of a device's array to a value; on the host Numba would copy it there and back."""
    if not on_device(array):
        return lambda stream: np.copyto(array, value)
    flat: Any = array.reshape(array.size)
    if not warp.SIMULATED and not np.asarray(value, array.dtype).tobytes().strip(b"\0"):
        from numba.cuda.cudadrv.driver import device_memset

        return lambda stream: device_memset(flat, 0, flat.nbytes, stream)
    fill: Any = device_runtime.fill
    return lambda stream: fill[min(array.size // THREADS + 1, 2**16), THREADS, stream](flat, value)
