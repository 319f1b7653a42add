"""Launches that are made again and again, as one CUDA graph: a launch by Numba takes as long as a small kernel."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from numba import cuda

Step = Callable[[Any], object]  # makes a launch, or an asynchronous copy, on a stream


class Recorded:
    """Steps, in this order. Their kernels must be compiled, and their arrays stay where they are on the device."""

    def __init__(self, steps: Sequence[Step]) -> None:
        driver, stream = _driver(), cuda.stream()
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        _checked(driver.cuStreamBeginCapture(stream.handle, mode))
        try:
            for step in steps:
                step(stream)
        finally:
            graph = _checked(driver.cuStreamEndCapture(stream.handle))
        self._graph = _checked(driver.cuGraphInstantiate(graph, 0))
        driver.cuGraphDestroy(graph)
        weakref.finalize(self, driver.cuGraphExecDestroy, self._graph)

    def launch(self, stream: Any = 0) -> None:
        """All steps, on a stream of Numba's or the default one."""
        _checked(_driver().cuGraphLaunch(self._graph, stream.handle if stream else 0))


def _driver() -> Any:
    from cuda.bindings import driver  # a machine without a GPU need not have it

    return driver


def _checked(found: tuple[Any, ...]) -> Any:
    error, *values = found
    if error:
        raise RuntimeError(f"CUDA: {error.name}")
    return values[0] if values else None
