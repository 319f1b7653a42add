"""How far a long job is: a bar on a terminal or in a notebook, a plain line now and then elsewhere, or silence."""

from __future__ import annotations

import importlib.util
import time

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

PLAIN_EVERY = 3.0


def in_notebook() -> bool:
    """Whether somebody watches in a notebook."""
    return Console().is_jupyter


def _moves(console: Console) -> bool:
    """Whether what is shown can be changed in place; in a notebook, Rich needs ipywidgets for that."""
    return console.is_terminal or (console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None)


class Steps:
    """Names the step at work; for jobs whose length is not known."""

    def __init__(self, quiet: bool) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        self._status = self._console.status("") if _moves(self._console) and not quiet else None
        self._spoken = time.monotonic()

    def __enter__(self) -> Steps:
        if self._status:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status:
            self._status.stop()

    def __call__(self, step: str) -> None:
        """Say what begins now."""
        if self._status:
            self._status.update(step)
        elif time.monotonic() - self._spoken > PLAIN_EVERY:
            self._console.print(f"{step} ...", highlight=False)
            self._spoken = time.monotonic()


class Counter:
    """Counts rows done; `start` tells of how many. A bar is called `title`, and comes after `patience` seconds."""

    def __init__(self, what: str, quiet: bool, title: str = "", patience: float = 0.0) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        self._patience, self._plain = patience, not _moves(self._console)
        self._what, self._total, self._done = what, 0, 0
        self._began = self._spoken = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            disable=quiet or self._plain,
        )
        self._task = self._bar.add_task(title or what, total=None)

    def __enter__(self) -> Counter:
        if self._patience == 0:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def start(self, total: int) -> None:
        """The work begins, and there is so much of it."""
        self._total = total
        self._bar.update(self._task, total=total)

    def advance(self, rows: int) -> None:
        """So many more are done."""
        self._done += rows
        self._bar.advance(self._task, rows)
        now = time.monotonic()
        if not self._bar.live.is_started and self._patience < now - self._began:
            self._bar.start()
        if self._plain and now - self._spoken > PLAIN_EVERY:
            rate = self._done / max(1e-9, now - self._began)
            self._console.print(f"{self._done:,} of {self._total:,} {self._what}, {rate:,.0f}/s", highlight=False)
            self._spoken = now


class Timeline:
    """Work in steps; `at` tells how much is done, and of how much altogether as far as is known, in seconds of work."""

    def __init__(self, quiet: bool) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        self._plain = not _moves(self._console)
        self._step, self._left, self._begun = "", "", None
        self._spoken = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=self._console,
            disable=quiet or self._plain,
        )
        self._task = self._bar.add_task("", total=None, left="")

    def __enter__(self) -> Timeline:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def step(self, title: str) -> None:
        """Say what begins now."""
        self._step = title
        self._bar.update(self._task, description=title)
        self._speak()

    def at(self, done: float, total: float) -> None:
        """So much is done, of so much."""
        now = time.monotonic()
        if self._begun is None:
            self._begun = now, done
        begun, before = self._begun
        if done > before:
            left = (now - begun) * (total - done) / (done - before)
            self._left = f"about {left / 60:.0f} min left" if left >= 90 else f"about {left:.0f} s left"
        self._bar.update(self._task, completed=done, total=total, left=self._left)
        self._speak()

    def _speak(self) -> None:
        now = time.monotonic()
        if self._plain and now - self._spoken > PLAIN_EVERY:
            self._console.print(", ".join(filter(None, (self._step, self._left))), highlight=False, markup=False)
            self._spoken = now
