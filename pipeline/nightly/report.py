"""What a run did, for programs: `report.json`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

from ...storage.store import Store
from ..unfinished import replace
from .feeds import PlannedFeed


@dataclass
class Night:
    """Collected over a run.

    `status` is `built`, `published` (a store that there was already), `unchanged` or `failed`, then with `error`.
    `facts` are those of the store that `current` leads to at the end, unless the run failed.
    """

    plan: Path
    started: datetime
    before: str | None
    status: str = "failed"
    error: str | None = None
    first: str | None = None
    days: int | None = None
    feeds: list[PlannedFeed] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Add the time of a block to the seconds of `name`."""
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start

    def describe(self, store: Store) -> None:
        """The store that is published holds this."""
        self.facts = {key: store.facts[key] for key in ("sources", "build", "counts", "dropped", "warnings")}

    def write(self, file: Path, after: str | None) -> None:
        """Write the report whole; `after` is what `current` leads to. Raises OSError."""
        found = {
            "headway": version("headway"),
            "plan": str(self.plan.absolute()),
            "started": _utc(self.started),
            "finished": _utc(datetime.now(UTC)),
            "status": self.status,
            "error": self.error,
            "current": {"before": self.before, "after": after},
            "dates": {"first": self.first, "days": self.days},
            "feeds": [
                {"name": feed.name, "path": str(feed.path), "sha256": feed.sha256, "broken": feed.broken}
                for feed in self.feeds
            ],
            "store": self.facts or None,
            "removed": self.removed,
            "seconds": {name: round(took, 3) for name, took in self.seconds.items()},
        }
        replace(file, lambda beside: beside.write_text(json.dumps(found, indent=1) + "\n"))


def _utc(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")
