"""The Python face of DT-CSR: `hw.DTCSR`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..storage import dt_csr
from ..storage.errors import HeadwayError
from ..storage.store import Store, load
from .dt_csr import Duplicates, build, from_snapshots, from_store
from .event_file import Names, read_events
from .events import Nodes, column, events_of
from .settings import Settings
from .ticks import Ticks


def _row_of_arrays(row: int) -> str:
    return f"events: row {row} (from 0)"


class DTCSR(dt_csr.DTCSR):
    """A graph that changes with time, kept once for all its snapshots; `hw.load(path)` opens a saved one."""

    @classmethod
    def from_events(
        cls,
        events: Any,
        *,
        src: str | None = None,
        dst: str | None = None,
        time: str | None = None,
        value: str | None = None,
        op: str | None = None,
        nodes: Nodes = None,
        width: int | None = None,
        start: int | None = None,
        ticks: int | None = None,
        events_per_tick: int | None = None,
        times: Sequence[int] | np.ndarray | None = None,
        duplicates: Duplicates = "multi",
        dtype: Any = np.float32,
    ) -> Self:
        """Events in any order: a CSV or Parquet file, a pandas or cuDF frame, a mapping, or (src, dst, time[, value]).

        `src`, `dst`, `time`, `value` name columns, by default those of that name (`value` only where there is one);
        `op` names a column of insertions (+, 1, insert, add) and deletions (-, -1, delete, remove). Ids are integers
        or text; `nodes` is their number, for ids from 0, or all of them in order. Ticks: of `width` from a multiple of
        it (or from `start`), `ticks` equal ones, `events_per_tick`, beginning at `times`, or one a distinct time.
        `duplicates` of a pair in a tick stay (`multi`), give the `last`, or their `sum`.
        Raises `HeadwayError` in one line for wrong input.
        """
        names = Names(src, dst, time, value, op)
        chosen = Ticks(width, start, ticks, events_per_tick, times)
        if isinstance(events, str | PathLike):
            columns, where = read_events(Path(events), names, Settings().thread_count())
        else:
            if isinstance(events, tuple | list):
                if len(events) not in (3, 4):
                    raise HeadwayError(f"events: {len(events)} arrays; give (src, dst, time[, value])")
                events = dict(zip(("src", "dst", "time", "value"), events, strict=False))
            if not isinstance(events, Mapping) and not hasattr(events, "columns"):
                raise HeadwayError("events: give a file, a frame, a mapping of columns, or (src, dst, time[, value])")
            held = list(events if isinstance(events, Mapping) else events.columns)
            found = names.found([str(name) for name in held], "events")
            columns = {name: column(label, events[label]) for name, label in found.items()}
            where = _row_of_arrays

        made = build(events_of(columns, where, nodes), chosen, duplicates, dtype)
        return cls._of(made)

    @classmethod
    def from_snapshots(
        cls,
        snapshots: Sequence[Any],
        values: Sequence[Any] | None = None,
        *,
        nodes: int | None = None,
        duplicates: Duplicates = "multi",
        dtype: Any = np.float32,
    ) -> Self:
        """A list of snapshots: integer arrays [2, E] of sources and destinations, with a list of `values` [E] each or
        none, or square SciPy matrices. Tick k is the k-th, empty ones too. Raises `HeadwayError` for wrong input.
        """
        events = from_snapshots(snapshots, values, nodes)
        ticks = Ticks(times=np.arange(len(snapshots))) if len(snapshots) else Ticks()
        return cls._of(build(events, ticks, duplicates, dtype))

    @classmethod
    def from_store(cls, store: Store | str | PathLike[str], *, bin: int = 3600, value: str = "departures") -> Self:
        """A timetable store: stops, and an edge to a next stop for each bin (seconds) in which anything leaves.

        `value`: `departures` (their number), `duration` (their mean, seconds), `headway` (seconds of the bin a
        departure). Raises `HeadwayError` for a store with sub-trips.
        """
        return cls._of(from_store(store if isinstance(store, Store) else load(Path(store)), bin, value))

    @classmethod
    def _of(cls, graph: dt_csr.DTCSR) -> Self:
        return cls(*(getattr(graph, field.name) for field in fields(graph)))
