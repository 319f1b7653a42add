"""One query, answered on the screen."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

import numpy as np

from ..kernels.levels import NEVER
from ..storage.errors import HeadwayError
from ..storage.store import Store
from .asked import Answer
from .engines import Engine
from .query_file import Queries
from .times import parse_departure


@dataclass(frozen=True)
class Single:
    """One query and what it reaches: (second, id, name) by second, all places or the one asked for."""

    origin: str
    departure: int
    destination: str | None
    reached: list[tuple[int, str, str]]


def one_query(store: Store, engine: Engine, origin: str, at: str, to: str | None) -> Single:
    """Raises `HeadwayError` for an unknown stop, naming the nearest ids, and a departure outside the store."""
    departure = parse_departure(at)
    horizon = store.timetable.horizon
    if departure < 0:
        raise HeadwayError(f"--at {at}: not a time; write H:MM[:SS] or seconds")
    if departure >= horizon:
        raise HeadwayError(f"--at {at} is second {departure}, outside the store's [0, {horizon}); go earlier")
    places = store.timetable.places
    row = np.array([find_place(store, origin)], np.int32)
    wanted = np.array([-1 if to is None else find_place(store, to)], np.int32)
    query = Queries(np.zeros(1, np.int64), row, wanted, np.array([departure], np.int32))
    (_, compute), *_ = engine.pieces(query, Answer("arrivals" if to is None else "od"))
    arrival = compute().reshape(-1)
    rows = np.arange(len(places.table)) if to is None else wanted
    known = arrival != NEVER
    rows, arrival = rows[known], arrival[known]
    by_time = np.argsort(arrival, kind="stable")
    rows, arrival = rows[by_time], arrival[by_time]
    ids, names = places.table["id"].take(rows).to_pylist(), places.table["name"].take(rows).to_pylist()
    found = [(int(second), name, title) for second, name, title in zip(arrival, ids, names, strict=True)]
    return Single(origin, departure, to, found)


def find_place(store: Store, name: str) -> int:
    """Row of a stop or station. Raises `HeadwayError` that names the nearest ids for an unknown one."""
    if not isinstance(name, str):
        raise HeadwayError(f"{name!r} is no id of a stop or station; ids are text: '007', not 7")
    ids = store.timetable.places.table["id"].to_pylist()
    try:
        return ids.index(name)
    except ValueError:
        near = difflib.get_close_matches(name, ids, n=3, cutoff=0.5)
        hint = f"did you mean {', '.join(near)}?" if near else "headway stops STORE lists them"
        raise HeadwayError(f"no stop or station {name!r} in the store; {hint}") from None
