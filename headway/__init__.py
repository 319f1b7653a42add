"""Headway: earliest arrivals on public-transport timetables for very large query batches.

import headway as hw

store = hw.build(["city.zip"], date="2026-09-30")      # or hw.load("city.store"); store.save("city.store")
engine = hw.Engine(store)
engine.arrivals(origins=["A", "B"], departures=["08:00", 30_600])   # int32[queries, stops]
engine.reach("A", "8:00", cutoffs=[15, 30, 60])                     # a DataFrame

graph = hw.DTCSR.from_events("events.parquet", width=3600)          # or hw.load("graph"); graph.save("graph")
graph.window(0, 23).to_scipy()                                      # the edges of a day
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .pipeline.aggregation import SnapshotAggregation
    from .pipeline.api import Engine, build, load
    from .pipeline.dynamic_graph import DTCSR
    from .storage.errors import HeadwayError
    from .storage.store import Store

__all__ = ["DTCSR", "Engine", "HeadwayError", "SnapshotAggregation", "Store", "build", "load"]

# Imported when asked for: rooms are parts of this package, and most of them need little of it.
_PLACES = {
    "DTCSR": ".pipeline.dynamic_graph",
    "Engine": ".pipeline.api",
    "HeadwayError": ".storage.errors",
    "SnapshotAggregation": ".pipeline.aggregation",
    "Store": ".storage.store",
    "build": ".pipeline.api",
    "load": ".pipeline.api",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(import_module(_PLACES[name], __name__), name)
    return globals()[name]


def __dir__() -> list[str]:
    return [*globals(), *__all__]
