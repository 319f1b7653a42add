"""Work done on threads a little before it is asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def run_ahead(work: Callable[[T], R], pieces: Iterable[T], threads: int) -> Iterator[R]:
    """Results in order, computed on threads that run a little ahead of whoever takes them."""
    running: deque[Future[R]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for piece in pieces:
            running.append(pool.submit(work, piece))
            if len(running) > 2 * threads:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
