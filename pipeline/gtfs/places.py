"""Stops and stations."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .frames import concat, library
from .reading import first_lines
from .report import Report

STOPS = ("stop_id", "stop_name", "stop_lat", "stop_lon", "location_type", "parent_station")


def places(stops: pd.DataFrame, prefix: str, file: str, report: Report) -> pd.DataFrame:
    """The stops of one feed in file order, then its stations.

    Columns `id`, `name`, `lat`, `lon` (float64, nan without coordinates), `is_station` bool and `station` (the
    stop's `parent_station`, or empty). Ids carry `prefix`. Entrances and the like are left out.
    """
    stops = first_lines(stops, "stop_id", STOPS, file, report)
    stops = stops[stops["location_type"].isin(["", "0", "1"])]
    lat, lon = (library(stops).to_numeric(stops[name], errors="coerce") for name in ("stop_lat", "stop_lon"))
    located = np.isfinite(lat) & np.isfinite(lon)
    parent = stops["parent_station"]
    found = library(stops).DataFrame(
        {
            "id": prefix + stops["stop_id"],
            "name": stops["stop_name"],
            "lat": lat.where(located).astype(np.float64),
            "lon": lon.where(located).astype(np.float64),
            "is_station": stops["location_type"] == "1",
            "station": (prefix + parent).where((parent != "") & (stops["location_type"] != "1"), ""),
            "row": stops["row"],
        }
    )
    return found.sort_values(["is_station", "row"], ignore_index=True).drop(columns="row")


def members(places: pd.DataFrame) -> pd.DataFrame:
    """Which stops a place stands for: `place`, `stop` (row numbers), sorted by both.

    A stop stands for itself, a station for each stop that names it as its parent.
    """
    numbered = places.assign(place=np.arange(len(places)))
    stops = numbered[~numbered["is_station"]]
    own = stops[["place"]].assign(stop=stops["place"])
    stations = numbered.loc[numbered["is_station"], ["id", "place"]]
    inside = stops.loc[stops["station"] != "", ["station", "place"]]
    inside = inside.rename(columns={"station": "id", "place": "stop"}).merge(stations, on="id")
    return concat([own, inside[["place", "stop"]]]).sort_values(["place", "stop"], ignore_index=True)
