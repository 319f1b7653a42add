"""A batch on actors of Ray, each with a replica of the store: chunks of parts out, tables or whole files back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from ..cluster.ray import Poisonous, Pool
from ..storage.errors import HeadwayError
from ..storage.store import Store, fingerprint, load, local
from .answers import answer, in_order
from .asked import Answer
from .device import open_engine
from .parts import Advance, Found, Lost, Part, write_part
from .query_file import PART, Queries
from .settings import Settings

SECONDS = 1.0  # of a chunk: what is lost with a worker, and what Ctrl-C waits for
FIRST, LEAST = 256, 16  # queries of the first chunks and of any
CELLS = 2**22  # of a chunk's arrivals, queries x places
TRIES = 2  # of a single query, before it is left out
MOST_LOST = 20
CAUSE = "the process that answered it died, twice; the other queries are answered"


@dataclass(frozen=True)
class Chunk:
    """Queries of a part, from `first` on in the order of work; `whole`: all of them, and their file is wanted."""

    part: int
    first: int
    queries: Queries
    whole: bool = False

    def halves(self) -> Iterator[Chunk]:
        """Two chunks."""
        middle = len(self.queries) // 2
        for first, last in ((0, middle), (middle, len(self.queries))):
            yield Chunk(self.part, self.first + first, self.queries.take(slice(first, last)))


@dataclass(frozen=True)
class Shard:
    """The answers of a chunk in its order, as tables or as the file of a part, and the seconds that they took."""

    found: list[pa.Table] | pa.Buffer
    seconds: float


@dataclass(frozen=True)
class Replica:
    """What an actor makes once: the store, mapped from its node's disk, and an engine for it.

    `store` is a path that all nodes have, or a URL, which the first actor of a node brings to its disk.
    """

    store: Path | str
    fingerprint: str
    asked: Answer
    algorithm: str
    settings: Settings

    def __call__(self, gpu: bool, threads: int) -> Callable[[Chunk], Shard]:
        """Raises `HeadwayError` for a store that is not there, or another one."""
        path = local(self.store)
        store = load(path)
        if fingerprint(path) != self.fingerprint:
            raise HeadwayError(f"{self.store}: a node has another store there; copy the same to all of them")
        engine, _ = open_engine(store, "cuda" if gpu else "cpu", self.algorithm, self.settings)
        zero = np.zeros(1, np.int32)
        one = Queries(zero.astype(np.int64), zero, zero, zero)
        # Kernels are compiled before the first chunk, whose seconds say how large others are to be.
        list(answer(store, engine, one, self.asked, threads, lambda rows: None))

        def work(chunk: Chunk) -> Shard:
            begun = time.perf_counter()
            tables = answer(store, engine, chunk.queries, self.asked, threads, lambda rows: None)
            if not chunk.whole:
                return Shard(list(tables), time.perf_counter() - begun)
            sink = pa.BufferOutputStream()
            write_part(sink, self.asked.schema, tables)
            return Shard(sink.getvalue(), time.perf_counter() - begun)

        return work


class Sharded:
    """Parts answered by a pool of `Replica`s."""

    def __init__(self, store: Store, pool: Pool, asked: Answer) -> None:
        self._pool, self._asked = pool, asked
        self._most = PART
        if asked.kind == "arrivals":
            self._most = min(PART, max(1, CELLS // len(store.timetable.places.table)))
        self._size = min(FIRST, self._most)
        self._orders: dict[int, np.ndarray] = {}
        self._lost = 0

    def __call__(self, parts: Iterator[Part], advance: Advance) -> Iterator[tuple[int, Found]]:
        """As `Answered`. Raises `HeadwayError` where too many queries kill their workers, and what the pool raises."""
        kept: list[pa.Table] = []
        rows: list[np.ndarray] = []
        for chunk, shard in self._bisected(self._pool.run(self._chunks(parts))):
            order = self._orders[chunk.part]
            here = order[chunk.first : chunk.first + len(chunk.queries)]
            advance(len(here))
            if shard is None:
                yield chunk.part, Lost(chunk.queries.query_id, CAUSE)
            elif isinstance(shard.found, pa.Buffer):
                yield chunk.part, shard.found
            elif self._asked.kind == "arrivals":
                yield from ((chunk.part, table) for table in shard.found)
            else:
                kept += shard.found
                rows.append(here)
            if chunk.first + len(here) == len(order):
                if rows:
                    yield chunk.part, in_order(kept, np.concatenate(rows), self._asked)
                kept, rows = [], []
                del self._orders[chunk.part]
                yield chunk.part, None

    def _chunks(self, parts: Iterator[Part]) -> Iterator[Chunk]:
        """Those of one row or few a query in order of departure: neighbours in time read the same of the store."""
        for part in parts:
            count = len(part.queries)
            order = np.arange(count)
            if self._size < count and self._asked.kind != "arrivals":
                order = np.argsort(part.queries.departure, kind="stable")
            self._orders[part.number] = order
            first = 0
            while True:
                left = count - first
                size = -(-left // max(1, -(-left // self._size)))  # no small rest
                some = part.queries.take(order[first : first + size])
                yield Chunk(part.number, first, some, whole=size == count)
                first += size
                if first == count:
                    break

    def _bisected(
        self, results: Iterator[tuple[Chunk, Shard | Poisonous]], tried: bool = False
    ) -> Iterator[tuple[Chunk, Shard | None]]:
        """None instead of a single query that kills its worker again and again; what came with it is answered."""
        for chunk, shard in results:
            count = len(chunk.queries)
            if not isinstance(shard, Poisonous):
                if count:
                    self._adapt(count / max(shard.seconds, 1e-9))
                yield chunk, shard
            elif not (tried and count == 1):
                for some in chunk.halves() if count > 1 else [chunk]:
                    again = self._pool.run([some], alone=True, tries=TRIES if len(some.queries) == 1 else 1)
                    yield from self._bisected(again, tried=True)
            else:
                self._lost += 1
                if self._lost > MOST_LOST:
                    raise HeadwayError(
                        f"query.workers: more than {MOST_LOST} queries killed the processes that answered them, as "
                        "happens out of memory; fewer actors leave more to each (query.count), go on with --resume"
                    )
                yield chunk, None

    def _adapt(self, rate: float) -> None:
        """Chunks to come take about a second, at so many queries a second."""
        self._size = int(np.clip(rate * SECONDS, min(LEAST, self._most), min(8 * self._size, self._most)))
