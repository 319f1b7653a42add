"""What actors of Ray hold in tests; they import it from here."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from headway.pipeline.sharded import Chunk, Replica, Shard


@dataclass(frozen=True)
class Slow(Replica):
    """Takes its time for a chunk, and writes down who answered it."""

    notes: Path = Path()

    def __call__(self, gpu: bool, threads: int) -> Callable[[Chunk], Shard]:
        work = super().__call__(gpu, threads)

        def slow(chunk: Chunk) -> Shard:
            (self.notes / str(os.getpid())).touch()
            time.sleep(0.1)
            return work(chunk)

        return slow


@dataclass(frozen=True)
class Poisoned(Replica):
    """Some queries kill the process that answers them."""

    poison: tuple[int, ...] = ()

    def __call__(self, gpu: bool, threads: int) -> Callable[[Chunk], Shard]:
        work = super().__call__(gpu, threads)

        def poisoned(chunk: Chunk) -> Shard:
            if np.isin(self.poison, chunk.queries.query_id).any():
                os._exit(1)
            return work(chunk)

        return poisoned


def threads_of(gpu: bool, threads: int) -> Callable[[float], int]:
    """How many an actor was given; it is held for a while, so that others answer, too."""

    def hold(seconds: float) -> int:
        time.sleep(seconds)
        return threads

    return hold


@dataclass(frozen=True)
class Mapped(Replica):
    """Writes down which parts of files of the store its process has in memory."""

    notes: Path = Path()

    def __call__(self, gpu: bool, threads: int) -> Callable[[Chunk], Shard]:
        work = super().__call__(gpu, threads)

        def mapped(chunk: Chunk) -> Shard:
            shard = work(chunk)
            (self.notes / str(os.getpid())).write_text(Path("/proc/self/smaps").read_text())
            return shard

        return mapped
