"""What a build says of itself: what was dropped and why, warnings, seconds per step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ...storage.errors import HeadwayError
from .frames import to_host

FIRST_IDS = 5


@dataclass
class Dropped:
    """Lines or trips left out for one cause."""

    file: str
    cause: str
    count: int = 0
    first: list[str] = field(default_factory=list)


@dataclass
class Report:
    """Collected over a build.

    `strict` turns the first drop into an error. `announce` is told of each step as it begins.
    """

    strict: bool = False
    announce: Callable[[str], None] = lambda step: None
    dropped: dict[tuple[str, str], Dropped] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def drop(self, file: str, cause: str, ids: Any, count: int | None = None) -> None:
        """Count what was left out of `file` (`feed/table.txt`); `ids` (a list, or a column of a frame) are in
        file order.

        Raises `HeadwayError` when the report is strict.
        """
        names = [str(name) for name in (ids if isinstance(ids, list) else to_host(ids))]
        count = len(names) if count is None else count
        if not count:
            return
        if self.strict:
            first = f" ({names[0]})" if names else ""
            raise HeadwayError(f"{file}: {cause}{first}; build without --strict to leave such out")
        entry = self.dropped.setdefault((file, cause), Dropped(file, cause))
        entry.count += count
        entry.first = (entry.first + names)[:FIRST_IDS]

    def warn(self, message: str) -> None:
        """Something that a user should know and that changes no rule."""
        if message not in self.warnings:  # a file may be read twice
            self.warnings.append(message)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Add the time of a block to the seconds of `name`."""
        self.announce(name)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    @contextmanager
    def shared_step(self, *names: str) -> Iterator[dict[str, float]]:
        """A block that does several steps at once: its time is shared out by the seconds of work that it is told."""
        work = dict.fromkeys(names, 0.0)
        self.announce(names[0])
        start = time.perf_counter()
        try:
            yield work
        finally:
            took, total = time.perf_counter() - start, sum(work.values()) or 1.0
            for name, seconds in work.items():
                self.seconds[name] = self.seconds.get(name, 0.0) + took * seconds / total
