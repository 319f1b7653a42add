"""Who takes part in a study: names, devices, and how each is made from a store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import isqrt
from typing import Literal, NamedTuple

import numpy as np

from ...cluster.devices import cuda_device
from ...kernels.answers import by_place
from ...kernels.levels import NEVER
from ...storage.errors import HeadwayError
from ...storage.store import Store
from ..asked import Answer
from ..cpu import CpuEngine
from ..engines import ALGORITHMS, Engine, Kernel, Task, vertices_of
from ..query_file import Queries
from ..settings import Settings

REFERENCE = "connection-scan"  # on the CPU: what all are compared with, and the paper's serial baseline
BEST = "cluster-ap"  # the paper's best algorithm, on which it varies clusters, sub-trips and read-back
INCREMENTAL = ("connection", "connection-type", "connection-type-ap", BEST)  # in the paper's order
PAPER = (*INCREMENTAL, "edge")
LANES = {"edge": 1, "edge-2": 2, "edge-4": 4, "edge-8": 8, "edge-16": 16, "edge-32": 32}  # of virtual warps
ARRIVALS = Answer("arrivals")


class Attempt(NamedTuple):
    """Queries made ready: `run` answers them, which is what is timed; then `arrivals` gives int32[queries, places]."""

    run: Callable[[], object]
    arrivals: Callable[[], np.ndarray]


Prepare = Callable[[Queries], Attempt]


@dataclass(frozen=True)
class Contestant:
    """An algorithm on a device.

    make      from a store to what takes queries
    batch     an engine that answers many queries at once, for those that do
    varied    whether it also runs on the variants of the store
    sync      after how many rounds the host reads back whether labels still fall; empty where that is not the question
    """

    name: str
    device: str
    make: Callable[[Store], Prepare]
    batch: Callable[[Store], Engine] | None = None
    varied: frozenset[str] = frozenset()
    sync: str = ""

    def __str__(self) -> str:
        return f"{self.name} on {self.device}" + (f", read back {self.sync}" if self.sync else "")


def devices_for(device: str) -> tuple[str, ...]:
    """Where a study computes: `auto` takes the CPU, and a GPU that works; `cuda` leaves to the CPU the baseline and
    its fastest engine, to compare with.

    Raises `HeadwayError` for `cuda` where there is none.
    """
    trouble = "" if device == "cpu" else cuda_device().trouble
    if trouble and device == "cuda":
        raise HeadwayError(f"--device cuda: {trouble}; leave it out, or use --device cpu")
    if device == "cpu" or trouble:
        return ("cpu",)
    return ("cpu", "cuda") if device == "auto" else ("cuda",)


def contestants_on(devices: tuple[str, ...], settings: Settings, diameter: int) -> list[Contestant]:
    """The connection scan first, then all others; `diameter` is the temporal diameter, for the read-back policy."""
    reference = Contestant(REFERENCE, "cpu", _kernel(ALGORITHMS[REFERENCE]))
    found = [reference]
    found += [one for one in _on_cpu() if "cpu" in devices or one.batch]
    if "cuda" in devices:
        found += _on_gpu(settings, diameter)
    return found


def _on_cpu() -> list[Contestant]:
    batch = {"edge-profile": CpuEngine}
    return [
        Contestant(name, "cpu", _kernel(make), batch.get(name), VARIED.get(name, frozenset()))
        for name, make in sorted(ALGORITHMS.items(), key=lambda item: _place(item[0]))
        if name != REFERENCE
    ]


def _on_gpu(settings: Settings, diameter: int) -> list[Contestant]:
    # A CPU does without CUDA packages.
    from ..device_engines import ALGORITHMS as ON_DEVICE
    from ..device_relaxation import DeviceRelaxation
    from ..gpu import GpuEngine

    def batch(store: Store) -> GpuEngine:
        return GpuEngine(store, settings.gpu_memory())

    def single(store: Store) -> Prepare:
        engine = batch(store)

        def prepare(queries: Queries) -> Attempt:
            found: list[np.ndarray] = []
            return Attempt(lambda: found.append(engine.compute(queries, ARRIVALS)), lambda: found[0])

        return prepare

    def reading_back(every: Literal["device"] | int, store: Store) -> Kernel:
        relaxation = DeviceRelaxation(store, BEST, sync=every)
        return lambda task: relaxation.search(task.order, task.sources, task.leave, task.out)

    policies: dict[str, Literal["device"] | int] = {
        "every round": 1,
        "every sqrt(d) rounds": max(1, isqrt(diameter)),
        "on the device": "device",
    }
    return [
        *(
            Contestant(name, "cuda", _kernel(make), None, VARIED.get(name, frozenset()))
            for name, make in sorted(ON_DEVICE.items(), key=lambda item: _place(item[0]))
        ),
        Contestant("batch", "cuda", single, batch, VARIED["batch"]),
        *(
            Contestant(BEST, "cuda", _kernel(partial(reading_back, every)), None, frozenset(), words)
            for words, every in policies.items()
        ),
    ]


# On which variants of the store; connection types, and so clusters, are nothing to the lists of the fast engines.
VARIED = {
    BEST: frozenset({"clusters", "sub-trips"}),
    "edge-profile": frozenset({"sub-trips"}),
    "batch": frozenset({"sub-trips"}),
}


def _place(name: str) -> int:
    """Baselines, the paper's algorithms as it develops them, the engines of this project."""
    listed = ("esdg", *PAPER, *LANES, "label-correcting", "edge-profile")
    return listed.index(name) if name in listed else len(listed)


def _kernel(kernel_of: Callable[[Store], Kernel]) -> Callable[[Store], Prepare]:
    def make(store: Store) -> Prepare:
        kernel, places = kernel_of(store), store.timetable.places

        def prepare(queries: Queries) -> Attempt:
            count = len(queries)
            task = Task(
                np.arange(count),
                vertices_of(store, queries.origin),
                queries.departure,
                (np.zeros(count + 1, np.int64), np.empty(0, np.uint32)),
                np.full(count, NEVER, np.int32),
                np.empty((count, store.timetable.vertices), np.int32),
            )
            return Attempt(lambda: kernel(task), lambda: by_place(task.out, places.offset, places.vertex))

        return prepare

    return make
