"""One query, answered on the screen."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

import numpy as np

from ..kernels import answers as kernel
from ..kernels.levels import NEVER
from ..storage.errors import HeadwayError
from ..storage.store import Store
from .answers import vertices_of
from .engines import Arrivals
from .times import parse_departure


@dataclass(frozen=True)
class Single:
    """One query and what it reaches: (second, id, name) by second, all places or the one asked for."""

    origin: str
    departure: int
    destination: str | None
    reached: list[tuple[int, str, str]]


def one_query(store: Store, origin: str, at: str, to: str | None, algorithm: str) -> Single:
    """Raises `HeadwayError` for an unknown stop, naming the nearest ids, and a departure outside the store."""
    departure = parse_departure(at)
    horizon = store.timetable.horizon
    if departure < 0:
        raise HeadwayError(f"--at {at}: not a time; write H:MM[:SS] or seconds")
    if departure >= horizon:
        raise HeadwayError(f"--at {at} is second {departure}, outside the store's [0, {horizon}); go earlier")
    places = store.timetable.places
    row = np.array([find_place(store, origin)])
    wanted = None if to is None else find_place(store, to)
    engine = Arrivals(store, algorithm)
    targets = None if wanted is None else vertices_of(store, np.array([wanted]))
    labels = engine(vertices_of(store, row), np.array([departure], np.int32), targets)
    arrival = kernel.by_place(labels, places.offset, places.vertex)[0]
    rows = np.flatnonzero(arrival != NEVER) if wanted is None else np.array([wanted])
    rows = rows[np.argsort(arrival[rows], kind="stable")]
    ids, names = places.table["id"].take(rows).to_pylist(), places.table["name"].take(rows).to_pylist()
    found = [
        (int(second), name, title)
        for second, name, title in zip(arrival[rows], ids, names, strict=True)
        if second != NEVER
    ]
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
