"""GTFS feeds to a timetable: one file per step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from ...storage.errors import HeadwayError
from ...storage.timetable import Footpaths, Places, Timetable, Trips
from .broken import FeedError, of_feed
from .clock import DAY
from .feed import Feed, feed_zone, read_feed
from .footpaths import footpaths
from .places import members
from .report import Report
from .source import Source, open_source

__all__ = ["FeedError", "FeedFacts", "Report", "Walking", "read_timetable"]


@dataclass(frozen=True)
class Walking:
    """How footpaths are made: metres, metres a second, and a factor on distances."""

    radius_m: float
    speed_mps: float
    detour: float


@dataclass(frozen=True)
class FeedFacts:
    """What `headway info` tells of a feed."""

    name: str
    sha256: str
    timezone: str
    first_date: str
    last_date: str
    trips: int
    active_trips: int


def read_timetable(
    feeds: Sequence[Path],
    day: date,
    days: int,
    walking: Walking | None,
    threads: int,
    report: Report,
    prefixed: bool | None = None,
) -> tuple[Timetable, list[FeedFacts]]:
    """Read feeds into one timetable on the first feed's clock; vertices are stops in the order of the feeds.

    Ids stay as they are for one feed and get a prefix `feedname:` for several, unless `prefixed` says which it is.
    `walking` None leaves out all footpaths. Raises `FeedError` for a feed that can't be read or has no service on
    `day`, and `HeadwayError` for two feeds of one name.
    """
    sources: list[Source] = []
    for path in feeds:
        with of_feed(path):
            sources.append(open_source(path))
    twice = [name for name, count in Counter(source.name for source in sources).items() if count > 1]
    if twice:
        raise HeadwayError(f"two feeds are named {twice[0]}, and names tell their ids apart; rename one of them")
    several = len(sources) > 1 if prefixed is None else prefixed
    prefixes = [f"{source.name}:" if several else "" for source in sources]
    with of_feed(feeds[0]):
        zone = feed_zone(sources[0], report)
    read: list[Feed] = []
    facts: list[FeedFacts] = []
    with ThreadPoolExecutor(threads) as pool:
        hashes = [pool.submit(source.digest) for source in sources]
        for source, prefix in zip(sources, prefixes, strict=True):
            with of_feed(source.path):
                read.append(read_feed(source, prefix, day, days, zone, pool, report))
        for source, feed, future in zip(sources, read, hashes, strict=True):
            with of_feed(source.path):
                facts.append(_facts(feed, future.result()))
    with report.step("join feeds"):
        places, shifts = _join_places(read)
        trips = _join_trips(read, shifts, prefixes)
        stands = members(places)
        vertices = int((~places["is_station"]).sum())
    walks = Footpaths.none(vertices)
    if walking is not None:
        with report.step("footpaths"):
            transfers = pd.concat([feed.transfers for feed in read])
            paths = footpaths(places, stands, transfers, report, walking.radius_m, walking.speed_mps, walking.detour)
            walks = Footpaths(
                _offsets(paths["from"], vertices),
                paths["to"].to_numpy(np.uint32),
                paths["seconds"].to_numpy(np.int32),
            )
    table = pa.Table.from_pandas(places, preserve_index=False).replace_schema_metadata(None)
    where = Places(table, _offsets(stands["place"], len(places)), stands["stop"].to_numpy(np.uint32))
    return Timetable(DAY * days, vertices, where, trips, walks), facts


def _facts(feed: Feed, sha256: str) -> FeedFacts:
    active = int(feed.runs["trip"].nunique())
    return FeedFacts(feed.name, sha256, str(feed.zone), str(feed.first), str(feed.last), len(feed.trip_ids), active)


def _join_places(feeds: list[Feed]) -> tuple[pd.DataFrame, list[int]]:
    """All stops, then all stations; and for each feed what its stop numbers are raised by."""
    counts = [int((~feed.places["is_station"]).sum()) for feed in feeds]
    together = pd.concat([feed.places for feed in feeds], ignore_index=True)
    together = together.sort_values("is_station", kind="stable", ignore_index=True)
    return together, [int(base) for base in np.cumsum([0, *counts])[:-1]]


def _join_trips(feeds: list[Feed], shifts: list[int], prefixes: list[str]) -> Trips:
    """Trips that run, feed by feed."""
    parts: dict[str, list[np.ndarray]] = {
        name: [] for name in ("rows", "vertex", "arrival", "departure", "flags", "runs", "shift")
    }
    ids: list[pa.Array] = []
    for feed, base, prefix in zip(feeds, shifts, prefixes, strict=True):
        trip, count = np.unique(feed.runs["trip"].to_numpy(), return_counts=True)
        names = feed.trip_ids.take(pa.array(trip))
        ids.append(pa.array([prefix + name for name in names.to_pylist()], pa.string()) if prefix else names)
        length = np.diff(feed.rows.offset)[trip]
        keep = np.repeat(np.isin(np.arange(len(feed.trip_ids)), trip), np.diff(feed.rows.offset))
        parts["rows"].append(length)
        parts["vertex"].append((feed.rows.stop[keep] + base).astype(np.uint32))
        for name in ("arrival", "departure", "flags"):
            parts[name].append(getattr(feed.rows, name)[keep])
        parts["runs"].append(count)
        parts["shift"].append(feed.runs["shift"].to_numpy(np.int32))
    joined = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    return Trips(
        pa.concat_arrays(ids),
        np.concatenate([[0], np.cumsum(joined["rows"])]),
        joined["vertex"],
        joined["arrival"],
        joined["departure"],
        joined["flags"],
        np.concatenate([[0], np.cumsum(joined["runs"])]),
        joined["shift"],
    )


def _offsets(sorted_keys: pd.Series, count: int) -> np.ndarray:
    """CSR offsets int64[count + 1] of sorted keys."""
    return np.searchsorted(sorted_keys.to_numpy(), np.arange(count + 1)).astype(np.int64)
