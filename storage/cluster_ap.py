"""CT, CL, AP: edge > connection type > cluster > arithmetic progression.

Source: "GPU Algorithm for Earliest Arrival Time Problem in Public Transport Networks", the representation of
Fig. 1. CL is compressed here, since most of types x clusters is empty; `dense` gives the paper's form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

DENSE_LIMIT = 1 << 30


@dataclass(frozen=True)
class ClusterAp:
    """Types sorted by (u, v, lambda), their clusters by number, a cluster's progressions by first term.

    width             seconds of a cluster; the cluster of departure t is t // width
    vertex_edge       int64[vertices + 1]: edges leaving u are vertex_edge[u] : vertex_edge[u + 1]
    edge_to           uint32[edges]
    edge_type         int64[edges + 1]: types of an edge, by duration
    duration          int32[types], seconds
    type_cluster      int64[types + 1]: the type's non-empty clusters
    cluster_number    uint16[clusters]
    cluster_first     int64[clusters + 1]: the cluster's progressions
    start, end, step  int32[progressions]: terms start, start + step, ..., end (step 1 for a single term)
    """

    width: int
    vertex_edge: np.ndarray
    edge_to: np.ndarray
    edge_type: np.ndarray
    duration: np.ndarray
    type_cluster: np.ndarray
    cluster_number: np.ndarray
    cluster_first: np.ndarray
    start: np.ndarray
    end: np.ndarray
    step: np.ndarray

    @property
    def type_edge(self) -> np.ndarray:
        """The edge of each type, int64[types]."""
        return np.repeat(np.arange(len(self.edge_to)), np.diff(self.edge_type))

    @property
    def edge_from(self) -> np.ndarray:
        """The tail of each edge, uint32[edges]."""
        vertices = np.arange(len(self.vertex_edge) - 1, dtype=np.uint32)
        return np.repeat(vertices, np.diff(self.vertex_edge))

    def dense(self, clusters: int) -> np.ndarray:
        """The paper's CL, int64[types * clusters + 1]: progressions of cluster j of type i are
        `dense[i * clusters + j] : dense[i * clusters + j + 1]`.

        Raises `MemoryError` above 1 GiB, where the compressed form is the only one.
        """
        types = len(self.duration)
        if 8 * types * clusters > DENSE_LIMIT:
            raise MemoryError(f"a dense CL of {types} types x {clusters} clusters is over 1 GiB")
        counts = np.zeros(types * clusters + 1, np.int64)
        owner = np.repeat(np.arange(types), np.diff(self.type_cluster))
        counts[owner * clusters + self.cluster_number + 1] = np.diff(self.cluster_first)
        return np.cumsum(counts)
