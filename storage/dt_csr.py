"""DT-CSR: a graph that changes with time, as node > tick > edge, and its destination-major twin.

Source: "DT-CSR: Dynamic Time CSR". A tick is the number of a snapshot; its original time stands beside, once a tick.
N nodes, M stored events, T ticks, K distinct (row, tick) pairs of a side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from os import PathLike
from typing import Any, Self

import numpy as np
import pyarrow as pa

from . import bundle, draft
from .errors import HeadwayError
from .window import Window

KIND = "dt-csr"
VERSION = 1
NEVER = 2**32 - 1  # a tick after all others
LOW = np.uint64(NEVER)
HALF = np.uint64(32)


@dataclass(frozen=True)
class Side:
    """One direction, exactly the document's arrays.

    row_offset      uint32[N + 1]: entries of row r are row_offset[r] : row_offset[r + 1]
    time_offset     uint64[K + 1]: tick << 32 | start; ticks strictly increase within a row; the last one is a sentinel,
                    NEVER << 32 | M, so entry k owns column_indices[start_k : start_{k + 1}] at the end of a row too
    column_indices  uint32[M] in (row, tick, column) order; equal ones in order of time, then of input
    """

    row_offset: np.ndarray
    time_offset: np.ndarray
    column_indices: np.ndarray

    def start(self, entries: np.ndarray) -> np.ndarray:
        """Where these entries start in `column_indices`, uint32."""
        return (self.time_offset[entries] & LOW).astype(np.uint32)

    @property
    def starts(self) -> np.ndarray:
        """Where all entries start, uint32[K + 1]."""
        return (self.time_offset & LOW).astype(np.uint32)

    @property
    def entry_ticks(self) -> np.ndarray:
        """Ticks of the entries, uint32[K]."""
        return (self.time_offset[:-1] >> HALF).astype(np.uint32)

    @property
    def event_ticks(self) -> np.ndarray:
        """Ticks of the events, uint32[M]."""
        return np.repeat(self.entry_ticks, np.diff(self.starts.astype(np.int64)))

    def lower_bound(self, tick: int) -> np.ndarray:
        """For each row its first entry at `tick` or later, int64[N]; the end of the row where there is none."""
        low, high = self.row_offset[:-1].astype(np.int64), self.row_offset[1:].astype(np.int64)
        while (searching := low < high).any():
            middle = (low + high) >> 1
            before = searching & ((self.time_offset[middle] >> HALF) < np.uint64(tick))
            low = np.where(before, middle + 1, low)
            high = np.where(searching & ~before, middle, high)
        return low

    @cached_property
    def by_tick(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Entries by tick: offset int64[last tick + 2], their rows uint32[K] and where their events stop, uint32[K].

        Those of tick t lie at offset[t] : offset[t + 1].
        """
        ticks = self.entry_ticks
        ticks = ticks.astype(np.min_scalar_type(int(ticks.max(initial=0))))  # NumPy sorts 16 bits by radix
        rows = np.repeat(np.arange(len(self.row_offset) - 1, dtype=np.uint32), np.diff(self.row_offset))
        offset = np.concatenate([[0], np.cumsum(np.bincount(ticks))])
        order = np.argsort(ticks, kind="stable")
        return offset, rows[order], self.starts[1:][order]


@dataclass(frozen=True, eq=False, repr=False)
class DTCSR:
    """A graph that changes with time. An event's position in `by_source` is its edge id: it never changes.

    by_source       rows are sources, columns destinations: the document's
    by_destination  the twin: rows are destinations, columns sources
    perm            uint32[M]: position in by_destination -> edge id
    next            uint32[M] by edge id: the tick at which the same pair occurs again (its own tick, where a duplicate
                    follows), NEVER where it doesn't
    end             uint32[M] by edge id, of graphs made of insertions and deletions alone: an edge is present from its
                    tick up to, and not at, `end`; NEVER where it stays. None: an event is at its tick alone
    values          float32 or float64[M] by edge id; None: all are 1
    times           int64[T]: the original time of each tick, not decreasing
    ids             the user's ids of the nodes, [N]
    facts           plain data for people: where the graph comes from, what was merged or ignored
    """

    by_source: Side
    by_destination: Side
    perm: np.ndarray
    next: np.ndarray
    end: np.ndarray | None
    values: np.ndarray | None
    times: np.ndarray
    ids: pa.Array
    facts: dict[str, Any]

    def __repr__(self) -> str:
        kind = "events" if self.end is None else "presences"
        return f"{type(self).__name__}({self.nodes:,} nodes, {self.events:,} {kind}, {self.ticks:,} ticks)"

    @property
    def nodes(self) -> int:
        """N."""
        return len(self.by_source.row_offset) - 1

    @property
    def events(self) -> int:
        """M."""
        return len(self.perm)

    @property
    def ticks(self) -> int:
        """T."""
        return len(self.times)

    def snapshot(self, tick: int, distinct: bool = False) -> Window:
        """One tick. Raises `HeadwayError` outside [0, T)."""
        return self.window(tick, tick, distinct)

    def window(self, first: int, last: int, distinct: bool = False) -> Window:
        """Ticks first to last, both included: all their events, or (`distinct`) the last one of each pair.

        Raises `HeadwayError` unless 0 <= first <= last < T, and for parts of a tick.
        """
        if not 0 <= first <= last < self.ticks or first % 1 or last % 1:
            raise HeadwayError(f"window [{first}, {last}]: the graph has ticks 0 to {self.ticks - 1}; first <= last")
        return self._window(int(first), int(last), distinct)

    def window_of_times(self, first: int, last: int, distinct: bool = False) -> Window:
        """Ticks whose original time is from `first` to `last`, both included; there may be none."""
        begin = int(np.searchsorted(self.times, first, "left"))
        return self._window(begin, int(np.searchsorted(self.times, last, "right")) - 1, distinct)

    def windows(self, length: int = 1, step: int = 1, distinct: bool = False) -> Iterator[Window]:
        """Windows that end at tick 0, step, 2 step, ... and hold up to `length` ticks.

        A row's cursors only move forward: a sweep costs O(K) in all, and the copy of its bounds a window.
        Raises `HeadwayError` for a length or step below 1.
        """
        if step < 1:
            raise HeadwayError(f"windows every {step} ticks; give at least 1")
        yield from self.windows_at(range(0, self.ticks, step), length, distinct)

    def windows_at(self, ends: Iterable[int], length: int = 1, distinct: bool = False) -> Iterator[Window]:
        """As `windows`, those that end at these ticks, which ascend; the others cost no copy.

        Raises `HeadwayError` for a length below 1, and for a tick that is outside [0, T) or less than the one before.
        """
        if length < 1:
            raise HeadwayError(f"windows of {length} ticks; give at least 1")
        sides = [_Cursors(side, self.end is None) for side in (self.by_source, self.by_destination)]
        before = 0
        for last in ends:
            if not before <= last < self.ticks:
                raise HeadwayError(f"a window that ends at tick {last}; give {before} to {self.ticks - 1}, ascending")
            before = last
            first = max(0, last - length + 1)
            yield Window(self, first, last, distinct, *(side.move(first, last) for side in sides))

    def _window(self, first: int, last: int, distinct: bool) -> Window:
        bounds = []
        for side in (self.by_source, self.by_destination):
            high = side.lower_bound(last + 1)
            low = side.row_offset[:-1] if self.end is not None and first <= last else side.lower_bound(first)
            bounds.append((side.start(low), side.start(high if first <= last else low)))
        return Window(self, first, last, distinct, *bounds)

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays that it holds by name, as they lie on disk."""
        found = {"perm": self.perm, "next": self.next, "times": self.times}
        for name in ("by_source", "by_destination"):
            side = getattr(self, name)
            found |= {f"{name}.{field.name}": getattr(side, field.name) for field in fields(side)}
        return found | {name: array for name in ("end", "values") if (array := getattr(self, name)) is not None}

    def save(self, path: str | PathLike[str], overwrite: bool = False) -> None:
        """Write the graph as a bundle: whole, or not at all. Raises `HeadwayError` as `draft.write` does."""
        draft.write(
            path,
            kind=KIND,
            version=VERSION,
            arrays=self.arrays(),
            tables={"nodes": pa.table({"id": self.ids})},
            meta={"facts": self.facts, "rebuild": self.facts.get("rebuild", "")},
            overwrite=overwrite,
        )

    @classmethod
    def load(cls, path: str | PathLike[str], verify: bool = False) -> Self:
        """Open a graph; its arrays are memory-mapped. `verify` compares every checksum first.

        Raises `HeadwayError` for what is no whole graph of this version.
        """
        found = bundle.open(path, KIND, VERSION)
        if verify:
            found.verify()
        names = [name.removesuffix(".npy") for name in found.sizes() if name.endswith(".npy")]
        ids = found.table("nodes")["id"].combine_chunks()
        return cls.of_arrays({name: found.array(name) for name in names}, ids, found.meta.get("facts", {}))

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray], ids: pa.Array, facts: dict[str, Any]) -> Self:
        """The inverse of `arrays`."""
        source, destination = (
            Side(*(arrays[f"{name}.{field.name}"] for field in fields(Side)))
            for name in ("by_source", "by_destination")
        )
        end, values = arrays.get("end"), arrays.get("values")
        return cls(source, destination, arrays["perm"], arrays["next"], end, values, arrays["times"], ids, facts)


class _Cursors:
    """Bounds of a side's rows, in a sweep: they only move forward. `slides`: the lower ones move too."""

    def __init__(self, side: Side, slides: bool) -> None:
        self._by_tick, self._slides = side.by_tick, slides
        self._bounds = [side.start(side.row_offset[:-1]) for _ in range(2)]
        self._passed = [0, 0]  # entries, by tick, that the lower and the upper cursors are past

    def move(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        if self._slides:
            self._pass(0, first)
        self._pass(1, last + 1)
        return self._bounds[0].copy(), self._bounds[1].copy()

    def _pass(self, which: int, until: int) -> None:
        offset, rows, stops = self._by_tick
        begin, end = self._passed[which], int(offset[min(until, len(offset) - 1)])
        self._bounds[which][rows[begin:end]] = stops[begin:end]  # of a row's entries the last one stays
        self._passed[which] = end
