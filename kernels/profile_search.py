"""Label-correcting search in time order over edge profiles: the fast engine on a CPU.

Vertices are drained bucket by bucket. In a bucket the edges that may improve a label are gathered first, the
profile words that they need are touched, and only then searched, so that the misses of many edges overlap.
"""

from __future__ import annotations

import numpy as np

from . import buckets
from .jit import njit
from .levels import NEVER

# Lookups gathered before they are searched; their words and labels fit the first-level cache.
GATHER = 256


@njit
def search(queries, edges, profile, footpaths, spread, bits, sources, leave, targets, limit, out):
    """Earliest arrivals.

    `queries` int64 (which, in order of work). `edges` (vertex_edge int64[vertices + 1], edge_to uint32).
    `profile` (slot, slots, shift, index, word, least) of `EdgeProfile`. `footpaths` (offset int64, to uint32, seconds
    int32). `spread` is the most by which a label can lie ahead of the earliest that waits; buckets are 2 **
    `bits` seconds wide. Query q starts at second `leave[q]` (int32) from the vertices `sources[1][sources[0][q]
    : sources[0][q + 1]]` (int64 offsets, uint32). Labels up to second `limit[q]` (int32) are exact, and if
    `targets` (as sources) names vertices of q, only until the earliest of them is known; later labels are upper
    bounds. Fills `out` int32[queries, vertices] in order of q. Returns a number that keeps the touches alive.
    """
    vertex_edge, edge_to = edges
    slot, slots, shift, index, word, least = profile
    offset, to, seconds = footpaths
    kind = word.dtype.type
    vertices = out.shape[1]
    count = np.uint64(len(edge_to))
    none = ~kind(0)
    mask = (kind(1) << kind(shift)) - kind(1)
    head, after, before, place = buckets.make(vertices, (spread >> bits) + 2)
    ready = np.empty(vertices, np.int32)
    room = GATHER + most_edges(vertex_edge)
    heads = np.empty(room, np.uint32)
    keys = np.empty(room, word.dtype)
    places = np.empty(room, np.uint64)
    touched = kind(0)
    for q in queries:
        label = out[q]
        label[:] = NEVER
        last = limit[q]
        waiting = 0
        for s in range(sources[0][q], sources[0][q + 1]):
            label[sources[1][s]] = leave[q]
            waiting += buckets.put(head, after, before, place, sources[1][s], leave[q] >> bits)
        bucket = np.int64(leave[q]) >> bits
        while waiting and bucket << bits <= last:
            drained = buckets.drain(head, after, place, bucket, ready)
            if drained == 0:
                bucket += 1
                for t in range(targets[0][q], targets[0][q + 1]):
                    last = min(last, label[targets[1][t]])
                continue
            waiting -= drained
            k = 0
            while k < drained:
                gathered = np.uint64(0)
                while k < drained and gathered < GATHER:
                    u = np.uint64(ready[k])
                    k += 1
                    now = label[u]
                    for f in range(np.uint64(offset[u]), np.uint64(offset[u + np.uint64(1)])):
                        reached = now + seconds[f]
                        if reached < label[to[f]]:
                            label[to[f]] = reached
                            waiting += buckets.put(head, after, before, place, to[f], reached >> bits)
                    s = now // slot
                    if s >= slots:
                        continue
                    base = np.uint64(s) * count
                    key = kind(now) << kind(shift)
                    for e in range(np.uint64(vertex_edge[u]), np.uint64(vertex_edge[u + np.uint64(1)])):
                        v = edge_to[e]
                        if now + least[e] < label[v]:
                            heads[gathered] = v
                            keys[gathered] = key
                            places[gathered] = index[base + e]
                            gathered += np.uint64(1)
                for g in range(gathered):
                    touched += word[places[g]]
                for g in range(gathered):
                    p, key = places[g], keys[g]
                    found = word[p]
                    while found < key:
                        p += np.uint64(1)
                        found = word[p]
                    if found == none:
                        continue
                    v = heads[g]
                    reached = np.int32(found >> kind(shift)) + np.int32(found & mask)
                    if reached < label[v]:
                        label[v] = reached
                        waiting += buckets.put(head, after, before, place, v, reached >> bits)
        if waiting:
            buckets.clear(head, place)
    return touched


@njit
def most_edges(vertex_edge):
    """The largest out-degree."""
    most = np.int64(0)
    for u in range(len(vertex_edge) - 1):
        most = max(most, vertex_edge[u + 1] - vertex_edge[u])
    return most
