"""Where Dask tasks run: threads of this process, processes of this machine, a process per GPU, workers elsewhere."""

from __future__ import annotations

import importlib.util
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import dask.config
from dask.delayed import delayed
from dask.threaded import get

from ..storage.errors import HeadwayError, WorkersError
from .devices import cuda_device
from .installed import installed

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from distributed import Client, LocalCluster

T = TypeVar("T")
CONNECT_S, START_S = 5, 60
"""Seconds that a scheduler may take to answer, and the first worker to start."""


@dataclass(frozen=True)
class Workers:
    """What runs tasks; `count` of them at once. Without a client, threads of this process.

    `shared` is a folder that workers of this machine see, removed after them; None for others and threads.
    """

    count: int
    client: Client | None = None
    shared: Path | None = None

    def compute(self, graph: Sequence[Delayed]) -> list[Any]:
        """The results of `delayed` tasks, in order.

        A task whose worker dies runs again on another, three times at most. Raises what a task raises (any one of
        them where several do), and `WorkersError` when workers keep dying or can't be reached any more.
        """
        if self.client is None:
            return self._in_threads(graph)
        with _told():
            return self.client.gather(self.client.compute(list(graph)))  # type: ignore[return-value]

    def persist(self, graph: Sequence[Delayed]) -> list[Delayed]:
        """The same tasks with their results kept where they were computed, for as long as the caller keeps them.

        In threads they are computed before this returns, on workers afterwards. Raises as `compute` does.
        """
        if self.client is None:
            results = zip(graph, self._in_threads(graph), strict=True)
            return [delayed(result, name=task.key, traverse=False) for task, result in results]
        with _told():
            return self.client.persist(list(graph))  # type: ignore[return-value]

    def _in_threads(self, graph: Sequence[Delayed]) -> list[Any]:
        """Results of tasks that share most of theirs: `dask.compute` would look through those anew for each, alone."""
        layers = {name: layer for task in graph for name, layer in task.dask.layers.items()}
        tasks = {key: task for layer in layers.values() for key, task in layer.items()}
        return list(get(tasks, [task.key for task in graph], num_workers=self.count))

    def on_each(self, function: Callable[[], T]) -> list[T]:
        """What a function answers once on each worker; once here for threads. Raises as `compute` does."""
        if self.client is None:
            return [function()]
        with _told():
            return list(self.client.run(function).values())  # type: ignore[union-attr]


@contextmanager
def workers(kind: str, count: int | None, memory: int | None, scratch: str | None, threads: int) -> Iterator[Workers]:
    """Workers of a kind: "threads", "processes", "cuda", or the address of a Dask scheduler.

    threads: of kind "threads", and as many "processes" where `count` is None; "cuda" has a worker a GPU then, and the
    threads are shared among them. memory: bytes
    of a local worker, above which results spill to `scratch`; None: equal shares of the machine, its temporary folder.
    Raises `HeadwayError` where they can't be had.
    """
    if kind == "threads":
        yield Workers(threads)
        return
    with ExitStack() as stack:
        stack.enter_context(_quiet())
        shared = None
        if "://" in kind:
            client = stack.enter_context(_connected(kind))
        else:
            scratch = scratch or tempfile.gettempdir()
            cluster = stack.enter_context(_local(kind, count, memory, scratch, threads))
            shared = stack.enter_context(_work_folder(scratch))
            client = stack.enter_context(_client(cluster))
        yield Workers(sum(client.nthreads().values()), client, shared)  # type: ignore[union-attr]


@contextmanager
def _local(kind: str, count: int | None, memory: int | None, scratch: str, threads: int) -> Iterator[LocalCluster]:
    """A scheduler and workers on this machine that end with the context."""
    if kind == "cuda":
        found = cuda_device()
        if not found.name:
            raise HeadwayError(f"workers.kind cuda: {found.trouble}; choose threads or processes")
        if importlib.util.find_spec("dask_cuda") is None:
            raise HeadwayError("workers.kind cuda: dask-cuda is not installed: pip install headway[gpu]")
        if count is not None and count > found.count:
            raise HeadwayError(f"workers.count {count}: there are {found.count} GPUs; give as many at most, or auto")
        count = count or found.count
    count = count or threads
    if not os.access(scratch, os.W_OK | os.X_OK):
        raise HeadwayError(f"workers.scratch {scratch}: no folder that can be written to; make it, or choose another")
    from distributed import LocalCluster
    from distributed.system import MEMORY_LIMIT

    settings: dict[str, Any] = {
        # A worker that is full pauses until it has spilled; where all of them wait, none will ever go on.
        "distributed.scheduler.no-workers-timeout": START_S,
        "distributed.nanny.environ": {"CUDF_SPILL": "on"} if kind == "cuda" else {},
        "distributed.worker.profile.enabled": False,
    }
    options: dict[str, Any] = {
        "n_workers": count,
        # What runs on a GPU is only part of the work: its worker takes a share of the cores, too.
        "threads_per_worker": max(1, threads // count) if kind == "cuda" else 1,
        "memory_limit": memory or MEMORY_LIMIT // count,
        "local_directory": scratch,
        "dashboard_address": None,
        "scheduler_kwargs": {"dashboard_address": ":0"},  # its HTTP server, on a port that no other one has
        "silence_logs": logging.CRITICAL,  # whatever ends the work is raised, in a line
    }
    made: type[LocalCluster] = LocalCluster
    if kind == "cuda":
        from dask_cuda import LocalCUDACluster

        made, options["rmm_async"] = LocalCUDACluster, True
    with dask.config.set(settings):
        try:
            cluster = made(**options)
        except (RuntimeError, TimeoutError) as error:
            raise HeadwayError(f"workers.kind {kind}: workers do not start ({error}); see workers.memory_gib") from None
        with cluster:
            yield cluster


@contextmanager
def _work_folder(scratch: str) -> Iterator[Path]:
    """A folder beside those of Dask's workers, removed at the end; one that a killed process left goes, as theirs do,
    when the next ones start."""
    from distributed.diskutils import WorkSpace

    made = WorkSpace(str(Path(scratch) / "dask-scratch-space")).new_work_dir(prefix="headway-")
    try:
        yield Path(made.dir_path)
    finally:
        made.release()


@contextmanager
def _connected(address: str) -> Iterator[Client]:
    """The client of a scheduler elsewhere whose workers have what this process has."""
    import distributed

    try:
        client = distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError):
        raise HeadwayError(f"workers.kind {address}: no Dask scheduler answers there; see docs/cluster.md") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=START_S)
        except TimeoutError:
            raise HeadwayError(f"workers.kind {address}: no worker came in {START_S} s; see docs/cluster.md") from None
        here = installed()
        try:
            there = client.run(installed)
        except ImportError:
            raise HeadwayError(f"workers.kind {address}: a worker has no headway; install {here} there") from None
        for worker, what in there.items():  # type: ignore[union-attr]
            if what != here:
                raise HeadwayError(f"workers.kind {address}: {worker} has {what}, this is {here}; install the same")
        yield client


@contextmanager
def _client(cluster: LocalCluster) -> Iterator[Client]:
    from distributed import Client

    with Client(cluster, set_as_default=False) as client:
        yield client


@contextmanager
def _quiet() -> Iterator[None]:
    """No log lines of Dask from this process, nor those of asyncio on what Ctrl-C leaves undone, and no warning of
    large tasks: data in them can be sent again when a worker dies."""
    from distributed.utils import silence_logging_cmgr

    asyncio = logging.getLogger("asyncio")
    level = asyncio.level
    asyncio.setLevel(logging.CRITICAL)
    try:
        large = dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"})
        with silence_logging_cmgr(logging.CRITICAL), large:
            yield
    finally:
        asyncio.setLevel(level)


@contextmanager
def _told() -> Iterator[None]:
    """Lost workers and schedulers as lines for a user."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import NoValidWorkerError, NoWorkerError

    try:
        yield
    except KilledWorker as error:
        raise WorkersError(
            f"workers: {error.allowed_failures + 1} workers died one after another in the same task, as they do out of "
            "memory; give them more (workers.memory_gib), or fewer of them more each (workers.count)"
        ) from None
    except (NoWorkerError, NoValidWorkerError):
        raise WorkersError(
            "workers: for a minute none could go on: their memory is full, or they ended; give them more "
            "(workers.memory_gib), or start them again, and run this again"
        ) from None
    except (CancelledError, CommClosedError, ConnectionError):
        raise WorkersError("workers: the Dask scheduler is lost; start it again, and run this again") from None
