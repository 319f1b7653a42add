"""The clock of a store: integer seconds after local midnight of its first date, counted the GTFS way."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pandas as pd

from ...storage.errors import HeadwayError

DAY = 86400
# Hours have up to three digits, so a trip may depart up to 42 days after its service date; one by frequencies,
# whose first departure may be as late, up to twice that.
EARLIEST_DAY = -85


def day_offsets(first: date, days: int, zone: ZoneInfo, store_zone: ZoneInfo) -> dict[date, int]:
    """Seconds from the store's midnight to that of each service date that can matter (noon minus 12 h).

    Two dates after the last: a day of 23 hours ends early, and another feed's clock may be ahead.
    """
    origin = _midnight(first, store_zone)
    dates = [first + timedelta(days=k) for k in range(EARLIEST_DAY, days + 2)]
    return {day: int((_midnight(day, zone) - origin).total_seconds()) for day in dates}


def timezone(agency: pd.DataFrame, file: str) -> ZoneInfo:
    """The feed's zone: that of its first agency; without one, UTC."""
    name = agency["agency_timezone"].iloc[0] if len(agency) else ""
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise HeadwayError(
            f"{file}: row 2: unknown agency_timezone {name!r}; write a name such as Europe/Berlin"
        ) from None


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=zone)
    return noon.astimezone(UTC) - timedelta(hours=12)
