"""One feed, from its files to integer columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
from dask.delayed import Delayed

from ...cluster.dask import Workers
from ...storage.errors import HeadwayError
from .. import network
from ..ids import Ids
from . import clock, services
from .footpaths import TRANSFERS, clean_transfers
from .frames import Frames, library, text_column, to_host
from .places import STOPS, places
from .reading import read_frame
from .report import Report
from .source import Source
from .stop_times import Known, lines_ahead, read_blocks_of_trips
from .trip_parts import Found, Running, trip_parts
from .trips import FREQUENCIES, TRIPS, clean_frequencies, distinct_trips, seconds_needed

Read = Callable[..., Any]  # `read_frame` of one feed


@dataclass(frozen=True)
class Feed:
    """What one feed contributes to a network.

    `parts` give (`TripPart`, `Found`), and `found` are the latter, whose trips are rows of `trip_ids`. `first` and
    `last` are the feed's first and last active date.
    """

    name: str
    zone: ZoneInfo
    first: date
    last: date
    places: pd.DataFrame
    trip_ids: pa.Array
    parts: list[Delayed]
    found: list[Found]
    transfers: pd.DataFrame


def feed_zone(source: Source, report: Report) -> ZoneInfo:
    """The timezone in which the feed's times are local."""
    agency = read_frame(source, "agency.txt", ("agency_timezone",), report)
    return clock.timezone(agency, f"{source.name}/agency.txt")


def read_feed(
    source: Source,
    prefix: str,
    day: date,
    days: int,
    store_zone: ZoneInfo,
    base: int,
    crew: Workers,
    report: Report,
    frames: Frames = "pandas",
) -> Feed:
    """Read what of a feed matters to a store that covers `days` days from `day`; its first stop is vertex `base`.

    `frames` are for the tables but stop_times.txt, which becomes arrays at once.

    Raises `HeadwayError` for a file without its required columns, a damaged file, a date outside the feed's
    service, and the first drop of a strict report.
    """
    horizon, read = clock.DAY * days, partial(read_frame, source, report=report, frames=frames)
    with lines_ahead(source, report) as lines:
        with report.step("read tables"):
            zone = feed_zone(source, report)
            stop_table = _filled(read, source, "stops.txt", STOPS, ("stop_id",))
            found = to_host(places(stop_table, prefix, f"{source.name}/stops.txt", report))
            trip_table = _filled(read, source, "trips.txt", TRIPS, ("trip_id", "service_id"))
            trips = distinct_trips(trip_table, f"{source.name}/trips.txt", report)
            calendar, exceptions = _calendars(read, source, trips, report)
            first, last = _span(source, calendar, exceptions)
            if not first <= day <= last:
                raise HeadwayError(
                    f"{source.path}: {day} is outside its service: first active date {first} ({first:%Y%m%d}), "
                    f"last {last} ({last:%Y%m%d}); choose one between them with --date, or with dates in a plan"
                )
            offsets = clock.day_offsets(day, days, zone, store_zone)
            active = services.active_days(calendar, exceptions, offsets)
            shifts = {"date": [f"{when:%Y%m%d}" for when in offsets], "offset": list(offsets.values())}
            dates = library(active).DataFrame(shifts)
            active_days = active.merge(dates, on="date")[["service_id", "offset"]]
            frequency_table = read("frequencies.txt", FREQUENCIES)
            frequencies = clean_frequencies(frequency_table, trips, f"{source.name}/frequencies.txt", report)
            transfer_table = read("transfers.txt", TRANSFERS)
            transfers = to_host(clean_transfers(transfer_table, prefix, f"{source.name}/transfers.txt", report))
            need = seconds_needed(trips, active_days, frequencies, horizon)
            of_trips, of_days = map(to_host, _numbered(trips, active_days))
            frequencies = to_host(frequencies)
        trip_ids = text_column(trips["trip_id"])
        stop_ids = pa.array(found["id"][~found["is_station"]].str.slice(len(prefix)), pa.string())
        known = Known(Ids.of(trip_ids), Ids.of(stop_ids), need == 0, need, network.TRIPS_A_PART)
        blocks = read_blocks_of_trips(source, lines, known, need, crew, report)
    with report.step("trips"):
        running = Running(of_trips, of_days, frequencies, horizon, base)
        parts, seen = trip_parts(source, trip_ids, known.part, blocks, running, crew, report)
    return Feed(source.name, zone, first, last, found, trip_ids, parts, seen, transfers)


def _numbered(trips: pd.DataFrame, days: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`trip`, `service_id` of trips whose service has a day, by trip, and `service_id`, `offset` of the days; services
    by number, which is less to send about."""
    services_ = days[["service_id"]].drop_duplicates().sort_values("service_id", ignore_index=True)
    services_ = services_.assign(number=np.arange(len(services_), dtype=np.int32))
    of_trips, of_days = (frame.merge(services_, on="service_id").drop(columns="service_id") for frame in (trips, days))
    of_trips = of_trips[["trip", "number"]].sort_values("trip", ignore_index=True)
    return of_trips.rename(columns={"number": "service_id"}), of_days.rename(columns={"number": "service_id"})


def _filled(read: Read, source: Source, table: str, columns: tuple[str, ...], required: tuple[str, ...]) -> Any:
    """A table that no feed can do without."""
    frame = read(table, columns, required=required)
    if not len(frame):
        raise HeadwayError(f"{source.name}/{table}: it holds no lines; fetch the feed again")
    return frame


def _calendars(read: Read, source: Source, trips: pd.DataFrame, report: Report) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Good lines of both calendars, of services that a trip uses."""
    calendar, exceptions = (
        clean(
            read(table, columns, required=columns[:1] + columns[-2:]),
            f"{source.name}/{table}",
            report,
        )
        for table, columns, clean in (
            ("calendar.txt", services.CALENDAR, services.clean_calendar),
            ("calendar_dates.txt", services.CALENDAR_DATES, services.clean_exceptions),
        )
    )
    used = trips["service_id"].unique()
    return calendar[calendar["service_id"].isin(used)], exceptions[exceptions["service_id"].isin(used)]


def service_span(source: Source, report: Report) -> tuple[date, date]:
    """First and last active date of a feed's trips. Raises `HeadwayError` where there is none."""
    read = partial(read_frame, source, report=report)
    trip_table = _filled(read, source, "trips.txt", TRIPS, ("trip_id", "service_id"))
    return _span(source, *_calendars(read, source, trip_table, report))


def _span(source: Source, calendar: pd.DataFrame, exceptions: pd.DataFrame) -> tuple[date, date]:
    found = services.span(calendar, exceptions)
    if found is None:
        raise HeadwayError(f"{source.path}: no trip runs on any date; check calendar.txt and calendar_dates.txt")
    return found
