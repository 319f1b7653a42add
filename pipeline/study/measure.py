"""Timing of single queries and of batches, every arrival compared, and the small file that keeps what is measured."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import TypeAdapter

from ...storage.errors import HeadwayError
from ...storage.store import Store
from ..ahead import run_ahead
from ..engines import vertices_of
from ..progress import Timeline
from ..quantities import processed, quantities
from ..query_file import Queries
from ..times import show_time
from ..unfinished import replace
from .contestants import ARRIVALS, REFERENCE, Contestant, Prepare
from .variants import Variant

ORIGINS, DEPARTURES, SEED = 100, 10, 0
DAY = 86400
SAVE_EVERY = 2.0  # seconds
TURN = 20  # queries of an algorithm before it is the next one's turn
FEWEST = 10  # queries of a slow algorithm that is cut short
BATCH_RUNS = 3


class Effort(NamedTuple):
    """How many of the queries, and the seconds of queries after which a slow algorithm has had enough of them."""

    queries: int
    seconds: float


FULL, QUICK = Effort(ORIGINS * DEPARTURES, inf), Effort(200, 5.0)


@dataclass
class Measured:
    """Plain data, kept in a file while a study goes on.

    arrivals   a digest of each query's arrivals, by connection scan
    times      by `key`: milliseconds of each query, the first ones of the set
    batches    by contestant: queries, threads, queries a second
    stores     by name of the variant: `counts` and, unless only clusters differ, `depths`
    processed  by algorithm: mean share of the connections that it relaxes
    """

    arrivals: list[str] = field(default_factory=list)
    times: dict[str, list[float]] = field(default_factory=dict)
    batches: dict[str, dict[str, float]] = field(default_factory=dict)
    stores: dict[str, dict[str, float]] = field(default_factory=dict)
    processed: dict[str, float] = field(default_factory=dict)

    @staticmethod
    def load(file: Path) -> Measured:
        """What a file holds; nothing where there is none. Raises `HeadwayError` for a damaged one."""
        try:
            text = file.read_text()
            found = Measured(**json.loads(text))
            TypeAdapter(Measured).validate_json(text, strict=True)  # only looked at: it would make 31 connections 31.0
            if any(len(times) > len(found.arrivals) for times in found.times.values()):
                raise ValueError  # no arrivals that they were compared with
        except FileNotFoundError:
            return Measured()
        except (TypeError, ValueError):
            raise HeadwayError(f"{file}: damaged; begin again with --overwrite") from None
        return found

    def save(self, file: Path) -> None:
        """Whole or not at all."""
        replace(file, lambda beside: beside.write_text(json.dumps(asdict(self))))


def key(contestant: Contestant, variant: str = "") -> str:
    """The name of a measurement."""
    return f"{contestant}, {variant}" if variant else str(contestant)


def paper_queries(store: Store) -> Queries:
    """The paper's set (its evaluation): 100 random sources and 10 random departures from each.

    They are shuffled, so that any first few are a fair sample.

    Sources are stops that something leaves; with fewer there are fewer sources. Departures are seconds from the store's
    first departure on, until its last or midnight.
    """
    rng = np.random.default_rng(SEED)
    places, served = store.timetable.places, np.diff(store.cluster_ap.vertex_edge) > 0
    stops = np.flatnonzero(served[places.vertex[places.offset[: places.stops]]])
    origin = rng.choice(stops, min(ORIGINS, len(stops)), replace=False).astype(np.int32)
    first, last = int(store.connections.departure.min()), int(store.connections.departure.max())
    end = min(last + 1, (first // DAY + 1) * DAY)
    departure = rng.integers(first, end, (len(origin), DEPARTURES)).astype(np.int32)
    order = rng.permutation(departure.size)
    origin, departure = np.repeat(origin, DEPARTURES)[order], departure.ravel()[order]
    return Queries(np.arange(len(order)), origin, np.full(len(order), -1, np.int32), departure)


def counts(store: Store) -> dict[str, float]:
    """What clusters change."""
    graph = store.cluster_ap
    parts = (graph.type_cluster, graph.cluster_number, graph.cluster_first, graph.start, graph.end, graph.step)
    return {"progressions": len(graph.start), "bytes": sum(part.nbytes for part in parts)}


def depths(store: Store, queries: Queries) -> dict[str, float]:
    """What sub-trips change besides; the diameter is a lower bound, over these queries."""
    found = quantities(store, queries)
    return {
        "connections": found.connections,
        "types": len(store.cluster_ap.duration),
        "longest path": found.longest_path,
        "diameter": found.diameter,
    }


def mean_processed(store: Store, queries: Queries) -> dict[str, float]:
    """Mean share of the connections that each algorithm relaxes."""
    shares = processed(store, vertices_of(store, queries.origin), queries.departure)
    return {name: float(share.mean()) for name, share in shares.items()}


class Run(NamedTuple):
    """A contestant on a variant, ready: `found` are its times so far."""

    name: str
    contestant: Contestant
    prepare: Prepare
    found: list[float]


class Stopwatch:
    """Measures contestants on the variants of a store; what is measured already is not measured again."""

    def __init__(
        self, store: Store, queries: Queries, effort: Effort, threads: int, file: Path, progress: Timeline
    ) -> None:
        self._store, self._queries, self._effort, self._threads = store, queries, effort, threads
        self._file, self._progress, self.measured = file, progress, Measured.load(file)
        self._saved = time.monotonic()

    def describe(self, variant: Variant, store: Store) -> None:
        """The counts and the quantities of a variant."""
        if variant.name not in self.measured.stores:
            self._progress.step(f"quantities {variant.name}".rstrip())
            if not variant.kind:
                self.measured.processed = mean_processed(store, self._queries)
            found = counts(store)
            if variant.kind != "clusters":
                found |= depths(store, self._queries)
            self.measured.stores[variant.name] = found
            self._save()

    def measure(self, contestants: list[Contestant], variants: list[Variant]) -> None:
        """All of them, the connection scan first. Raises `HeadwayError` where arrivals differ from its own."""
        runs: list[Run] = []
        for variant in variants:
            some = [one for one in contestants if not variant.kind or variant.kind in one.varied]
            some = [one for one in some if self._share(one, self._times(key(one, variant.name))) < 1]
            if some:
                store = variant.make()
                self.describe(variant, store)
                runs += [self._ready(one, variant, store) for one in some]
        # In turn, so that what else the machine does hits all of them.
        while waiting := [run for run in runs if self._share(run.contestant, run.found) < 1]:
            for run in waiting:
                self._turn(run)
                if all(run.found for run in runs):
                    self._progress.at(*self._seconds(runs))
        for one in contestants:
            if one.batch and str(one) not in self.measured.batches:
                self._batch(one)
        self._save()

    def _times(self, name: str) -> list[float]:
        return self.measured.times.setdefault(name, [])

    def _share(self, one: Contestant, found: list[float]) -> float:
        """How much of a measurement is done, 0 to 1. The baseline answers all queries: all are compared with it."""
        share = len(found) / len(self._queries)
        if one.name != REFERENCE and len(found) >= FEWEST:
            share = max(share, sum(found) / 1e3 / self._effort.seconds)
        return min(1.0, share)

    def _seconds(self, runs: list[Run]) -> tuple[float, float]:
        """Seconds of queries measured, and of all that are wanted as far as can be told by now."""
        done = [sum(run.found) / 1e3 for run in runs]
        shares = [self._share(run.contestant, run.found) for run in runs]
        return sum(done), sum(some / share for some, share in zip(done, shares, strict=True))

    def _ready(self, one: Contestant, variant: Variant, store: Store) -> Run:
        name = key(one, variant.name)
        self._progress.step(f"compiling {name}")
        prepare = one.make(store)
        self._timed(prepare, 0)
        return Run(name, one, prepare, self._times(name))

    def _timed(self, prepare: Prepare, k: int) -> tuple[float, np.ndarray]:
        """Milliseconds of query k, and its arrivals by place."""
        attempt = prepare(self._queries.take(slice(k, k + 1)))
        begun = time.perf_counter()
        attempt.run()
        return (time.perf_counter() - begun) * 1e3, attempt.arrivals()

    def _turn(self, run: Run) -> None:
        """The next few queries."""
        self._progress.step(run.name)
        last = min((len(run.found) // TURN + 1) * TURN, len(self._queries))
        self._timed(run.prepare, len(run.found))  # what others have put out of the caches comes back
        while len(run.found) < last and self._share(run.contestant, run.found) < 1:
            k = len(run.found)
            took, arrivals = self._timed(run.prepare, k)
            if run.contestant.name == REFERENCE:
                self.measured.arrivals.append(_digest(arrivals[0]))
            else:
                self._compare(run.name, k, arrivals[0])
            run.found.append(round(took, 6))
            if time.monotonic() - self._saved > SAVE_EVERY:
                self._save()

    def _batch(self, one: Contestant) -> None:
        """All queries at once; the fastest of a few runs."""
        assert one.batch is not None
        self._progress.step(f"{one}, all queries at once")
        engine, queries = one.batch(self._store), self._queries
        if not engine.keeps_order:
            queries = queries.take(np.argsort(queries.departure, kind="stable"))

        def answered(check: Callable[[Queries, np.ndarray], None]) -> float:
            begun = time.perf_counter()
            pieces = engine.pieces(queries, ARRIVALS)
            for some, arrivals in run_ahead(lambda piece: (piece[0], piece[1]()), pieces, self._threads):
                check(some, arrivals)
            return time.perf_counter() - begun

        def compare(some: Queries, arrivals: np.ndarray) -> None:
            for k, row in zip(some.query_id.tolist(), arrivals, strict=True):
                self._compare(f"{one}, all queries at once,", k, row)

        answered(compare)
        fastest = min(answered(lambda some, arrivals: None) for _ in range(BATCH_RUNS))
        self.measured.batches[str(one)] = {
            "queries": len(queries),
            "threads": self._threads,
            "queries per second": len(queries) / fastest,
        }
        self._save()

    def _compare(self, name: str, k: int, arrivals: np.ndarray) -> None:
        if _digest(arrivals) != self.measured.arrivals[k]:
            origin = self._store.stops[self._queries.origin[k]]
            at = show_time(int(self._queries.departure[k]))
            raise HeadwayError(
                f"{name} differs from the connection scan for query {k}, from {origin!r} at {at}; a study is of exact "
                "answers only: report it with this query and what headway info says of the store"
            )

    def _save(self) -> None:
        self.measured.save(self._file)
        self._saved = time.monotonic()


def _digest(arrivals: np.ndarray) -> str:
    """Of int32[places]."""
    return hashlib.blake2b(np.ascontiguousarray(arrivals).tobytes(), digest_size=8).hexdigest()
