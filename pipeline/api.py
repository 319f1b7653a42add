"""The Python face: `import headway as hw`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import date as Date
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from ..storage import bundle, dt_csr, store
from ..storage.errors import HeadwayError
from ..storage.store import Store
from .ahead import run_ahead
from .answers import answer
from .asked import MOST_MINUTES, Answer, Weights, weights_of
from .build import build_feeds
from .device import DEVICES, open_engine
from .dynamic_graph import DTCSR
from .engines import DEFAULT, NAMES, Piece
from .gtfs.report import Report
from .progress import Counter, Steps, in_notebook
from .query_file import Queries
from .settings import load_settings
from .single import find_place
from .times import parse_departure

__all__ = ["Engine", "build", "load"]

Path_ = str | PathLike[str]
Ids = str | Sequence[str]
Departures = str | int | Sequence[str | int]


def build(
    feeds: Path_ | Sequence[Path_],
    date: str | Date,
    *,
    days: int = 2,
    walk: Literal["default", "none"] = "default",
    walk_radius: float = 500.0,
    walk_speed: float = 1.2,
    walk_detour: float = 1.0,
    cluster_minutes: int = 60,
    subtrips: Literal["none", "sqrt-trip", "sqrt-mean"] = "none",
    strict: bool = False,
    threads: int | None = None,
    quiet: bool | None = None,
) -> Store:
    """Build a store in memory from GTFS zips or folders; `store.save(path)` keeps it.

    `date` is the store's first, `YYYY-MM-DD`; `walk_radius` metres, `walk_speed` metres a second. What was left
    out of the feeds is in `store.facts["dropped"]`. Progress is shown in a notebook, and elsewhere with
    `quiet=False`. Raises `HeadwayError` in one line for wrong input.
    """
    many = [feeds] if isinstance(feeds, str | PathLike) else list(feeds)
    options = {
        "threads": ("threads", threads),
        "build.days": ("days", days),
        "build.cluster_minutes": ("cluster_minutes", cluster_minutes),
        "build.subtrips": ("subtrips", subtrips),
        "walk.mode": ("walk", walk),
        "walk.radius_m": ("walk_radius", walk_radius),
        "walk.speed_mps": ("walk_speed", walk_speed),
        "walk.detour": ("walk_detour", walk_detour),
    }
    settings = load_settings("laptop", (), options)
    try:
        day = Date.fromisoformat(str(date)[:10] if isinstance(date, datetime) else str(date))
    except ValueError:
        raise HeadwayError(f"date {date!r} is no date; write YYYY-MM-DD") from None
    if not many:
        raise HeadwayError("no feed given; name a GTFS zip or folder")
    with Steps(not in_notebook() if quiet is None else quiet) as steps:
        return build_feeds([Path(feed) for feed in many], day, settings, Report(strict=strict, announce=steps))


def load(path: Path_, verify: bool = False) -> Any:
    """Open what `headway build` or `headway snapshots` wrote: a `Store` or a `DTCSR`, memory-mapped.

    A store may be at a URL (`s3://bucket/name`), from where it is brought once. `verify` compares every checksum first.
    Raises `HeadwayError` for what is neither, or is not whole.
    """
    here = store.local(os.fspath(path))
    return (DTCSR.load if bundle.kind(here) == dt_csr.KIND else store.load)(here, verify)


class Engine:
    """Answers queries on one store, on all cores or on a GPU; `device` says which and why.

    `origins` and `departures` are as long as each other, or one value for all. Origins are ids of stops or
    stations; departures are `"8:05"`, `"08:05:30"` or seconds. An id that the store lacks raises `HeadwayError`
    naming the nearest ones, and so does a departure outside `[0, horizon)`. Progress of what takes more than a
    second is shown in a notebook, and elsewhere with `quiet=False`.
    """

    def __init__(
        self,
        store: Store,
        device: Literal["auto", "cpu", "cuda"] = "auto",
        algorithm: str = DEFAULT,
        threads: int | None = None,
        quiet: bool | None = None,
    ) -> None:
        if not isinstance(store, Store):
            raise HeadwayError(f"an engine takes a timetable's store, not a {type(store).__name__}")
        if device not in DEVICES:
            raise HeadwayError(f"device {device!r}; there are {', '.join(DEVICES)}")
        if algorithm not in NAMES:
            raise HeadwayError(f"algorithm {algorithm!r}; there are {', '.join(NAMES)}")
        self.store = store
        settings = load_settings("laptop", (), {"threads": ("threads", threads)})
        self._engine, self.device = open_engine(store, device, algorithm, settings)
        self._threads = settings.thread_count()
        self._quiet = not in_notebook() if quiet is None else quiet
        self._known: dict[str, int] = {}

    def arrivals(self, origins: Ids, departures: Departures) -> np.ndarray:
        """Earliest arrivals int32[queries, stops], `2**31 - 1` where unreachable; column i is `store.stops[i]`."""
        queries = self._queries(origins, departures)
        stops = self.store.timetable.places.stops
        out = np.empty((len(queries), stops), np.int32)

        def work(piece: Piece) -> int:
            some, compute = piece
            out[some.query_id] = compute()[:, :stops]
            return len(some)

        with self._counter(len(queries)) as counter:
            for count in run_ahead(work, self._engine.pieces(queries, Answer("arrivals")), self._threads):
                counter.advance(count)
        return out

    def table(self, origins: Ids, departures: Departures) -> pd.DataFrame:
        """A row for each stop and station reached: `query_id` (from 0), `origin`, `departure`, `stop`, `arrival`."""
        return self._answer(self._queries(origins, departures), Answer("arrivals"))

    def od(self, origins: Ids, destinations: Ids, departures: Departures) -> pd.DataFrame:
        """A row a query: `query_id`, `origin`, `destination`, `departure`, `arrival` (missing where unreachable)."""
        return self._answer(self._queries(origins, departures, destinations), Answer("od"))

    def reach(
        self,
        origins: Ids,
        departures: Departures,
        cutoffs: Sequence[float] = (15, 30, 45, 60),
        weights: pd.DataFrame | Mapping[str, float] | None = None,
    ) -> pd.DataFrame:
        """A row for each query and cut-off (minutes): `query_id`, `origin`, `departure`, `cutoff_s`, `stops`.

        `weights`, a frame with `stop` and numeric columns or a mapping from stop to number, adds a column for
        each: its sum over the stops reached.
        """
        try:
            minutes = np.array(cutoffs, np.float64).reshape(-1)
        except (TypeError, ValueError):
            minutes = np.empty(0)
        if not len(minutes) or not ((minutes >= 0) & (minutes <= MOST_MINUTES)).all():
            raise HeadwayError(f"cutoffs {cutoffs!r}; give minutes, at least one, from 0 to {MOST_MINUTES:,}")
        seconds = np.rint(60 * minutes).astype(np.int32)
        found = Weights()
        if weights is not None:
            if isinstance(weights, Mapping):
                weights = pd.DataFrame({"stop": list(weights), "weight": list(weights.values())})
            if not isinstance(weights, pd.DataFrame):
                kind = type(weights).__name__
                raise HeadwayError(f"weights of type {kind}; give a frame with `stop` and numbers, or a mapping")
            try:
                table = pa.Table.from_pandas(weights, preserve_index=False)
            except (pa.ArrowException, TypeError) as error:
                raise HeadwayError(f"weights: {' '.join(str(error).split())}; give `stop` and numbers") from None
            found = weights_of(table, "weights", self.store)
        return self._answer(self._queries(origins, departures), Answer("reach", seconds, found))

    def _answer(self, queries: Queries, asked: Answer) -> pd.DataFrame:
        with self._counter(len(queries)) as counter:
            tables = list(answer(self.store, self._engine, queries, asked, self._threads, counter.advance))
        return pa.concat_tables([asked.schema.empty_table(), *tables]).to_pandas()

    def _counter(self, queries: int) -> Counter:
        """What takes a moment needs no bar."""
        counter = Counter("queries", self._quiet, f"queries on {self.device}", patience=1.0)
        counter.start(queries)
        return counter

    def _queries(self, origins: Ids, departures: Departures, destinations: Ids | None = None) -> Queries:
        origin, to, leave = _as_list(origins), _as_list(destinations), _as_list(departures)
        count = max(len(origin), len(to), len(leave), key=lambda length: (length != 1, length))
        for name, values in (("origins", origin), ("destinations", to), ("departures", leave)):
            if len(values) not in (1, count) and not (name == "destinations" and destinations is None):
                raise HeadwayError(f"{len(values)} {name} for {count} queries; give as many, or one for all")
        horizon = self.store.timetable.horizon
        seconds = np.array([parse_departure(value) for value in leave], np.int64)
        for value, second in zip(leave, seconds, strict=True):
            if not 0 <= second < horizon:
                what = "is no time" if second < 0 else f"is outside [0, {horizon})"
                raise HeadwayError(f"departure {value!r} {what}; give seconds or H:MM[:SS] within the store")
        return Queries(
            np.arange(count),
            self._rows(origin, count),
            self._rows(to, count) if destinations is not None else np.full(count, -1, np.int32),
            np.resize(seconds.astype(np.int32), count),
        )

    def _rows(self, names: list[str], count: int) -> np.ndarray:
        if not self._known:
            self._known = {name: row for row, name in enumerate(self.store.timetable.places.table["id"].to_pylist())}
        rows = [self._known[name] if name in self._known else find_place(self.store, name) for name in names]
        return np.resize(np.array(rows, np.int32), count)


def _as_list(values) -> list:
    return [values] if isinstance(values, str) or np.ndim(values) == 0 else list(values)
