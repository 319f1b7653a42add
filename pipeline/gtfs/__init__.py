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
from dask.delayed import delayed

from ...cluster.dask import Workers
from ...storage.errors import HeadwayError
from ...storage.timetable import Footpaths, Places
from ..network import Network
from ..partition import TripPart
from .broken import FeedError, of_feed
from .clock import DAY
from .feed import Feed, feed_zone, read_feed
from .footpaths import footpaths
from .frames import Frames
from .places import members
from .report import Report
from .source import Source, open_source
from .trip_parts import Found

__all__ = ["FeedError", "FeedFacts", "Report", "Walking", "read_network"]


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


def read_network(
    feeds: Sequence[Path],
    day: date,
    days: int,
    walking: Walking | None,
    crew: Workers,
    report: Report,
    prefixed: bool | None = None,
    frames: Frames = "pandas",
) -> tuple[Network, list[FeedFacts]]:
    """Read feeds into one network on the first feed's clock; vertices are stops in the order of the feeds.

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
    base = 0
    with ThreadPoolExecutor(1) as hashing:
        hashes = [hashing.submit(source.digest) for source in sources]
        for source, prefix in zip(sources, prefixes, strict=True):
            with of_feed(source.path):
                read.append(read_feed(source, prefix, day, days, zone, base, crew, report, frames))
            base += int((~read[-1].places["is_station"]).sum())
        for source, feed, future in zip(sources, read, hashes, strict=True):
            with of_feed(source.path):
                facts.append(_facts(feed, future.result()))
    with report.step("join feeds"):
        places = _join_places(read)
        ids = pa.concat_arrays([_ids(feed, prefix) for feed, prefix in zip(read, prefixes, strict=True)])
        stands = members(places)
        vertices = base
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
    trips = delayed(_trips)
    parts = [trips(part) for feed in read for part in feed.parts]
    of_parts = [found.facts for feed in read for found in feed.found]
    return Network(DAY * days, vertices, where, walks, ids, parts, of_parts), facts


def _trips(part: tuple[TripPart, Found]) -> TripPart:
    return part[0]


def _facts(feed: Feed, sha256: str) -> FeedFacts:
    active = sum(found.facts.trips for found in feed.found)
    return FeedFacts(feed.name, sha256, str(feed.zone), str(feed.first), str(feed.last), len(feed.trip_ids), active)


def _join_places(feeds: list[Feed]) -> pd.DataFrame:
    """All stops, then all stations."""
    together = pd.concat([feed.places for feed in feeds], ignore_index=True)
    return together.sort_values("is_station", kind="stable", ignore_index=True)


def _ids(feed: Feed, prefix: str) -> pa.Array:
    """Ids of the trips that run."""
    trip = np.concatenate([np.empty(0, np.int32), *(found.trip for found in feed.found)])
    names = feed.trip_ids.take(pa.array(trip))
    return pa.array([prefix + name for name in names.to_pylist()], pa.string()) if prefix else names


def _offsets(sorted_keys: pd.Series, count: int) -> np.ndarray:
    """CSR offsets int64[count + 1] of sorted keys."""
    return np.searchsorted(sorted_keys.to_numpy(), np.arange(count + 1)).astype(np.int64)
