"""Where queries are answered: on the CPU or on a GPU."""

from __future__ import annotations

from ..cluster.devices import cuda_device
from ..storage.errors import HeadwayError
from ..storage.store import Store
from .cpu import CpuEngine
from .engines import DEFAULT, ON_CUDA, ON_CUDA_ALONE, Engine
from .settings import Settings

DEVICES = ("auto", "cpu", "cuda")


def open_engine(store: Store, device: str, algorithm: str, settings: Settings) -> tuple[Engine, str]:
    """An engine for a store, and in words where it computes and why.

    `auto` takes a GPU that works. Raises `HeadwayError` for `cuda` where there is none, and for an algorithm that
    does not run on the device.
    """
    if device == "cpu":
        _needs_a_gpu(algorithm, "and not with --device cpu")
        return CpuEngine(store, algorithm), "cpu, as told"
    found = cuda_device()
    trouble = found.trouble
    if not trouble and algorithm not in ON_CUDA:
        trouble = f"algorithm {algorithm} is for the CPU"
    if trouble:
        _needs_a_gpu(algorithm, trouble)
    if trouble and device == "cuda":
        raise HeadwayError(f"--device cuda: {trouble}; leave it out, or use --device cpu")
    if trouble:
        return CpuEngine(store, algorithm), f"cpu: {trouble}"
    try:
        return _on_cuda(store, algorithm, settings), f"cuda: {found.name}"
    except HeadwayError as error:
        if device == "cuda" or algorithm in ON_CUDA_ALONE:
            raise
        return CpuEngine(store, algorithm), f"cpu: {error}"


def _on_cuda(store: Store, algorithm: str, settings: Settings) -> Engine:
    """A CPU does without what is imported here."""
    if algorithm == DEFAULT:
        from .gpu import GpuEngine

        return GpuEngine(store, settings.gpu_memory())
    from .device_engines import ALGORITHMS

    return CpuEngine(store, ALGORITHMS[algorithm](store))


def _needs_a_gpu(algorithm: str, trouble: str) -> None:
    if algorithm in ON_CUDA_ALONE:
        raise HeadwayError(
            f"--algorithm {algorithm} runs on a GPU alone, {trouble}; use --device cuda where there is one, "
            "or --algorithm edge"
        )
