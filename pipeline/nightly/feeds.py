"""The feeds of a plan: which there are tonight, and what is wrong with those that can't be used."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

from ..gtfs.broken import FeedError, of_feed
from ..gtfs.feed import feed_zone
from ..gtfs.report import Report
from ..gtfs.source import open_source
from .plan import PlanFile, is_pattern


@dataclass
class PlannedFeed:
    """A feed as the plan calls it; `sha256` None where it can't be opened, `broken` says why it can't be used."""

    name: str
    path: Path
    sha256: str | None = None
    zone: ZoneInfo | None = None
    broken: str | None = None


def planned_feeds(planned: PlanFile) -> list[PlannedFeed]:
    """All feeds of a plan in its order, opened and hashed; each once, though several entries match it."""
    return [_opened(name, path) for path, name in {path: name for name, path in _matches(planned)}.items()]


def prefixed(planned: PlanFile) -> bool:
    """Whether ids get their feed's name in front: as the plan has it, not as many feeds as there are tonight.

    So ids stay the same when a feed is left out, and when a pattern matches one feed more.
    """
    return len(planned.plan.feeds) > 1 or is_pattern(planned.plan.feeds[0])


def digest(path: Path) -> str:
    """SHA-256 of a feed's content. Raises `FeedError`."""
    with of_feed(path):
        return open_source(path).digest()


def _matches(planned: PlanFile) -> Iterator[tuple[str, Path]]:
    """Name in the plan and path, of every match of every entry."""
    for entry in planned.plan.feeds:
        found: list[str] = []
        if is_pattern(entry):
            # The folder of the plan may have a name that looks like a pattern, so it is no part of it.
            pattern, home = os.path.expanduser(entry), planned.place(".")  # noqa: PTH111
            found = glob.glob(pattern, root_dir=home, recursive=True)  # noqa: PTH207
        for name in sorted(found) or [entry]:
            yield name, planned.place(name)


def _opened(name: str, path: Path) -> PlannedFeed:
    feed = PlannedFeed(name, path)
    try:
        if is_pattern(name) and not path.exists():
            raise FeedError(f"{path}: no file or folder matches", path)
        with of_feed(path):
            source = open_source(path)
            feed.zone = feed_zone(source, Report())
            feed.sha256 = source.digest()
    except FeedError as error:
        feed.broken = str(error)
    return feed
