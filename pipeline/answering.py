"""Who answers a batch: this process, or actors of Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..cluster.devices import cuda_device
from ..storage.remote import is_url
from ..storage.store import Store
from .asked import Answer
from .device import open_engine
from .engines import ON_CUDA
from .parts import Answered, in_process
from .settings import Settings


@contextmanager
def answering(
    source: str | Path,
    mark: str,
    store: Store,
    asked: Answer,
    device: str,
    algorithm: str,
    settings: Settings,
    note: Callable[[str], None] = lambda text: None,
) -> Iterator[tuple[Answered, str]]:
    """What answers parts of a batch as `settings.query` says, and in words where.

    `source` is the store's path, where every node of a cluster has it, or its URL; `mark` its fingerprint. `note` is
    told when actors do without GPUs though nobody asked for that. Raises `HeadwayError` where workers can't be had.
    """
    told = settings.query
    if told.workers == "threads":
        engine, which = open_engine(store, device, algorithm, settings)
        yield in_process(store, engine, asked, settings.thread_count()), which
        return
    from ..cluster.ray import actors
    from .sharded import Replica, Sharded

    gpu = {"cpu": False, "cuda": True, "auto": None if algorithm in ON_CUDA else False}[device]
    count, threads = (None if value == "auto" else value for value in (told.count, settings.threads))
    where = str(source) if is_url(source) else Path(source).resolve()
    replica = Replica(where, mark, asked, algorithm, settings)
    with actors(told.workers, count, gpu, threads, replica) as pool:
        room = pool.room
        which = f"{room.count} Ray actor{'s' * (room.count > 1)}, {room.each} each"
        if not room.gpu and device == "auto":
            trouble = _no_gpu(told.workers, algorithm)
            which += f" (cpu: {trouble})"
            note(f"query.workers {told.workers}: {trouble}; the CPU answers")
        yield Sharded(store, pool, asked), which


def _no_gpu(workers: str, algorithm: str) -> str:
    """Why actors have none."""
    if algorithm not in ON_CUDA:
        return f"algorithm {algorithm} is for the CPU"
    if workers == "ray":
        return cuda_device().trouble or "Ray finds no GPU"
    return "no node of the cluster that is there has a GPU"
