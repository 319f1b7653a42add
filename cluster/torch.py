"""Processes that train together: started, watched and ended by PyTorch's elastic launcher, which torchrun uses, too."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import tempfile
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from ..storage.errors import HeadwayError

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)  # Ctrl-C is Python's: it ends processes by SIGTERM
LOGGERS = ("torch.distributed.elastic", "torch.distributed.launcher", "torch.multiprocessing")
LAST_WORDS = 3000  # bytes; what is longer than a page may get mixed with another process's in the pipe
WAIT_S = 2.0
"""Seconds before a process ends of an error: when one dies, all others err at once, and it must be seen first."""


def together(
    count: int, gpu: bool, threads: int, work: Callable[..., Any], given: tuple[Any, ...], told: Callable[[Any], None]
) -> Any:
    """What `work(tell, *given)` gives in the first of `count` processes of this machine.

    They are the ranks of torch.distributed (NCCL, each with a GPU of its own that it sees as the only one, or gloo),
    with so many threads each. `told` hears, in a thread here, what they `tell`. `work` and all of that are pickled.
    Where one of them ends early all do, and `HeadwayError` says which one, and how; so it does for one raised in any.
    What `told` raises ends them, too.
    """
    from torch.distributed.elastic.multiprocessing import (  # pyright: ignore[reportMissingImports]
        DefaultLogsSpecs,
        SignalException,
    )
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError  # pyright: ignore[reportMissingImports]
    from torch.distributed.elastic.rendezvous import RendezvousError  # pyright: ignore[reportMissingImports]
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch  # pyright: ignore[reportMissingImports]

    reader, writer = get_context("spawn").Pipe(duplex=False)
    ears = _Ears(reader, told)
    try:
        with _quiet(), _held_back(signal.SIGINT), tempfile.TemporaryDirectory(prefix="headway-") as logs:
            config = LaunchConfig(
                min_nodes=1,
                max_nodes=1,
                nproc_per_node=count,
                run_id=uuid.uuid4().hex,
                rdzv_backend="c10d",
                rdzv_endpoint="localhost:0",
                local_addr="localhost",
                max_restarts=0,
                signals_to_handle=",".join(one.name for one in SIGNALS),
                logs_specs=DefaultLogsSpecs(logs),  # nobody removes its own
            )
            return elastic_launch(config, _enter)(writer, "nccl" if gpu else "gloo", threads, work, given)[0]
    except SignalException as error:
        raise SystemExit(128 + error.sigval) from None
    except RendezvousError as error:
        raise HeadwayError(f"workers do not find each other ({error}); see that this machine knows localhost") from None
    except ChildFailedError as error:
        writer.close()
        ears.join()
        rank, failure = error.get_first_failure()
        if ears.refused:
            raise HeadwayError(ears.refused[0]) from None
        if rank in ears.broken:
            raise RuntimeError(f"worker {rank} of {count}:\n{ears.broken[rank]}") from None
        how = f"was killed ({failure.signal_name()})" if failure.exitcode < 0 else f"ended ({failure.exitcode})"
        raise HeadwayError(
            f"worker {rank} of {count} {how}, as happens out of memory; go on with --resume, with any number of workers"
        ) from None
    finally:
        writer.close()
        ears.join()
        reader.close()
        if ears.trouble:
            raise ears.trouble[0]


class _Ears(threading.Thread):
    """Hears all that processes say until the last of them has ended, or `told` raises."""

    def __init__(self, reader: Connection, told: Callable[[Any], None]) -> None:
        super().__init__(daemon=True)
        self._reader, self._told = reader, told
        self.refused: list[str] = []
        self.broken: dict[int, str] = {}
        self.trouble: list[Exception] = []
        self.start()

    def run(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                kind, rank, what = self._reader.recv()
                if kind == "refused":
                    self.refused.append(what)
                elif kind == "broken":
                    self.broken[rank] = what
                else:
                    try:
                        self._told(what)
                    except Exception as error:  # the caller's: the next process that says a word ends, and all do
                        self.trouble.append(error)
                        self._reader.close()


def _enter(writer: Connection, backend: str, threads: int, work: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    """What runs in each process. A result of the first one only."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    import torch  # pyright: ignore[reportMissingImports]
    import torch.distributed as dist  # pyright: ignore[reportMissingImports]

    rank = int(os.environ["RANK"])
    if backend == "nccl":  # before anything of CUDA begins here
        seen = os.environ.get("CUDA_VISIBLE_DEVICES")
        os.environ["CUDA_VISIBLE_DEVICES"] = seen.split(",")[rank] if seen else str(rank)
        # It warns that what is handed over is in turn with all else, as it has to be.
        os.environ.setdefault("TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING", "false")
    use_threads(threads)
    try:
        dist.init_process_group(backend, device_id=torch.device("cuda", 0) if backend == "nccl" else None)
        found = work(lambda what: writer.send(("told", rank, what)), *given)
        dist.destroy_process_group()
        return found if rank == 0 else None
    except HeadwayError as error:
        writer.send(("refused", rank, str(error)[:LAST_WORDS]))
    except Exception as error:
        cause = str(error).partition("\n")[0] or "out of memory"
        # PyTorch has an error of its own for a GPU's memory only.
        if isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in cause:
            way_out = "give it less, or go on with more workers by --resume"
            writer.send(("refused", rank, f"worker {rank}: {cause}; {way_out}"))
        else:
            time.sleep(WAIT_S)
            writer.send(("broken", rank, traceback.format_exc()[-LAST_WORDS:]))
    raise SystemExit(1)


def use_threads(count: int) -> None:
    """Of PyTorch and of kernels, in this process."""
    import numba
    import torch  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(count)
    numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]


@contextlib.contextmanager
def _held_back(one: signal.Signals) -> Iterator[None]:
    """From this thread, so from processes that it starts until they let it in: amid imports Ctrl-C is a traceback.

    Another thread must be there that takes it for this process; Python's handler runs in the main one in any case.
    """
    resource_tracker.ensure_running()  # which lets signals in as it starts, with the first process otherwise
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {one})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No log lines of the launcher, and the handlers of signals as they were: it leaves its own."""
    names = [name for name in logging.root.manager.loggerDict if name.startswith(LOGGERS)]
    loggers = [one for name in names if not (one := logging.getLogger(name)).disabled]
    handlers = {one: signal.getsignal(one) for one in SIGNALS}
    for one in loggers:
        one.disabled = True
    try:
        yield
    finally:
        for one in loggers:
            one.disabled = False
        if threading.current_thread() is threading.main_thread():
            for one, handler in handlers.items():
                signal.signal(one, handler)
