"""Frame steps don't rely on the order of rows, and give the same frames on cuDF as on pandas."""

from __future__ import annotations

import random
from datetime import date
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from headway.pipeline.gtfs import clock, services
from headway.pipeline.gtfs.footpaths import TRANSFERS, clean_transfers
from headway.pipeline.gtfs.frames import to_host
from headway.pipeline.gtfs.places import STOPS, members, places
from headway.pipeline.gtfs.report import Report
from headway.pipeline.gtfs.trips import (
    FREQUENCIES,
    TRIPS,
    clean_frequencies,
    distinct_trips,
    runs,
    seconds_needed,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import feeds

TABLES = {
    "stops.txt": STOPS,
    "trips.txt": TRIPS,
    "calendar.txt": services.CALENDAR,
    "calendar_dates.txt": services.CALENDAR_DATES,
    "frequencies.txt": FREQUENCIES,
    "transfers.txt": TRANSFERS,
}


def frames_of(tables: dict) -> dict[str, pd.DataFrame]:
    """A random feed's tables as `read_frame` gives them."""
    found = {}
    for name, columns in TABLES.items():
        lines = [{column: row.get(column, "").strip() for column in columns} for row in tables.get(name, [])]
        frame = pd.DataFrame(lines, columns=list(columns), dtype="str")
        found[name] = frame.assign(row=np.arange(2, len(frame) + 2))
    return found


def steps(frames: dict, library=pd) -> dict:
    """Every frame step in a row; host frames by name."""
    report = Report()
    trips = distinct_trips(frames["trips.txt"], "trips", report)
    stops = places(frames["stops.txt"], "f:", "stops", report)
    calendar = services.clean_calendar(frames["calendar.txt"], "calendar", report)
    exceptions = services.clean_exceptions(frames["calendar_dates.txt"], "calendar_dates", report)
    offsets = clock.day_offsets(date(2026, 6, 10), 2, ZoneInfo("Europe/Berlin"), ZoneInfo("Europe/Berlin"))
    active = services.active_days(calendar, exceptions, offsets)
    dates = library.DataFrame({"date": [f"{day:%Y%m%d}" for day in offsets], "offset": list(offsets.values())})
    days = active.merge(dates, on="date")[["service_id", "offset"]]
    frequencies = clean_frequencies(frames["frequencies.txt"], trips, "frequencies", report)
    times = library.DataFrame({"trip": to_host(trips["trip"]).to_numpy()}).assign(first=28800, last=30600)
    found = {
        "trips": trips,
        "places": stops,
        "members": members(stops),
        "active": active,
        "frequencies": frequencies.sort_values(["trip", "start", "end", "headway"], ignore_index=True),
        "transfers": clean_transfers(frames["transfers.txt"], "f:", "transfers", report),
        "runs": runs(trips, days, frequencies, times, 172800),
        "need": pd.Series(seconds_needed(trips, days, frequencies, 172800)),
        "span": pd.Series(services.span(calendar, exceptions) or ()),
        "dropped": pd.Series({key: entry.count for key, entry in report.dropped.items()}, dtype=int),
    }
    return {name: frame if isinstance(frame, pd.Series) else to_host(frame) for name, frame in found.items()}


def same(left: dict, right: dict) -> None:
    """Equal names and values; dtypes may differ in width."""
    assert left.keys() == right.keys()
    for name, frame in left.items():
        other = right[name]
        if name == "transfers":
            order = ["from_stop_id", "to_stop_id", "kind", "least"]
            frame, other = (part.sort_values(order, ignore_index=True) for part in (frame, other))
        if isinstance(frame, pd.Series):
            pd.testing.assert_series_equal(frame, other, check_dtype=False)
        else:
            pd.testing.assert_frame_equal(
                frame.reset_index(drop=True), other.reset_index(drop=True), check_dtype=False, obj=name
            )


@settings(max_examples=40)
@given(tables=feeds(), seed=st.integers(0, 2**16))
def test_steps_do_not_rely_on_row_order(tables: dict, seed: int) -> None:
    frames = frames_of(tables)
    shuffled = {
        name: frame.sample(frac=1, random_state=random.Random(seed).randrange(2**31), ignore_index=True)
        for name, frame in frames.items()
    }
    same(steps(frames), steps(shuffled))


def cudf_or_skip():
    """cuDF where a GPU answers; importing it succeeds without one and fails at the first frame."""
    cudf = pytest.importorskip("cudf")
    try:
        cudf.DataFrame({"x": [1]})
    except Exception as error:
        pytest.skip(f"no GPU answers: {error}")
    return cudf


@settings(max_examples=25)
@given(tables=feeds())
def test_steps_on_cudf_equal_those_on_pandas(tables: dict) -> None:
    cudf = cudf_or_skip()
    frames = frames_of(tables)
    same(steps(frames), steps({name: cudf.DataFrame(frame) for name, frame in frames.items()}, cudf))
