"""One feed, from its files to integer columns."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import date
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa

from ...storage.errors import HeadwayError
from . import clock, services
from .footpaths import TRANSFERS, clean_transfers
from .places import STOPS, places
from .reading import read_frame
from .report import Report
from .source import Source
from .stop_times import TripRows, read_trip_rows
from .trips import FREQUENCIES, TRIPS, clean_frequencies, distinct_trips, runs, seconds_needed


@dataclass(frozen=True)
class Feed:
    """What one feed contributes to a timetable; `stop` numbers of `rows` are rows of `places`.

    `runs` has `trip` (a row of `trip_ids` and of `rows`) and `shift`, sorted by both. `first` and `last` are
    the feed's first and last active date.
    """

    name: str
    zone: ZoneInfo
    first: date
    last: date
    places: pd.DataFrame
    trip_ids: pa.Array
    rows: TripRows
    runs: pd.DataFrame
    transfers: pd.DataFrame


def feed_zone(source: Source, report: Report) -> ZoneInfo:
    """The timezone in which the feed's times are local."""
    agency = read_frame(source, "agency.txt", ("agency_timezone",), report)
    return clock.timezone(agency, f"{source.name}/agency.txt")


def read_feed(
    source: Source, prefix: str, day: date, days: int, store_zone: ZoneInfo, pool: Executor, report: Report
) -> Feed:
    """Read what of a feed matters to a store that covers `days` days from `day`.

    Raises `HeadwayError` for a file without its required columns, a damaged file, a date outside the feed's
    service, and the first drop of a strict report.
    """
    horizon = clock.DAY * days
    with report.step("read tables"):
        zone = feed_zone(source, report)
        stop_table = _filled(source, "stops.txt", STOPS, ("stop_id",), report)
        found = places(stop_table, prefix, f"{source.name}/stops.txt", report)
        trip_table = _filled(source, "trips.txt", TRIPS, ("trip_id", "service_id"), report)
        trips = distinct_trips(trip_table, f"{source.name}/trips.txt", report)
        calendar, exceptions = _calendars(source, trips, report)
        first, last = _span(source, calendar, exceptions)
        if not first <= day <= last:
            raise HeadwayError(
                f"{source.path}: {day} is outside its service: first active date {first} ({first:%Y%m%d}), "
                f"last {last} ({last:%Y%m%d}); choose a --date between them"
            )
        offsets = clock.day_offsets(day, days, zone, store_zone)
        active = services.active_days(calendar, exceptions, offsets)
        offset_frame = pd.DataFrame({"date": [f"{when:%Y%m%d}" for when in offsets], "offset": list(offsets.values())})
        frequency_table = read_frame(source, "frequencies.txt", FREQUENCIES, report)
        frequencies = clean_frequencies(frequency_table, trips, f"{source.name}/frequencies.txt", report)
        transfer_table = read_frame(source, "transfers.txt", TRANSFERS, report)
        transfers = clean_transfers(transfer_table, prefix, f"{source.name}/transfers.txt", report)
        need = seconds_needed(trips, active, offset_frame, frequencies, horizon)
    trip_ids = pa.array(trips["trip_id"], pa.string())
    stop_ids = pa.array(found["id"][~found["is_station"]].str.slice(len(prefix)), pa.string())
    rows = read_trip_rows(source, trip_ids, need, stop_ids, pool, report)
    with report.step("trips"):
        times = _first_and_last(rows)
        run = runs(trips, active, offset_frame, frequencies, times, horizon)
    return Feed(source.name, zone, first, last, found, trip_ids, rows, run, transfers)


def _filled(source: Source, table: str, columns: tuple[str, ...], required: tuple[str, ...], report: Report):
    """A table that no feed can do without."""
    frame = read_frame(source, table, columns, report, required)
    if not len(frame):
        raise HeadwayError(f"{source.name}/{table}: it holds no lines; fetch the feed again")
    return frame


def _calendars(source: Source, trips: pd.DataFrame, report: Report) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Good lines of both calendars, of services that a trip uses."""
    calendar, exceptions = (
        clean(
            read_frame(source, table, columns, report, required=columns[:1] + columns[-2:]),
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
    trip_table = _filled(source, "trips.txt", TRIPS, ("trip_id", "service_id"), report)
    return _span(source, *_calendars(source, trip_table, report))


def _span(source: Source, calendar: pd.DataFrame, exceptions: pd.DataFrame) -> tuple[date, date]:
    found = services.span(calendar, exceptions)
    if found is None:
        raise HeadwayError(f"{source.path}: no trip runs on any date; check calendar.txt and calendar_dates.txt")
    return found


def _first_and_last(rows: TripRows) -> pd.DataFrame:
    """First and last departure of every trip with a hop."""
    trip = np.flatnonzero(np.diff(rows.offset) > 1)
    first, last = rows.offset[trip], rows.offset[trip + 1] - 2
    return pd.DataFrame({"trip": trip.astype(np.int32), "first": rows.departure[first], "last": rows.departure[last]})
