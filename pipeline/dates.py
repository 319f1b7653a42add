"""When a feed has service, for someone who has yet to choose a date."""

from __future__ import annotations

from pathlib import Path

from .gtfs.feed import service_span
from .gtfs.report import Report
from .gtfs.source import open_source


def service_dates(feed: Path) -> str:
    """`NAME has service from FIRST to LAST`. Raises `HeadwayError` for what is no feed."""
    first, last = service_span(open_source(feed), Report())
    return f"{feed.name} has service from {first} to {last}"
