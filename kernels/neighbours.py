"""One side of a window as kernels walk it: a slice of neighbours a row, ids of edges, and what of them counts.

Rows longer than `LONGEST` are cut into parts, so that no thread or warp holds a hub alone. Cuts lie at fixed places of
a row: sums are taken in the same order whatever runs them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from ..storage.dt_csr import DTCSR
from ..storage.window import Bounds, Window
from .space.levels import Dense, Numbered, Singleton
from .space.tensors import DCSR, Format, Tensor
from .space.time_levels import Slices

LONGEST = 1024
PLAIN = Format((Dense(), Slices()), (0, 1))  # row > neighbour
LISTED = Format((Dense(), Slices(), Singleton()), (0, 1, 2))  # > id of the edge, from a list
NUMBERED = Format((Dense(), Slices(), Numbered()), (0, 1, 2))  # > id of the edge, its place
PARTS = Format((Dense(), Singleton(unique=False), Slices(), Numbered()), (0, 1, 2, 3))  # part > its row > as above


@dataclass(frozen=True, eq=False)
class Arrays:
    """What all windows of a graph share, on the host or on a device; uint32[M] each.

    sources       by place in `by_destination`
    destinations  by edge id
    perm          place in `by_destination` -> edge id
    next, end     as of `DTCSR`
    """

    sources: Any
    destinations: Any
    perm: Any
    next: Any
    end: Any
    cuda: bool = False

    @classmethod
    def of(cls, graph: DTCSR) -> Arrays:
        """The graph's own, without a copy."""
        columns = graph.by_destination.column_indices, graph.by_source.column_indices
        return cls(*columns, graph.perm, graph.next, graph.end)

    def to_device(self) -> Arrays:
        """A copy on the current GPU."""
        mine = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "cuda"}
        return Arrays(**{name: None if one is None else to_device(one) for name, one in mine.items()}, cuda=True)


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Row r holds `columns[low[r]:high[r]]`; with a filter, not all of them count.

    low, high  int64[N], on the host
    columns    uint32[places]
    ids        uint32[places]: edge ids; None: the place is the id
    edges      how many edge ids there are
    next, now  an edge counts where next[id] > now; `next` None: whenever it occurs again
    end, since an edge counts where end[id] > since; `end` None: always
    cuda       whether a GPU reads these arrays
    """

    low: np.ndarray
    high: np.ndarray
    columns: Any
    ids: Any
    edges: int
    next: Any = None
    now: int = 0
    end: Any = None
    since: int = 0
    cuda: bool = False

    @property
    def rows(self) -> int:
        return len(self.low)

    @property
    def filtered(self) -> bool:
        return self.next is not None or self.end is not None

    @property
    def filters(self) -> dict[str, Any]:
        """Operands of the conditions."""
        later = {} if self.next is None else {"next": self.next, "now": self.now}
        return later | ({} if self.end is None else {"end": self.end, "since": self.since})

    @cached_property
    def size(self) -> int:
        """Edges that are walked, whether they count or not."""
        return int((self.high - self.low).sum())

    @cached_property
    def head(self) -> Tensor:
        """Row > neighbour, of each row the first `LONGEST`."""
        return self._tensor(PLAIN, self.low, self._cut)

    @cached_property
    def head_ids(self) -> Tensor:
        """Row > neighbour > id."""
        return self._tensor(self._listed, self.low, self._cut)

    @cached_property
    def all_ids(self) -> Tensor:
        """Row > neighbour > id, uncut."""
        return self._tensor(self._listed, self.low, self.high)

    @cached_property
    def tail(self) -> Tensor:
        """Part > neighbour, of what is left of longer rows."""
        return self._tensor(PLAIN, *self._parts[1:])

    @cached_property
    def tail_ids(self) -> Tensor:
        """Part > neighbour > id."""
        return self._tensor(self._listed, *self._parts[1:])

    @cached_property
    def tails(self) -> Tensor:
        """Row > its parts: those of `tail`."""
        rows, low, _ = self._parts
        first = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
        ends = np.array([0, len(first)]), np.append(first, len(rows))
        levels = zip(ends, (rows[first], np.arange(len(rows))), strict=True)
        arrays = tuple({"pos": self._placed(pos), "crd": self._placed(crd.astype(np.uint32))} for pos, crd in levels)
        return Tensor(DCSR, (self.rows, len(low)), arrays, None, checked=False)

    @cached_property
    def parts(self) -> Tensor:
        """Part > its row > neighbour > id, of all rows; the place must be the id."""
        rows, low, high = self._parts
        rows = np.concatenate([np.arange(self.rows), rows]).astype(np.uint32)
        bounds = np.concatenate([self.low, low]), np.concatenate([self._cut, high])
        levels = {"n": len(rows)}, {"crd": self._placed(rows)}, self._slices(*bounds), {}
        return Tensor(PARTS, (len(rows), self.rows, self.rows, self.edges), levels, None, checked=False)

    @property
    def whole(self) -> bool:
        """Whether no row is longer than `LONGEST`."""
        return not len(self._parts[0])

    @property
    def _listed(self) -> Format:
        return NUMBERED if self.ids is None else LISTED

    @cached_property
    def _cut(self) -> np.ndarray:
        return np.minimum(self.high, self.low + LONGEST)

    @cached_property
    def _parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row, begin and end of every part but the first of each row, int64 each."""
        hubs = np.flatnonzero(self.high - self.low > LONGEST)
        count = (self.high[hubs] - self._cut[hubs] + LONGEST - 1) // LONGEST
        rows = np.repeat(hubs, count)
        number = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        low = self._cut[rows] + number * LONGEST
        return rows, low, np.minimum(low + LONGEST, self.high[rows])

    def _tensor(self, form: Format, low: np.ndarray, high: np.ndarray) -> Tensor:
        last = {PLAIN: (), NUMBERED: ({},)}.get(form, ({"crd": self.ids},))
        shape = (len(low), self.rows, self.edges)[: len(form.levels)]
        return Tensor(form, shape, ({"n": len(low)}, self._slices(low, high), *last), None, checked=False)

    def _slices(self, low: np.ndarray, high: np.ndarray) -> dict[str, Any]:
        dtype = np.int32 if self.edges < 2**31 else np.int64
        return {"pos": self._placed(low.astype(dtype)), "end": self._placed(high.astype(dtype)), "crd": self.columns}

    def _placed(self, array: np.ndarray) -> Any:
        """Where the columns lie."""
        return to_device(array) if self.cuda else array


def incoming(window: Window, arrays: Arrays | None = None) -> Neighbours:
    """The edges that reach each node, by the twin: nothing is built for the window.

    `arrays`: those of its graph, where they lie on a device.
    """
    arrays = arrays or Arrays.of(window.graph)
    return _side(window, arrays, window.by_destination, arrays.sources, arrays.perm)


def outgoing(window: Window, arrays: Arrays | None = None) -> Neighbours:
    """The edges that leave each node; `arrays` as of `incoming`."""
    arrays = arrays or Arrays.of(window.graph)
    return _side(window, arrays, window.by_source, arrays.destinations, None)


def _side(window: Window, arrays: Arrays, bounds: Bounds, columns: Any, ids: Any) -> Neighbours:
    low, high = (one.astype(np.int64) for one in bounds)
    filters = {} if not window.distinct else {"next": arrays.next, "now": window.last}
    if window.graph.end is not None:
        filters |= {"end": arrays.end, "since": window.first}
    return Neighbours(low, high, columns, ids, window.graph.events, **filters, cuda=arrays.cuda)


def to_device(array: np.ndarray) -> Any:
    """A copy on the current GPU; the simulator reads the host's."""
    from numba import cuda

    from . import warp

    return array if warp.SIMULATED else cuda.to_device(np.ascontiguousarray(array))
