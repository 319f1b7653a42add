"""Where queries are answered: on the CPU or on a GPU."""

from __future__ import annotations

from ..cluster.devices import cuda_device
from ..storage.errors import HeadwayError
from ..storage.store import Store
from .cpu import CpuEngine
from .engines import DEFAULT, Engine
from .settings import Settings

DEVICES = ("auto", "cpu", "cuda")


def open_engine(store: Store, device: str, algorithm: str, settings: Settings) -> tuple[Engine, str]:
    """An engine for a store, and in words where it computes and why.

    `auto` takes a GPU that works. Raises `HeadwayError` for `cuda` where there is none, and for an algorithm that
    runs on the CPU only.
    """
    if device == "cpu":
        return CpuEngine(store, algorithm), "cpu, as told"
    found = cuda_device()
    trouble = found.trouble
    if not trouble and algorithm != DEFAULT:
        trouble = f"algorithm {algorithm} is for the CPU"
    if trouble and device == "cuda":
        raise HeadwayError(f"--device cuda: {trouble}; leave it out, or use --device cpu")
    if trouble:
        return CpuEngine(store, algorithm), f"cpu: {trouble}"
    from .gpu import GpuEngine  # a CPU does without CUDA packages

    try:
        return GpuEngine(store, settings.gpu_memory()), f"cuda: {found.name}"
    except HeadwayError as error:
        if device == "cuda":
            raise
        return CpuEngine(store, algorithm), f"cpu: {error}"
