"""What a feed is like, in numbers that a made-up one can be held against.

    python benchmarks/feed_stats.py 2026-09-30 made_up.zip real.zip

Written apart from Headway's own importer on purpose, with simple rules: hops between consecutive stops of the
trips that run on one date, blank times interpolated by position, frequencies expanded. Where a feed does not
run on the date, its busiest Wednesday stands in.
"""

from __future__ import annotations

import datetime as dt
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]


def read(feed: Path, name: str, columns: list[str]) -> pd.DataFrame | None:
    """Columns of a small table as text; None where the feed has no such table."""
    table = read_arrow(feed, name, columns, pa.string())
    return None if table is None else table.to_pandas().fillna("")


def read_arrow(feed: Path, name: str, columns: list[str], kind: pa.DataType) -> pa.Table | None:
    """Columns of a table; columns that the feed lacks come as nulls."""
    if feed.is_dir():
        path = feed / f"{name}.txt"
        if not path.exists() or not path.stat().st_size:
            return None
        source = path.open("rb")
    else:
        archive = zipfile.ZipFile(feed)
        entry = next((n for n in archive.namelist() if n.rsplit("/", 1)[-1] == f"{name}.txt"), None)
        if entry is None:
            return None
        source = archive.open(entry)
    with source:
        table = pa.csv.read_csv(
            source,
            read_options=pa.csv.ReadOptions(block_size=1 << 24),
            parse_options=pa.csv.ParseOptions(newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                include_columns=columns,
                include_missing_columns=True,
                column_types=dict.fromkeys(columns, kind),
                strings_can_be_null=True,
            ),
        )
    return table.unify_dictionaries()


def seconds(text: pd.Series) -> np.ndarray:
    """h:mm:ss as seconds, -1 where blank."""
    parts = text.str.strip().str.extract(r"^(\d+):(\d+):(\d+)$").astype("float64")
    value = parts[0] * 3600 + parts[1] * 60 + parts[2]
    return value.fillna(-1).to_numpy().astype(np.int64)


def codes(column: pa.ChunkedArray) -> tuple[np.ndarray, pd.Series]:
    """A dictionary column as integers (-1 where null) and what they stand for."""
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0)
    if not pa.types.is_dictionary(whole.type):
        whole = pc.dictionary_encode(whole.cast(pa.string()))
    indices = pc.fill_null(whole.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return indices, pd.Series(whole.dictionary.to_pylist(), dtype="object")


def services_on(feed: Path, date: dt.date) -> set[str]:
    """Services that run on a date."""
    stamp, on = f"{date:%Y%m%d}", set()
    calendar = read(feed, "calendar", ["service_id", "start_date", "end_date", *DAYS])
    if calendar is not None and len(calendar):
        good = (calendar[DAYS[date.weekday()]].str.strip() == "1") & (calendar.start_date <= stamp)
        on = set(calendar.service_id[good & (calendar.end_date >= stamp)])
    dates = read(feed, "calendar_dates", ["service_id", "date", "exception_type"])
    if dates is not None:
        dates = dates[dates.date == stamp]
        on |= set(dates.service_id[dates.exception_type.str.strip() == "1"])
        on -= set(dates.service_id[dates.exception_type.str.strip() == "2"])
    return on


def busy_date(feed: Path, wanted: dt.date, trips: pd.DataFrame) -> dt.date:
    """The date asked for, or the busiest Wednesday of the feed where nothing runs then."""
    if services_on(feed, wanted) & set(trips.service_id):
        return wanted
    bounds = []
    for name, columns in (("calendar", ["start_date", "end_date"]), ("calendar_dates", ["date"])):
        table = read(feed, name, columns)
        if table is not None and len(table):
            bounds += [table[c].min() for c in columns] + [table[c].max() for c in columns]
    first, last = (dt.datetime.strptime(f(bounds), "%Y%m%d").date() for f in (min, max))
    first += dt.timedelta((2 - first.weekday()) % 7)
    candidates = [first + dt.timedelta(7 * w) for w in range(max(1, (last - first).days // 7 + 1))]
    candidates = candidates[:: max(1, len(candidates) // 12)]  # a dozen says enough
    per_service = trips.service_id.value_counts()
    return max(candidates, key=lambda day: per_service.reindex(list(services_on(feed, day))).sum())


def walks(feed: Path, stops: pd.Index) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of boardable stops within 500 metres, as positions in `stops`; and how many each has."""
    table = read(feed, "stops", ["stop_id", "stop_lat", "stop_lon"]).drop_duplicates("stop_id")
    table = table.set_index("stop_id").reindex(stops)
    latitude = pd.to_numeric(table.stop_lat.str.strip(), errors="coerce").fillna(0).to_numpy()
    longitude = pd.to_numeric(table.stop_lon.str.strip(), errors="coerce").fillna(0).to_numpy()
    east = longitude * 111_320 * np.cos(np.deg2rad(latitude))
    pairs = cKDTree(np.stack([east, latitude * 111_320], axis=1)).query_pairs(500, output_type="ndarray")
    return pairs, np.bincount(pairs.ravel(), minlength=len(stops))


def expand(feed: Path, names: pd.Series, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per occurrence of a trip: the trip and how far to move its times. Trips by frequency occur often."""
    trip, shift = np.arange(len(names)), np.zeros(len(names), np.int64)
    table = read(feed, "frequencies", ["trip_id", "start_time", "end_time", "headway_secs"])
    if table is None or not len(table):
        return trip, shift
    which = pd.Series(trip, index=names).reindex(table.trip_id).to_numpy()
    rows = table[np.isfinite(which)]
    which = which[np.isfinite(which)].astype(np.int64)
    first, end = seconds(rows.start_time), seconds(rows.end_time)
    headway = rows.headway_secs.astype(int).to_numpy()
    times = np.maximum(0, -(-(end - first) // headway))
    owner = np.repeat(np.arange(len(rows)), times)
    step = np.arange(len(owner)) - np.repeat(np.cumsum(times) - times, times)
    plain = np.setdiff1d(trip, which)
    moved = first[owner] + step * headway[owner] - start[which[owner]]
    return np.concatenate([plain, which[owner]]), np.concatenate([shift[plain], moved])


def describe(feed: Path, wanted: dt.date) -> dict[str, float]:
    """The numbers of one feed."""
    trips = read(feed, "trips", ["trip_id", "service_id"])
    date = busy_date(feed, wanted, trips)
    active = set(trips.trip_id[trips.service_id.isin(services_on(feed, date))])
    columns = ["trip_id", "arrival_time", "departure_time", "stop_id", "stop_sequence"]
    table = read_arrow(feed, "stop_times", columns, pa.dictionary(pa.int32(), pa.string()))
    kinds = read(feed, "stops", ["location_type"]).location_type.str.strip()
    result = {"stops": int(kinds.isin(["", "0"]).sum()), "stations": int((kinds == "1").sum())}
    result |= {"trips": len(trips), "stop_times": len(table), "active trips": len(active)}

    trip, trip_names = codes(table["trip_id"])
    keep = trip_names.isin(active).to_numpy()[trip]
    trip = trip[keep]
    stop, stop_names = codes(table["stop_id"])
    stop = stop[keep]
    order, order_names = codes(table["stop_sequence"])
    order = order_names.astype(int).to_numpy()[order[keep]]
    clock = []
    for name in ("arrival_time", "departure_time"):
        index, texts = codes(table[name])
        lookup = np.append(seconds(texts.astype("str")), -1)  # the last one is for nulls
        clock.append(lookup[index[keep]])
    del table
    key = trip * (int(order.max()) + 1) + order
    if (np.diff(key) < 0).any():
        at = np.argsort(key, kind="stable")
        trip, stop, clock = trip[at], stop[at], [c[at] for c in clock]
    arrive, depart = (np.where(a < 0, b, a) for a, b in (clock, clock[::-1]))
    blank = arrive < 0
    result["stops served"] = len(np.unique(stop))
    result["blank times"] = blank.mean()
    if blank.any():
        row = np.arange(len(trip))
        for times in (arrive, depart):
            times[blank] = np.interp(row[blank], row[~blank], times[~blank])

    same = trip[1:] == trip[:-1]
    heads = np.flatnonzero(np.append(True, ~same))
    length = np.diff(np.append(heads, len(trip)))
    again, shift = expand(feed, trip_names[trip[heads]], depart[heads])
    count = length[again] - 1
    base = np.repeat(heads[again] - (np.cumsum(count) - count), count) + np.arange(count.sum())
    start, end = stop[base], stop[base + 1]
    leave = depart[base] + np.repeat(shift, count)
    took = arrive[base + 1] - depart[base]
    result |= {"trips run": len(again), "stops per trip": length[again].mean(), "hops": len(base)}
    result["hops of no time"] = (took == 0).mean()
    result["trips ending after 24:00"] = ((arrive[heads + length - 1])[again] + shift > 86_400).mean()

    edge = start * len(stop_names) + end
    at = np.lexsort((leave, took, edge))
    edge, took, leave = edge[at], took[at], leave[at]
    edge_new = np.append(True, edge[1:] != edge[:-1])
    type_new = edge_new | np.append(True, took[1:] != took[:-1])
    distinct = type_new | np.append(True, leave[1:] != leave[:-1])
    result |= {"connections": int(distinct.sum()), "edges": int(edge_new.sum()), "types": int(type_new.sum())}
    result["types per edge"] = result["types"] / result["edges"]
    result["connections per type"] = result["connections"] / result["types"]
    leave, type_new = leave[distinct], type_new[distinct]
    gap = np.diff(leave)
    both = ~type_new[1:-1] & ~type_new[2:]
    result["gap repeats"] = (gap[1:] == gap[:-1])[both].mean() if both.any() else float("nan")

    pairs, near = walks(feed, pd.Index(stop_names))
    used = np.unique(stop)
    result |= {f"within 500 m, {p}%": float(np.percentile(near[used], p)) for p in (10, 50, 90)}
    n = len(stop_names)
    ends = np.unique(edge)
    u = np.concatenate([ends // n, pairs[:, 0], pairs[:, 1]])
    v = np.concatenate([ends % n, pairs[:, 1], pairs[:, 0]])
    graph = coo_array((np.ones(len(u), bool), (u, v)), shape=(n, n)).tocsr()
    parts = connected_components(graph, connection="strong")[1][used]
    result["largest connected part"] = np.bincount(parts).max() / len(used)
    return result


def show(feeds: list[Path], date: dt.date) -> None:
    """Print the feeds side by side."""
    columns = {feed.name or str(feed): describe(feed, date) for feed in feeds}
    width = max(14, *(len(name) + 2 for name in columns))
    print(" " * 26 + "".join(f"{name:>{width}}" for name in columns))
    for row in next(iter(columns.values())):
        values = [result[row] for result in columns.values()]
        shown = [f"{v:,}" if isinstance(v, int) else f"{v:,.3f}" if v < 10 else f"{v:,.1f}" for v in values]
        print(f"{row:<26}" + "".join(f"{text:>{width}}" for text in shown))


if __name__ == "__main__":
    show([Path(name) for name in sys.argv[2:]], dt.date.fromisoformat(sys.argv[1]))
