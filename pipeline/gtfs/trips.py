"""Which trips run when: active dates, frequencies, runs."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...kernels import text
from ..blocks import text_buffers
from .frames import concat, library, text_column
from .reading import first_lines
from .report import Report

TRIPS = ("trip_id", "service_id", "route_id")
FREQUENCIES = ("trip_id", "start_time", "end_time", "headway_secs")

# A trip active on the eve matters by departures after 24:00 and is read at once; one of earlier dates only by
# hours of 48 and more. Two hours of grace for days of 25 hours.
ALWAYS_READ = 26 * 3600


def distinct_trips(trips: pd.DataFrame, file: str, report: Report) -> pd.DataFrame:
    """One line a trip_id, the first; `trip` numbers them in file order."""
    trips = first_lines(trips, "trip_id", TRIPS, file, report)
    return trips.assign(trip=np.arange(len(trips), dtype=np.int32))


def seconds_needed(trips: pd.DataFrame, days: pd.DataFrame, frequencies: pd.DataFrame, horizon: int) -> np.ndarray:
    """For each trip the second of its service day from which a departure is inside the horizon, int32[trips].

    0 where the trip is to be read whatever its times, -1 where no day lets it matter. `days` has `service_id` and
    `offset`, the seconds from the store's midnight to that of a date on which it is active.
    """
    days = days[days["offset"] < horizon]
    days = days.assign(need=(-days["offset"]).clip(lower=0))
    least = days.groupby("service_id", as_index=False)["need"].min()
    need = trips.merge(least, on="service_id", how="left").sort_values("trip")["need"]
    need = need.fillna(-1).to_numpy(np.int32)
    by_frequency = np.zeros(len(trips), np.bool_)
    by_frequency[frequencies["trip"].to_numpy()] = True
    return np.where((need >= 0) & ((need <= ALWAYS_READ) | by_frequency), np.int32(0), need)


def clean_frequencies(frequencies: pd.DataFrame, trips: pd.DataFrame, file: str, report: Report) -> pd.DataFrame:
    """Good lines as numbers: `trip`, `start`, `end`, `headway` in seconds; bad ones are counted."""
    lines = frequencies.merge(trips[["trip_id", "trip"]], on="trip_id", how="left").sort_values("row")
    rows = np.arange(len(lines))
    start, end = (
        text.parse_times(*text_buffers(text_column(lines[name])), rows) for name in ("start_time", "end_time")
    )
    headway = text.parse_counts(*text_buffers(text_column(lines["headway_secs"])), rows)
    good = lines["trip"].notna().to_numpy() & (start >= 0) & (end >= 0) & (headway > 0)
    report.drop(file, "a bad line", lines["trip_id"][~good])
    return (
        library(lines)
        .DataFrame(
            {
                "trip": lines["trip"][good].astype(np.int32).to_numpy(),
                "start": start[good],
                "end": end[good],
                "headway": headway[good],
            }
        )
        .drop_duplicates()
    )


def runs(
    trips: pd.DataFrame,
    days: pd.DataFrame,
    frequencies: pd.DataFrame,
    times: pd.DataFrame,
    horizon: int,
) -> pd.DataFrame:
    """Each time that a trip runs with a departure in [0, horizon): `trip`, `shift`, sorted by both.

    `shift` is what to add to the trip's own times. `times` has `trip` with its `first` and `last` departure. `days` as
    for `seconds_needed`; a service may go by its id or a number.
    """
    latest = int(times["last"].max()) if len(times) else 0
    if len(frequencies):
        latest += int(frequencies["end"].max())
    days = days[(days["offset"] < horizon) & (days["offset"] >= -latest)]
    timed = trips[["trip", "service_id"]].merge(times, on="trip")
    dated = timed.merge(days, on="service_id")[["trip", "first", "last", "offset"]]
    found = dated.rename(columns={"offset": "shift"})
    if len(frequencies):
        named = dated["trip"].isin(frequencies["trip"])
        found = concat([found[~named], _by_frequency(dated[named], frequencies)])
    inside = (found["first"] + found["shift"] < horizon) & (found["last"] + found["shift"] >= 0)
    found = found.loc[inside, ["trip", "shift"]].drop_duplicates()
    return found.astype(np.int32).sort_values(["trip", "shift"], ignore_index=True)


def _by_frequency(dated: pd.DataFrame, frequencies: pd.DataFrame) -> pd.DataFrame:
    """Each start of trips with frequencies on their dates: `trip`, `first`, `last`, `shift`."""
    repeated = dated.merge(frequencies, on="trip")
    counts = (repeated["end"] - repeated["start"] + repeated["headway"] - 1) // repeated["headway"]
    counts = counts.clip(lower=0).to_numpy()
    repeated = repeated.take(np.repeat(np.arange(len(counts)), counts))
    turn = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    repeated = repeated.assign(turn=turn)
    start = repeated["offset"] + repeated["start"] + repeated["turn"] * repeated["headway"]
    return repeated.assign(shift=start - repeated["first"])[["trip", "first", "last", "shift"]]
