"""Actors of Ray that each hold a state of their own and work on items: on this machine, or in a cluster."""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..storage.errors import HeadwayError
from .installed import installed

CONNECT_S, START_S = 5, 600
"""Seconds that a cluster may take to answer, and that there may be no process of an actor."""
IN_FLIGHT = {False: 2, True: 4}  # items of an actor without and with a GPU, so that it computes while others are packed
AHEAD = 2  # times as many are taken before the first of them is given back
STARTS = 3  # deaths one after another of actors that start

Make = Callable[[bool, int], Callable[[Any], Any]]


@dataclass(frozen=True)
class Poisonous:
    """Instead of a result: the item killed its worker while nothing else was with it."""


@dataclass(eq=False)
class _Job:
    """An item on its way; `home` are those of its run that wait for a worker."""

    item: Any
    tries: int
    alone: bool
    home: deque[_Job]
    deaths: int = 0  # of workers that had nothing else
    done: bool = False
    result: Any = None


@dataclass(eq=False)
class _Actor:
    """A process elsewhere, and what it is at. `starting` are the calls of its start that have not come back."""

    handle: Any
    starting: list[Any]
    placed: bool = False  # whether the process is there
    running: dict[Any, _Job] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        return not self.starting


class _Worker:
    """What runs in an actor's process."""

    def there(self) -> None:
        """Comes back as soon as there is a process, whatever `open` takes."""

    def open(self, make: Make, gpu: bool, threads: int | None, here: str) -> None:
        if installed() != here:
            raise HeadwayError(
                f"query.workers: {os.uname().nodename} has {installed()}, this is {here}; install the same"
            )
        self._work = make(gpu, threads or _share())

    def work(self, item: Any) -> Any:
        return self._work(item)


@dataclass(frozen=True)
class Room:
    """`count` actors, each with a GPU of its own or none, and so many threads; None: its GPU's share of a node."""

    count: int
    gpu: bool
    threads: int | None

    @property
    def each(self) -> str:
        """What an actor has, in words."""
        return "a GPU" if self.gpu else f"{self.threads} thread{'s' * (self.threads != 1)}"


class Pool:
    """Actors that have each called `make(gpu, threads)` once, and answer items by what it gave.

    One that dies is replaced. What it was at runs again, nothing else with it; what kills a worker then is poisonous.
    """

    def __init__(self, room: Room, make: Make) -> None:
        import ray

        self.room = room
        self._make = ray.put(make)
        self._actors: list[_Actor] = []
        self._failed, self._last_placed = 0, time.monotonic()
        for _ in range(room.count):
            self._add()

    def run(self, items: Iterable[Any], alone: bool = False, tries: int = 1) -> Iterator[tuple[Any, Any]]:
        """Items with their results, in order; only a few are taken ahead of those given back.

        A result is `Poisonous` after so many `tries`. `alone`: from the first on, nothing else is with an item. May be
        called while another run waits. Raises what `make` and the work raise, and `HeadwayError` when actors don't
        start or the cluster is lost.
        """
        source = iter(items)
        order: deque[_Job] = deque()
        waiting: deque[_Job] = deque()
        more = True
        while more or order:
            while more and len(order) < AHEAD * IN_FLIGHT[self.room.gpu] * self.room.count:
                try:
                    order.append(_Job(next(source), tries, alone, waiting))
                    waiting.append(order[-1])
                except StopIteration:
                    more = False
            self._hand_out(waiting)
            if order and order[0].done:
                job = order.popleft()
                yield job.item, job.result
            elif order:
                self._wait()

    def open(self) -> None:
        """Wait until the first actor has started. Raises as `run`."""
        while not any(actor.ready for actor in self._actors):
            self._wait()

    def close(self) -> None:
        """End all actors, whatever they are at."""
        import ray

        for actor in self._actors:
            ray.kill(actor.handle)

    def _add(self) -> None:
        import ray

        room = self.room
        options = {
            "num_cpus": 1 if room.gpu else room.threads,  # a GPU is what is scarce; nodes differ in cores for each
            "num_gpus": int(room.gpu),
            "max_concurrency": IN_FLIGHT[room.gpu],
            "scheduling_strategy": "SPREAD",
        }
        worker: Any = ray.remote(_Worker)
        handle = worker.options(**options).remote()
        opening = handle.open.remote(self._make, room.gpu, room.threads, installed())
        self._actors.append(_Actor(handle, [handle.there.remote(), opening]))

    def _hand_out(self, waiting: deque[_Job]) -> None:
        """To the least busy first. For one that must be alone an actor gets nothing more until it is idle."""
        free = [actor for actor in self._actors if actor.ready and not any(job.alone for job in actor.running.values())]
        free.sort(key=lambda actor: len(actor.running))
        for job in [job for job in waiting if job.alone][: len(free)]:
            actor = free.pop(0)
            if not actor.running:
                self._give(actor, job)
        plain = [job for job in waiting if not job.alone]
        for busy in range(IN_FLIGHT[self.room.gpu]):
            for actor in free:
                if plain and len(actor.running) == busy:
                    self._give(actor, plain.pop(0))

    def _give(self, actor: _Actor, job: _Job) -> None:
        job.home.remove(job)
        actor.running[actor.handle.work.remote(job.item)] = job

    def _wait(self) -> None:
        """Take in what ends next."""
        import ray
        from ray.exceptions import LocalRayletDiedError, RayError, RaySystemError, RayTaskError

        owners = {ref: actor for actor in self._actors for ref in (actor.starting or actor.running)}
        for ref in ray.wait(list(owners), num_returns=1, timeout=1)[0]:
            actor = owners[ref]
            try:
                result = ray.get(ref)
            except RayTaskError as error:
                raise error.cause from None
            except (LocalRayletDiedError, RaySystemError):
                raise
            except RayError as error:
                self._bury(actor, error)
                continue
            if actor.ready:
                job = actor.running.pop(ref)
                job.done, job.result = True, result
            else:
                actor.starting.remove(ref)
                actor.placed = True
                if actor.ready:
                    self._failed = 0
        # One that brings a large store over a slow line takes what it takes.
        if any(actor.placed for actor in self._actors):
            self._last_placed = time.monotonic()
        elif time.monotonic() - self._last_placed > START_S:
            raise HeadwayError(
                f"query.workers: for {START_S} s no actor with {self.room.each} could start; make room in the cluster, "
                "and run this again"
            )

    def _bury(self, actor: _Actor, error: Exception) -> None:
        """Put another actor in a dead one's place; what it was at waits again, or was what killed it."""
        import ray

        self._actors.remove(actor)
        ray.kill(actor.handle)
        self._failed += not actor.ready
        if self._failed == STARTS:
            cause = str(error).strip().splitlines()[-1].strip()
            raise HeadwayError(f"query.workers: {STARTS} actors died one after another while they started ({cause})")
        jobs = list(actor.running.values())
        for job in jobs:
            job.alone, job.deaths = True, job.deaths + (len(jobs) == 1)
            if job.deaths >= job.tries:
                job.done, job.result = True, Poisonous()
            else:
                job.home.append(job)
        self._add()


@contextmanager
def actors(kind: str, count: int | None, gpu: bool | None, threads: int | None, make: Make) -> Iterator[Pool]:
    """A pool of actors in a Ray of its own (kind "ray") or in a cluster (its address, or "auto": that of this machine
    or job), whose first has started.

    gpu: a GPU for each, none, or None: where there are any. count: None: as many as there is room for. threads: of
    each; None: as many as the smallest node has, or with a GPU its share of the node that an actor comes to. `make` and
    what it gives are pickled. Where this process is connected to a Ray already, actors run there. Raises `HeadwayError`
    where they can't be had, and what `make` raises.
    """
    if importlib.util.find_spec("ray") is None:
        raise HeadwayError(f"query.workers {kind}: Ray is not installed: pip install headway[ray]")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    import ray._private.worker
    from ray.exceptions import LocalRayletDiedError, RaySystemError

    # What its daemons tell of workers that die is for its logs; there is no public way to keep it off the screen.
    spoken, ray._private.worker._worker_logs_enabled = ray._private.worker._worker_logs_enabled, False
    begun = not ray.is_initialized()
    try:
        if begun:
            _connect(kind)
        pool = Pool(_room(kind, count, gpu, threads), make)
        try:
            pool.open()
            yield pool
        finally:
            pool.close()
    except (RaySystemError, LocalRayletDiedError, ConnectionError) as error:
        cause = str(error).strip().splitlines()[0]
        raise HeadwayError(f"query.workers {kind}: Ray fails ({cause}); mend it, and go on with --resume") from None
    finally:
        if begun:
            ray.shutdown()
        ray._private.worker._worker_logs_enabled = spoken


def _connect(kind: str) -> None:
    import ray

    silent: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if kind == "ray":
        ray.init("local", num_cpus=len(os.sched_getaffinity(0)), include_dashboard=False, **silent)
        return
    if kind != "auto":
        host, _, port = kind.removeprefix("ray://").rpartition(":")
        try:
            socket.create_connection((host, int(port)), CONNECT_S).close()
        except OSError:
            raise HeadwayError(f"query.workers {kind}: no Ray cluster answers there; see docs/cluster.md") from None
    try:
        with warnings.catch_warnings(action="ignore"):
            ray.init(kind, **silent)
    except (RuntimeError, ValueError, ConnectionError) as error:
        cause = str(error).strip().splitlines()[0]
        raise HeadwayError(f"query.workers {kind}: no connection ({cause}); see docs/cluster.md") from None


def _room(kind: str, count: int | None, gpu: bool | None, threads: int | None) -> Room:
    """What the nodes that are there have room for. More actors may be asked for in a cluster, which may grow."""
    import ray

    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    cores, gpus = ([int(node.get(name, 0)) for node in nodes] for name in ("CPU", "GPU"))
    gpu = sum(gpus) > 0 if gpu is None else gpu
    if gpu:
        most = sum(gpus)
    else:
        threads = threads or min((have for have in cores if have), default=None)
        if threads is None:
            raise HeadwayError(
                f"query.workers {kind}: no node has cores yet; say --set threads=N, how many an actor takes, "
                "or --device cuda, and how many actors (query.count)"
            )
        most = sum(have // threads for have in cores)
    room = Room(count or most, gpu, threads)
    if not room.count or (kind == "ray" and room.count > most):
        raise HeadwayError(
            f"query.workers {kind}: room for {most} actors with {room.each}, see query.count and threads"
        )
    return room


def _share() -> int:
    """Cores for each GPU of the node that this actor came to, at least one."""
    import ray

    here = ray.get_runtime_context().get_node_id()
    has = next(node["Resources"] for node in ray.nodes() if node["NodeID"] == here)
    return max(1, int(has.get("CPU", 0)) // int(has["GPU"]))
