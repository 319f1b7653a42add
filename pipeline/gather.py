"""Parts to one store's arrays, which are made at once and filled part after part."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..storage.cluster_ap import ClusterAp
from ..storage.edge_profile import EdgeProfile
from ..storage.store import Connections
from .partition import SLOT, Assembled

New = Callable[[str, int, type], np.ndarray]
"""Makes an array of a store: its name in the bundle, its length and dtype."""


def in_memory(name: str, size: int, kind: type) -> np.ndarray:
    """An array that nobody keeps on a disk."""
    return np.empty(size, kind)


class Sizes(NamedTuple):
    """How much an `Assembled` adds: lengths, the last of its Pareto departures and the longest of their durations,
    and Pareto departures of each slot, int64, up to that of the last."""

    edges: int
    types: int
    connections: int
    runs: int
    clusters: int
    progressions: int
    latest: int
    longest: int
    by_slot: np.ndarray


def sizes_of(part: Assembled) -> Sizes:
    """The sizes of a part."""
    return Sizes(
        len(part.edge_to),
        len(part.duration),
        len(part.departure),
        len(part.run),
        len(part.cluster_number),
        len(part.start),
        int(part.leave.max()) if len(part.leave) else 0,
        int(part.lasts.max()) if len(part.lasts) else 0,
        np.bincount(part.leave // SLOT),
    )


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
        counts[:, place] += size.edges  # each group ends with one word more
    ends = np.cumsum(counts)
    return Layout(slots, shift, wide, ends.reshape(counts.shape) - counts, int(ends[-1]))


class Gathered:
    """The arrays of all parts; `add` each in turn."""

    def __init__(self, sizes: list[Sizes], vertices: int, width: int, lay: Layout, new: New) -> None:
        edges, types, connections, runs, clusters, progressions = (
            sum(column) for column in list(zip(*sizes, strict=True))[:6]
        )
        self.width, self.layout = width, lay
        self.place: dict[str, int] = {}
        for unit in ("edge", "type", "connection", "run", "cluster", "progression"):
            self.place[unit] = 0
        self.parts = 0
        index = np.uint32 if lay.words < 2**32 else np.int64
        self.arrays = {
            name: new(name, size, kind)
            for name, size, kind in (
                ("cluster_ap.vertex_edge", vertices + 1, np.int64),
                ("cluster_ap.edge_to", edges, np.uint32),
                ("cluster_ap.edge_type", edges + 1, np.int64),
                ("cluster_ap.duration", types, np.int32),
                ("cluster_ap.type_cluster", types + 1, np.int64),
                ("cluster_ap.cluster_number", clusters, np.uint16),
                ("cluster_ap.cluster_first", clusters + 1, np.int64),
                ("cluster_ap.start", progressions, np.int32),
                ("cluster_ap.end", progressions, np.int32),
                ("cluster_ap.step", progressions, np.int32),
                ("connections.offset", types + 1, np.int64),
                ("connections.departure", connections, np.int32),
                ("connections.run_offset", connections + 1, np.int64),
                ("connections.run", runs, np.uint32),
                ("profile.index", lay.slots * edges + 1, index),
                ("profile.word", lay.words, np.uint64 if lay.wide else np.uint32),
            )
        }
        for name in ("vertex_edge", "edge_type", "type_cluster", "cluster_first"):
            self.arrays[f"cluster_ap.{name}"][0] = 0
        self.arrays["connections.offset"][0] = self.arrays["connections.run_offset"][0] = 0
        self.arrays["profile.index"][-1] = lay.words

    def add(self, first: int, part: Assembled, index: np.ndarray, word: np.ndarray) -> None:
        """The next part, whose tails begin at `first`, and what `layout_part` made of it."""
        place = self.place
        self._words(index, word, len(part.edge_to))
        self._offsets("cluster_ap.vertex_edge", first, part.edges)
        self._offsets("cluster_ap.edge_type", place["edge"], part.edge_types)
        self._offsets("cluster_ap.type_cluster", place["type"], part.type_clusters)
        self._offsets("cluster_ap.cluster_first", place["cluster"], part.cluster_terms)
        self._offsets("connections.offset", place["type"], part.type_connections)
        self._offsets("connections.run_offset", place["connection"], part.connection_runs)
        for name, unit, values in (
            ("cluster_ap.edge_to", "edge", part.edge_to),
            ("cluster_ap.duration", "type", part.duration),
            ("cluster_ap.cluster_number", "cluster", part.cluster_number),
            ("cluster_ap.start", "progression", part.start),
            ("cluster_ap.end", "progression", part.end),
            ("cluster_ap.step", "progression", part.step),
            ("connections.departure", "connection", part.departure),
            ("connections.run", "run", part.run),
        ):
            self.arrays[name][place[unit] : place[unit] + len(values)] = values
        for unit, values in (
            ("edge", part.edge_to),
            ("type", part.duration),
            ("connection", part.departure),
            ("run", part.run),
            ("cluster", part.cluster_number),
            ("progression", part.start),
        ):
            place[unit] += len(values)
        self.parts += 1

    def _offsets(self, name: str, at: int, counts: np.ndarray) -> None:
        """Counts as offsets after those that are there."""
        offset = self.arrays[name]
        here = offset[at + 1 : at + 1 + len(counts)]
        np.cumsum(counts, out=here)
        here += offset[at]

    def _words(self, index: np.ndarray, word: np.ndarray, edges: int) -> None:
        """A part's groups to their places among all edges of each slot."""
        if not edges:
            return
        slots, begin, first = self.layout.slots, self.layout.begin[:, self.parts], self.place["edge"]
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
