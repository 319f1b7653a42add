"""Label-correcting search in time order over Cluster-AP lookups."""

from __future__ import annotations

import numpy as np

from . import buckets
from .jit import njit
from .levels import NEVER, useful_departure


@njit
def cluster_ap(queries, edges, graph, footpaths, spread, bits, sources, leave, out):
    """Earliest arrivals: a vertex is relaxed when the bucket of its label opens, again if it falls in there.

    `queries`, `footpaths`, `spread`, `bits`, `sources`, `leave` and `out` as of `profile_search.search`. `edges` is
    (vertex_edge int64, edge_to uint32, edge_type int64, duration int32), `graph` the
    arrays of `levels.useful_departure`. Types of an edge ascend by duration, so the first that can't improve ends it.
    """
    vertex_edge, edge_to, edge_type, duration = edges
    width, type_cluster, cluster_number, cluster_first, start, end, step = graph
    offset, to, seconds = footpaths
    head, after, before, place = buckets.make(out.shape[1], (spread >> bits) + 2)
    for q in queries:
        label = out[q]
        label[:] = NEVER
        waiting = 0
        for s in range(sources[0][q], sources[0][q + 1]):
            label[sources[1][s]] = leave[q]
            waiting += buckets.put(head, after, before, place, sources[1][s], leave[q] >> bits)
        bucket = np.int64(leave[q]) >> bits
        while waiting:
            u = buckets.pop(head, after, before, place, bucket)
            if u == buckets.NONE:
                bucket += 1
                continue
            waiting -= 1
            now = label[u]
            for e in range(np.uint64(vertex_edge[u]), np.uint64(vertex_edge[u + 1])):
                v = edge_to[e]
                best = label[v]
                for i in range(edge_type[e], edge_type[e + np.uint64(1)]):
                    if now + duration[i] >= best:
                        break
                    t = useful_departure(width, type_cluster, cluster_number, cluster_first, start, end, step, i, now)
                    if t != NEVER and t + duration[i] < best:
                        best = t + duration[i]
                if best < label[v]:
                    label[v] = best
                    waiting += buckets.put(head, after, before, place, v, best >> bits)
            for f in range(offset[u], offset[u + 1]):
                reached = now + seconds[f]
                if reached < label[to[f]]:
                    label[to[f]] = reached
                    waiting += buckets.put(head, after, before, place, to[f], reached >> bits)
