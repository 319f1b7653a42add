"""Who answers a batch: this process, or actors of Ray."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..storage.store import Store, fingerprint
from .asked import Answer
from .device import open_engine
from .engines import ON_CUDA
from .parts import Answered, in_process
from .settings import Settings


@contextmanager
def answering(
    path: Path, store: Store, asked: Answer, device: str, algorithm: str, settings: Settings
) -> Iterator[tuple[Answered, str]]:
    """What answers parts of a batch as `settings.query` says, and in words where.

    `path` is the store's, where every node of a cluster has it. Raises `HeadwayError` where that can't be had.
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
    replica = Replica(path.resolve(), fingerprint(path), asked, algorithm, settings)
    with actors(told.workers, count, gpu, threads, replica) as pool:
        room = pool.room
        each = "a GPU each" if room.gpu else f"{room.threads} thread{'s' * (room.threads > 1)} each"
        yield Sharded(store, pool, asked), f"{room.count} Ray actor{'s' * (room.count > 1)}, {each}"
