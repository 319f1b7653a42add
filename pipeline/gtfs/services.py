"""Which services run on which dates: calendar.txt and calendar_dates.txt together."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, datetime, timedelta

import pandas as pd

from .frames import concat, library, to_host
from .report import Report

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
CALENDAR = ("service_id", *WEEKDAYS, "start_date", "end_date")
CALENDAR_DATES = ("service_id", "date", "exception_type")


def clean_calendar(calendar: pd.DataFrame, file: str, report: Report) -> pd.DataFrame:
    """Lines with two real dates; others are counted."""
    good = _is_date(calendar["start_date"]) & _is_date(calendar["end_date"])
    report.drop(file, "a line with a malformed date", calendar["service_id"][~good])
    return calendar[good]


def clean_exceptions(exceptions: pd.DataFrame, file: str, report: Report) -> pd.DataFrame:
    """Lines with a real date and type 1 or 2; others are counted."""
    good = _is_date(exceptions["date"])
    report.drop(file, "a line with a malformed date", exceptions["service_id"][~good])
    exceptions = exceptions[good]
    known = exceptions["exception_type"].isin(["1", "2"])
    report.drop(file, "an exception_type other than 1 and 2", exceptions["service_id"][~known])
    return exceptions[known]


def active_days(calendar: pd.DataFrame, exceptions: pd.DataFrame, dates: Collection[date]) -> pd.DataFrame:
    """`service_id`, `date` (text, YYYYMMDD) for every date of `dates` on which a service runs.

    Sorted by both. A date both added and removed is removed.
    """
    window = {"date": [f"{day:%Y%m%d}" for day in dates], "weekday": [day.weekday() for day in dates]}
    every = calendar.assign(cross=0).merge(library(calendar).DataFrame(window).assign(cross=0), on="cross")
    runs = (every["start_date"] <= every["date"]) & (every["end_date"] >= every["date"])
    flagged = every["weekday"] < 0
    for number, name in enumerate(WEEKDAYS):
        flagged |= (every["weekday"] == number) & (every[name] == "1")
    inside = exceptions[exceptions["date"].isin(window["date"])]
    added, removed = (inside.loc[inside["exception_type"] == kind, ["service_id", "date"]] for kind in ("1", "2"))
    active = concat([every.loc[runs & flagged, ["service_id", "date"]], added]).drop_duplicates()
    active = active.merge(removed.drop_duplicates().assign(removed=1), on=["service_id", "date"], how="left")
    active = active.loc[active["removed"].isna(), ["service_id", "date"]]
    return active.sort_values(["service_id", "date"], ignore_index=True)


def span(calendar: pd.DataFrame, exceptions: pd.DataFrame) -> tuple[date, date] | None:
    """First and last active date with exceptions applied, or None when no date is."""
    calendar, exceptions = to_host(calendar), to_host(exceptions)
    removed: dict[str, set[str]] = {}
    for service, day in _pairs(exceptions, "2"):
        removed.setdefault(service, set()).add(day)
    found: list[str] = [day for service, day in _pairs(exceptions, "1") if day not in removed.get(service, ())]
    for line in calendar.itertuples(index=False):
        weekdays = [getattr(line, name) == "1" for name in WEEKDAYS]
        if any(weekdays):
            gone = removed.get(line.service_id, set())
            found += _first_running(line.start_date, line.end_date, weekdays, gone, 1)
            found += _first_running(line.end_date, line.start_date, weekdays, gone, -1)
    return (_date(min(found)), _date(max(found))) if found else None


def _pairs(exceptions: pd.DataFrame, kind: str) -> list[tuple[str, str]]:
    lines = exceptions[exceptions["exception_type"] == kind]
    return list(zip(lines["service_id"], lines["date"], strict=True))


def _first_running(begin: str, end: str, weekdays: list[bool], gone: set[str], step: int) -> list[str]:
    """The first active date from `begin` towards `end`; at most a week more than the dates removed."""
    day = _date(begin)
    for _ in range(len(gone) + 8):
        text = f"{day:%Y%m%d}"
        if (text > end) if step > 0 else (text < end):
            return []
        if weekdays[day.weekday()] and text not in gone:
            return [text]
        day += timedelta(days=step)
    return []


def _date(text: str) -> date:
    return datetime.strptime(text, "%Y%m%d").date()


def _is_date(texts: pd.Series) -> pd.Series:
    """Real dates written YYYYMMDD; of years that a step past the end can't leave Python's calendar by."""
    shaped = (texts.str.len() == 8) & texts.str.match("[0-9]{8}")
    digits = texts.where(shaped, "19000100").astype("int64")
    year, month, day = digits // 10000, digits // 100 % 100, digits % 100
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    short = month.isin([4, 6, 9, 11])
    days = 31 - short.astype("int64") - (month == 2).astype("int64") * (3 - leap.astype("int64"))
    return shaped & (year >= 1900) & (year <= 9998) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= days)
