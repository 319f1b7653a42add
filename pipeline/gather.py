"""Parts to one store's arrays, which are made at once and filled part after part."""

from __future__ import annotations

from collections.abc import Callable
from operator import add
from typing import NamedTuple

import numpy as np

from ..kernels.offsets import fill_ends
from ..storage.cluster_ap import ClusterAp
from ..storage.edge_profile import EdgeProfile
from ..storage.store import Connections
from .partition import SLOT, Assembled

New = Callable[[str, int, type], np.ndarray]
"""Makes an array of a store: its name in the bundle, its length and dtype."""


def in_memory(name: str, size: int, kind: type) -> np.ndarray:
    """An array that nobody keeps on a disk."""
    return np.empty(size, kind)


class Lengths(NamedTuple):
    """How many of each an `Assembled` has."""

    edges: int
    types: int
    connections: int
    runs: int
    clusters: int
    progressions: int


class Sizes(NamedTuple):
    """How much an `Assembled` adds: lengths, the last of its Pareto departures and the longest of their durations,
    and Pareto departures of each slot, int64, up to that of the last."""

    lengths: Lengths
    latest: int
    longest: int
    by_slot: np.ndarray


def sizes_of(part: Assembled) -> Sizes:
    """The sizes of a part."""
    counted = (part.edge_to, part.duration, part.departure, part.run, part.cluster_number, part.start)
    latest, longest = (int(array.max()) if len(array) else 0 for array in (part.leave, part.lasts))
    return Sizes(Lengths._make(map(len, counted)), latest, longest, np.bincount(part.leave // SLOT))


class Layout(NamedTuple):
    """Of the edge profiles: slots, bits of a duration, whether words have 64 bits, and where each part's words of each
    slot begin, int64[slots, parts]."""

    slots: int
    shift: int
    wide: bool
    begin: np.ndarray
    words: int


def layout(sizes: list[Sizes]) -> Layout:
    """How the words of all parts lie."""
    shift = max(1, max(size.longest for size in sizes).bit_length())
    slots = max(size.latest for size in sizes) // SLOT + 1
    # Any second of the last slot is looked up, so all must fit; and then no departure's word has all bits set,
    # which means "none".
    wide = (slots * SLOT).bit_length() + shift > 32
    counts = np.zeros((slots, len(sizes)), np.int64)
    for place, size in enumerate(sizes):
        counts[: len(size.by_slot), place] = size.by_slot
        counts[:, place] += size.lengths.edges  # each group ends with one word more
    ends = np.cumsum(counts)
    return Layout(slots, shift, wide, ends.reshape(counts.shape) - counts, int(ends[-1]))


OFFSETS = (
    ("cluster_ap.vertex_edge", "edges", "", "edges"),
    ("cluster_ap.edge_type", "edge_types", "edges", "types"),
    ("cluster_ap.type_cluster", "type_clusters", "types", "clusters"),
    ("cluster_ap.cluster_first", "cluster_terms", "clusters", "progressions"),
    ("connections.offset", "type_connections", "types", "connections"),
    ("connections.run_offset", "connection_runs", "connections", "runs"),
)
"""Array, the field of `Assembled` that has its counts, what it has one for each of (vertices: ""), what it counts."""

COLUMNS = (
    ("cluster_ap.edge_to", "edge_to", "edges", np.uint32),
    ("cluster_ap.duration", "duration", "types", np.int32),
    ("cluster_ap.cluster_number", "cluster_number", "clusters", np.uint16),
    ("cluster_ap.start", "start", "progressions", np.int32),
    ("cluster_ap.end", "end", "progressions", np.int32),
    ("cluster_ap.step", "step", "progressions", np.int32),
    ("connections.departure", "departure", "connections", np.int32),
    ("connections.run", "run", "runs", np.uint32),
)
"""Array, the field of `Assembled` that it takes, what it has one for each of, dtype."""


class Gathered:
    """The arrays of all parts; `add` each once, in any order and on any threads."""

    def __init__(self, sizes: list[Sizes], vertices: int, width: int, lay: Layout, new: New) -> None:
        self.width, self.layout = width, lay
        self.begin = [Lengths(0, 0, 0, 0, 0, 0)]  # of each part in the arrays
        for size in sizes:
            self.begin.append(Lengths._make(map(add, self.begin[-1], size.lengths)))
        whole = self.begin[-1]
        self.arrays: dict[str, np.ndarray] = {}
        for name, _, unit, _ in OFFSETS:
            rows = getattr(whole, unit) if unit else vertices
            self.arrays[name] = new(name, rows + 1, np.int64)
            self.arrays[name][0] = 0
        for name, _, unit, kind in COLUMNS:
            self.arrays[name] = new(name, getattr(whole, unit), kind)
        index = np.uint32 if lay.words < 2**32 else np.int64
        self.arrays["profile.index"] = new("profile.index", lay.slots * whole.edges + 1, index)
        self.arrays["profile.index"][-1] = lay.words
        self.arrays["profile.word"] = new("profile.word", lay.words, np.uint64 if lay.wide else np.uint32)

    def add(self, number: int, first: int, part: Assembled, index: np.ndarray, word: np.ndarray) -> None:
        """The part of this number, whose tails begin at `first`, and what `layout_part` made of it."""
        begin = self.begin[number]
        for name, field, unit, counted in OFFSETS:
            counts, at = getattr(part, field), getattr(begin, unit) if unit else first
            fill_ends(counts, getattr(begin, counted), self.arrays[name][at + 1 : at + 1 + len(counts)])
        for name, field, unit, _ in COLUMNS:
            values, at = getattr(part, field), getattr(begin, unit)
            self.arrays[name][at : at + len(values)] = values
        self._words(number, index, word, len(part.edge_to))

    def _words(self, number: int, index: np.ndarray, word: np.ndarray, edges: int) -> None:
        """A part's groups to their places among all edges of each slot."""
        if not edges:
            return
        slots, begin, first = self.layout.slots, self.layout.begin[:, number], self.begin[number].edges
        ends = index[::edges]  # of slots
        table = self.arrays["profile.index"][:-1].reshape(slots, -1)
        np.add(
            index[:-1].reshape(slots, edges),
            (begin - ends[:-1])[:, None],
            out=table[:, first : first + edges],
            casting="unsafe",
        )
        words = self.arrays["profile.word"]
        for slot in range(slots):
            words[begin[slot] : begin[slot] + ends[slot + 1] - ends[slot]] = word[ends[slot] : ends[slot + 1]]

    def all(self, new: New) -> tuple[Connections, ClusterAp, EdgeProfile]:
        """The parts of a store, when every part was added."""
        of: dict[str, dict[str, np.ndarray]] = {"cluster_ap": {}, "connections": {}, "profile": {}}
        for name, array in self.arrays.items():
            holder, _, field = name.partition(".")
            of[holder][field] = array
        graph = ClusterAp(self.width, **of["cluster_ap"])
        least = new("profile.least", len(graph.edge_to), np.int32)
        least[:] = graph.duration[graph.edge_type[:-1]]
        return (
            Connections(**of["connections"]),
            graph,
            EdgeProfile(SLOT, self.layout.shift, least=least, **of["profile"]),
        )
