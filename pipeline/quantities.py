"""The paper's quantities of a store: how deep its connections depend on each other, and how wide they lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..kernels import rounds
from ..storage.errors import HeadwayError
from ..storage.store import Store
from .engines import Rows, vertices_of
from .ordered import by_level, refuse_walking
from .query_file import Queries

EXACT = 100_000  # connections from which on the diameter is not computed exactly


@dataclass(frozen=True)
class Quantities:
    """Table III of the paper, for one store.

    `longest_path` counts connections on a longest path of the edge-scan-dependency graph, which is its levels.
    `diameter` is the temporal diameter if `exact`, else a lower bound.
    """

    connections: int
    longest_path: int
    diameter: int
    exact: bool

    @property
    def parallel_factor(self) -> float | None:
        """Connections per round of relaxation; None where the diameter is 0."""
        return self.connections / self.diameter if self.diameter else None

    @property
    def level_parallel_factor(self) -> float:
        """Connections per level of the dependency graph."""
        return self.connections / self.longest_path


def quantities(store: Store, queries: Queries | None) -> Quantities:
    """Over these queries; None: exactly, over all vertices and all of their departures.

    Raises `HeadwayError` for a store with footpaths, and for one too large to be exact.
    """
    connections = len(store.connections.departure)
    refuse_walking(store, "the temporal diameter")
    if queries is not None:
        asked = vertices_of(store, queries.origin), queries.departure
    elif connections < EXACT:
        asked = _all_departures(store)
    else:
        raise HeadwayError(f"an exact diameter takes less than {EXACT} connections, and the store has {connections}")
    return Quantities(connections, len(by_level(store).cyclic), diameter(store, *asked), queries is None)


def diameter(store: Store, sources: Rows, leave: np.ndarray) -> int:
    """The last round in which a label falls for any query; `sources` and `leave` as an engine takes them."""
    graph, lists = store.cluster_ap, store.profile
    profile = (lists.slot, lists.slots, lists.shift, lists.index, lists.word, lists.least)
    found = rounds.last_rounds((graph.vertex_edge, graph.edge_to), profile, sources, leave)
    return int(found.max(initial=0))


def processed(store: Store, sources: Rows, leave: np.ndarray) -> dict[str, np.ndarray]:
    """Share of the connections that each of the paper's algorithms relaxes for a query: float64[queries] by name.

    A connection counts as often as it is relaxed, so a share may pass 1. The paper gives its mean for Cluster-ap with
    Table V. Algorithms by connection type find the same connections, each in its own way. `sources` and `leave` as an
    engine takes them. Raises `HeadwayError` for a store with footpaths.
    """
    refuse_walking(store, "the share of connections processed")
    graph, connections = store.cluster_ap, store.connections
    edges = (graph.vertex_edge, graph.edge_to, graph.edge_type, graph.duration)
    found = rounds.relaxed(edges, (connections.offset, connections.departure), sources, leave)
    count = len(connections.departure)
    scanned = count - np.searchsorted(np.sort(connections.departure), leave)
    return {
        "connection-scan": scanned / count,
        "esdg": np.ones(len(leave)),
        "connection": found[:, 0] / count,
        **dict.fromkeys(("connection-type", "connection-type-ap", "cluster-ap", "edge"), found[:, 1] / count),
    }


def _all_departures(store: Store) -> tuple[Rows, np.ndarray]:
    """A query for each vertex and second at which something leaves it: in between, labels fall in the same rounds."""
    graph, connections = store.cluster_ap, store.connections
    tail = np.repeat(graph.edge_from[graph.type_edge], np.diff(connections.offset))
    pairs = np.unique(np.column_stack([tail, connections.departure]), axis=0)
    return (np.arange(len(pairs) + 1), pairs[:, 0].astype(np.uint32)), pairs[:, 1].astype(np.int32)
