"""`headway nightly`: a plan to a current store, every night, and never a night without a good one."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

from ...storage import bundle
from ...storage import store as stores
from ...storage.draft import draft
from ...storage.errors import HeadwayError
from ...storage.store import Store
from .. import show
from ..build import build_feeds
from ..gtfs import FeedError
from ..gtfs.report import Report
from ..progress import Steps
from ..settings import Settings
from .feeds import PlannedFeed, digest, planned_feeds, prefixed
from .output import CURRENT, Output, locked_output
from .plan import PlanFile, load_plan
from .report import Night

FRESH, LEFT_OUT, BUSY = 0, 3, 4
LAST = "report.json"


def run_nightly(file: Path, quiet: bool) -> int:
    """Bring the output of a plan up to date and return the exit status.

    0: `current` leads to a whole store of what the plan says. 3: it does, but feeds were left out. 4: another run is at
    work. Otherwise raises `HeadwayError`, and `current` is as it was. Each run that had a readable plan and the output
    to itself writes `report.json`.
    """
    planned = load_plan(file)
    place = Path(os.path.realpath(planned.place(planned.plan.output)))
    with locked_output(place) as output:
        if output is None:
            complain(f"{place}: another run is at work in it; nothing was done")
            return BUSY
        night = Night(file, now(), output.current())
        try:
            left_out = Run(planned, output, night, quiet).run()
        except BaseException as error:
            night.status = "failed"
            night.error = " ".join((_cause(error) or type(error).__name__).split())
            if trouble := _report(night, output):
                complain(trouble)
            if isinstance(error, HeadwayError | OSError):
                raise HeadwayError(f"{night.error}; {_state(output)}") from error
            raise
        if trouble := _report(night, output):
            raise HeadwayError(f"{trouble}; {_state(output)}")
        return LEFT_OUT if left_out else FRESH


def now() -> datetime:
    """This moment."""
    return datetime.now(UTC)


def complain(line: str) -> None:
    """A line that is shown even to those who want silence."""
    print("headway: " + " ".join(line.split()), file=sys.stderr, flush=True)


class Run:
    """One run of a plan in its output folder."""

    def __init__(self, planned: PlanFile, output: Output, night: Night, quiet: bool) -> None:
        self.planned, self.output, self.night, self.quiet = planned, output, night, quiet

    def run(self) -> bool:
        """Look, build if anything changed, publish, remove the oldest; whether feeds were left out.

        Raises `HeadwayError` and OSError.
        """
        output, night = self.output, self.night
        output.check()
        for path in output.left_overs():
            self._removed(path, lambda path=path: shutil.rmtree(path) if path.is_dir() else path.unlink())
        with night.step("look at feeds"):
            night.feeds = planned_feeds(self.planned)
        self._refuse_broken()
        day, settings = self._dates()
        key = self._key(day, settings)
        with night.step("check stores"):
            found = self._whole(key)
        if found is None:
            name = output.new_name(night.started, key)
            store = self._build(day, settings, output.path / name)
            night.status = "built"
        else:
            name, store = found
            night.status = "unchanged" if name == night.before else "published"
        for feed in night.feeds:
            feed.broken = feed.broken or store.facts.get("left out", {}).get(feed.name)
        night.describe(store)
        if night.status != "unchanged":
            if not (own := output.path / f"{name}.json").exists():
                night.write(own, name)
            output.publish(name)
        self._say(f"{output.path / CURRENT} leads to {name}: {night.status}")
        left_out = [feed.broken for feed in night.feeds if feed.broken is not None]
        for why in left_out:
            complain(f"left out: {why}")
        night.removed = [
            name
            for name in output.surplus(self.planned.plan.keep)
            if self._removed(output.path / name, lambda name=name: output.remove(name))
        ]
        return bool(left_out)

    def _say(self, line: str) -> None:
        if not self.quiet:
            print(line, file=sys.stderr, flush=True)

    def _refuse_broken(self) -> None:
        """Raise `HeadwayError` where the plan does not go on without a broken feed, or none is left."""
        broken = [feed.broken for feed in self.night.feeds if feed.broken is not None]
        if broken and self.planned.plan.on_broken_feed == "fail":
            more = f" (and {len(broken) - 1} more feeds are broken, see {LAST})" if len(broken) > 1 else ""
            raise HeadwayError(f"{broken[0]}{more}")
        if len(broken) == len(self.night.feeds):
            raise HeadwayError(f"no feed is left: {broken[0]}")

    def _dates(self) -> tuple[date, Settings]:
        """First date and settings; today is where the first feed that can be opened keeps its clock."""
        night = self.night
        zone = next(feed.zone for feed in night.feeds if feed.zone is not None)
        try:
            day, days = self.planned.plan.dates.on(night.started.astimezone(zone).date())
        except HeadwayError as error:
            raise HeadwayError(f"{self.planned.file}: {error}") from None
        settings = self.planned.settings(days)
        night.first, night.days = str(day), settings.build.days
        names = [feed.name for feed in night.feeds]
        self._say(f"{self.planned.file}: {settings.build.days} days from {day}, feeds: {', '.join(names)}")
        return day, settings

    def _key(self, day: date, settings: Settings) -> str:
        """Tells apart whatever makes a store another one; the same every night when nothing changed."""
        what = {
            "feeds": [[feed.name, feed.sha256] for feed in self.night.feeds],
            "broken feeds": self.planned.plan.on_broken_feed,
            "prefixed": prefixed(self.planned),
            "date": str(day),
            "build": settings.build.model_dump(exclude={"frames"}),
            "walk": settings.walk.model_dump(),
            "format": [bundle.LAYOUT, stores.VERSION, version("headway")],
        }
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:12]

    def _whole(self, key: str) -> tuple[str, Store] | None:
        """A store of this key with every checksum right."""
        for name in self.output.built_from(key):
            try:
                return name, stores.load(self.output.path / name, verify=True)
            except HeadwayError as error:
                complain(f"{error} (headway nightly does so now)")
        return None

    def _build(self, day: date, settings: Settings, target: Path) -> Store:
        """Build and write a store, without the feeds that turn out to be broken if the plan says so; the store as read
        back from the disk."""
        begun = perf_counter()
        with Steps(self.quiet) as steps:
            report = self._written(day, settings, target, steps)
            with report.step("verify"):
                written = stores.load(target, verify=True)
        self.night.seconds |= report.seconds
        if not self.quiet:
            show.built(written, report, target, perf_counter() - begun)
        return written

    def _written(self, day: date, settings: Settings, target: Path, steps: Steps) -> Report:
        with draft(target) as made:
            while True:
                report = Report(announce=steps)
                good = [feed for feed in self.night.feeds if feed.broken is None]
                try:
                    paths = [feed.path for feed in good]
                    store = build_feeds(paths, day, settings, report, prefixed(self.planned), made.array)
                    break
                except FeedError as error:
                    next(feed for feed in good if feed.path == error.path).broken = str(error)
                    self._refuse_broken()
            with report.step("compare feeds"):
                self._refuse_changed(good)
            with report.step("write"):
                broken = {feed.name: feed.broken for feed in self.night.feeds if feed.broken is not None}
                facts = {"rebuild": f"headway nightly {self.planned.file.name}", "left out": broken}
                warnings = store.facts["warnings"] + [f"left out: {why}" for why in broken.values()]
                replace(store, facts=store.facts | facts | {"warnings": warnings}).finish(made)
        return report

    def _refuse_changed(self, feeds: list[PlannedFeed]) -> None:
        """A feed replaced while it was read may have given tables of two editions, which no rule of a feed finds."""
        for feed in feeds:
            if digest(feed.path) != feed.sha256:
                raise HeadwayError(f"{feed.path}: it changed while it was read; run again when its download is done")

    def _removed(self, path: Path, remove: Callable[[], object]) -> bool:
        """Whether it could be removed; if not, that is told and no reason to leave users with yesterday's store."""
        try:
            remove()
        except OSError as error:
            complain(f"{path}: could not be removed: {error.strerror or error}; check its permissions")
            return False
        self._say(f"removed {path}")
        return True


def _report(night: Night, output: Output) -> str | None:
    """Write the report of the run; what went wrong with that."""
    try:
        night.write(output.path / LAST, output.current())
    except OSError as error:
        return f"{output.path / LAST}: {error.strerror or error}; make room, or check its permissions"
    return None


def _cause(error: BaseException) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'a file'}: {error.strerror or error}; check the disk and its permissions"
    return str(error)


def _state(output: Output) -> str:
    whole = (output.path / CURRENT / bundle.MANIFEST).exists()
    return f"current is {output.current()}" if whole else "there is no current store"
