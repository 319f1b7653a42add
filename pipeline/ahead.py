"""Work done on threads a little before it is asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from queue import Full, Queue
from threading import Event, Thread
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


def run_ahead(work: Callable[[T], R], pieces: Iterable[T], threads: int) -> Generator[R, None, None]:
    """Results in order, computed on threads that run a little ahead of whoever takes them.

    Closed, or after an exception, it begins no more.
    """
    running: deque[Future[R]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for piece in pieces:
                running.append(pool.submit(work, piece))
                if len(running) > 2 * threads:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()


@contextmanager
def beside(threads: int) -> Iterator[Callable[[Callable[[], object]], None]]:
    """A function that has work done on so many threads, a few things at a time; at the end of the block all is done.

    What the work raises is raised by a later call, or at the end.
    """
    running: deque[Future[object]] = deque()
    with ThreadPoolExecutor(threads) as pool:

        def start(work: Callable[[], object]) -> None:
            while running and (len(running) > 2 * threads or running[0].done()):
                running.popleft().result()
            running.append(pool.submit(work))

        yield start
        while running:
            running.popleft().result()


@contextmanager
def prefetched(items: Iterator[T], ahead: int) -> Iterator[Iterator[T]]:
    """The same items, made from now on, on a thread of their own, up to so many before they are taken.

    What the items raise is raised to whoever takes them; after the block no more are made.
    """
    made: Queue[tuple[bool, Any]] = Queue(ahead)
    unwanted = Event()

    def put(what: tuple[bool, Any]) -> None:
        while not unwanted.is_set():
            try:
                made.put(what, timeout=0.1)
                return
            except Full:
                continue

    def make() -> None:
        error = None
        try:
            for item in items:
                put((True, item))
                if unwanted.is_set():
                    break
        except BaseException as raised:
            error = raised
        put((False, error))

    def taken() -> Iterator[T]:
        more, item = made.get()
        while more:
            yield item
            more, item = made.get()
        if item is not None:
            raise item

    maker = Thread(target=make, daemon=True)
    maker.start()
    try:
        yield taken()
    finally:
        unwanted.set()
        maker.join()
