"""The build: feeds, or a file of connections, to a store."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import date
from functools import partial
from pathlib import Path

from ..cluster.dask import Workers
from ..cluster.devices import cuda_device
from ..storage.errors import HeadwayError
from ..storage.store import Store
from .connections_file import read_connections
from .gather import New, in_memory
from .graph import On, build_raw, build_store
from .gtfs import Walking, read_network
from .gtfs.frames import Frames
from .gtfs.report import Report
from .settings import Settings


def build_feeds(
    feeds: Sequence[Path],
    day: date,
    settings: Settings,
    report: Report,
    prefixed: bool | None = None,
    new: New = in_memory,
) -> Store:
    """A store of GTFS feeds that covers `settings.build.days` days from `day`.

    Ids get a prefix `feedname:` where there are several feeds, or as `prefixed` says. `new` makes the arrays, for
    example `draft.Draft.array`. Raises `FeedError`, a
    `HeadwayError`, for a feed that can't be read or has no service on `day` and for the first drop of a strict
    report; `HeadwayError` for a store that would hold no departure.
    """
    walk = settings.walk
    walking = Walking(walk.radius_m, walk.speed_mps, walk.detour) if walk.mode == "default" else None
    with settings.open_workers() as crew:
        on = _on(crew, settings)
        frames: Frames = "cudf" if on.gpu and not _without("cudf") else "pandas"
        network, feed_facts = read_network(feeds, day, settings.build.days, walking, crew, report, prefixed, frames)
        store = build_store(network, settings.build.subtrips, settings.build.cluster_minutes, on, report, new)
    if store is None:
        spans = "; ".join(f"{fact.name} is active from {fact.first_date} to {fact.last_date}" for fact in feed_facts)
        names = ", ".join(str(path) for path in feeds)
        raise HeadwayError(
            f"{names}: no departure in {settings.build.days} days from {day}; {spans}; choose another with --date, "
            "or with dates in a plan"
        )
    build = {
        "date": str(day),
        "days": settings.build.days,
        "cluster minutes": settings.build.cluster_minutes,
        "subtrips": settings.build.subtrips,
        "walk": walk.mode,
        **({"radius": walk.radius_m, "speed": walk.speed_mps, "detour": walk.detour} if walking else {}),
    }
    return _with_facts(store, [asdict(fact) for fact in feed_facts], build, report, _command(feeds, day, settings))


def build_connections(path: Path, settings: Settings, report: Report, new: New = in_memory) -> Store:
    """A store of the paper's input; no walking and no sub-trips. `new` makes the arrays. Raises `HeadwayError` for a
    bad file."""
    with report.step("read connections"):
        raw, timetable = read_connections(path)
        with path.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    minutes = settings.build.cluster_minutes
    with settings.open_workers() as crew:
        store = build_raw(raw, timetable, minutes, _on(crew, settings), report, new)
    build = {"cluster minutes": minutes, "subtrips": "none", "walk": "none"}
    source = {"name": path.name, "sha256": sha256}
    command = f"headway build --connections {path.name} -o STORE --cluster-minutes {minutes}"
    return _with_facts(store, [source], build, report, command)


def _on(crew: Workers, settings: Settings) -> On:
    """Partitions are for GPUs where each worker has one that works; threads and local processes use none unasked.

    Raises `HeadwayError` where GPUs are asked for and can't be used.
    """
    asked = settings.build.frames
    if asked == "pandas" or (asked == "auto" and settings.workers.kind in ("threads", "processes")):
        return On(crew)
    trouble = next(filter(None, crew.on_each(partial(_without, "cupy"))), _without("cudf") if asked == "cudf" else "")
    if trouble and asked == "cudf":
        raise HeadwayError(f"build.frames=cudf: {trouble}; --set build.frames=auto does without")
    return On(crew, gpu=not trouble)


def _without(package: str) -> str:
    """What keeps this process from using a GPU by a package."""
    installed = importlib.util.find_spec(package) is not None
    return cuda_device().trouble or ("" if installed else f"{package} is not installed: pip install headway[gpu]")


def _with_facts(store: Store, sources: list[dict], build: dict, report: Report, command: str) -> Store:
    dropped = [asdict(entry) for entry in sorted(report.dropped.values(), key=lambda d: (d.file, d.cause))]
    facts = {
        "sources": sources,
        "build": build,
        "rebuild": command,
        "dropped": dropped,
        "warnings": report.warnings,
        "counts": store.facts,
    }
    return replace(store, facts=facts)


def _command(feeds: Sequence[Path], day: date, settings: Settings) -> str:
    """What to type to build the store again; without folders, which differ from machine to machine."""
    walk = settings.walk
    names = " ".join(path.name for path in feeds)
    command = f"headway build {names} -o STORE --date {day} --days {settings.build.days} --walk {walk.mode}"
    if walk.mode == "default":
        command += f" --walk-radius {walk.radius_m:g} --walk-speed {walk.speed_mps:g} --walk-detour {walk.detour:g}"
    return command + f" --cluster-minutes {settings.build.cluster_minutes} --subtrips {settings.build.subtrips}"
