"""Rounds of a relaxation in which every label is read as it was a round before."""

from __future__ import annotations

import numpy as np

from .jit import njit
from .levels import NEVER, seek


@njit
def last_rounds(edges, profile, sources, leave):
    """The last round in which a label falls, for each query; 0 where none does: int32[queries].

    `edges` (vertex_edge int64[vertices + 1], edge_to uint32), `profile` (slot, slots, shift, index, word, least) of
    `EdgeProfile`. Query q starts at second `leave[q]` (int32) from the vertices `sources[1][sources[0][q] :
    sources[0][q + 1]]` (int64 offsets, uint32).
    """
    vertex_edge, edge_to = edges
    slot, slots, shift, index, word, least = profile
    kind = word.dtype.type
    vertices = len(vertex_edge) - 1
    count = np.uint64(len(edge_to))
    none = ~kind(0)
    mask = (kind(1) << kind(shift)) - kind(1)
    before = np.empty(vertices, np.int32)
    label = np.empty(vertices, np.int32)
    fell = np.zeros(vertices, np.bool_)
    active = np.empty(vertices, np.uint32)
    lowered = np.empty(vertices, np.uint32)
    out = np.zeros(len(leave), np.int32)
    for q in range(len(leave)):
        before[:] = NEVER
        many = 0
        for s in range(sources[0][q], sources[0][q + 1]):
            if before[sources[1][s]] == NEVER:
                before[sources[1][s]] = leave[q]
                active[many] = sources[1][s]
                many += 1
        label[:] = before
        rounds = 0
        while many:
            few = 0
            for k in range(many):
                u = np.uint64(active[k])
                now = before[u]
                s = now // slot
                if s >= slots:
                    continue
                base = np.uint64(s) * count
                key = kind(now) << kind(shift)
                for e in range(np.uint64(vertex_edge[u]), np.uint64(vertex_edge[u + np.uint64(1)])):
                    v = edge_to[e]
                    if now + least[e] >= label[v]:
                        continue
                    p = np.uint64(index[base + e])
                    found = word[p]
                    while found < key:
                        p += np.uint64(1)
                        found = word[p]
                    if found == none:
                        continue
                    reached = np.int32(found >> kind(shift)) + np.int32(found & mask)
                    if reached < label[v]:
                        label[v] = reached
                        if not fell[v]:
                            fell[v] = True
                            lowered[few] = v
                            few += 1
            for k in range(few):
                before[lowered[k]] = label[lowered[k]]
                fell[lowered[k]] = False
            active, lowered = lowered, active
            many = few
            rounds += many > 0
        out[q] = rounds
    return out


@njit
def relaxed(edges, connections, sources, leave):
    """Connections that a query relaxes over all of its rounds, one as often as it is: int64[queries, 2].

    A round takes the vertices whose labels fell in the one before. Column 0 counts the connections that leave them at
    or after their labels; column 1 of each connection type the first of these, unless the type begins after the label
    of its head (the paper's early termination).

    `edges` (vertex_edge int64[vertices + 1], edge_to uint32, edge_type int64[edges + 1], duration int32) of
    `ClusterAp`, `connections` (offset int64[types + 1], departure int32). Queries as of `last_rounds`.
    """
    vertex_edge, edge_to, edge_type, duration = edges
    offset, departure = connections
    vertices = len(vertex_edge) - 1
    before = np.empty(vertices, np.int32)
    label = np.empty(vertices, np.int32)
    active = np.empty(vertices, np.bool_)
    out = np.zeros((len(leave), 2), np.int64)
    for q in range(len(leave)):
        before[:] = NEVER
        for s in range(sources[0][q], sources[0][q + 1]):
            before[sources[1][s]] = leave[q]
        active[:] = before < NEVER
        label[:] = before
        while active.any():
            for u in range(vertices):
                if not active[u]:
                    continue
                for e in range(vertex_edge[u], vertex_edge[u + 1]):
                    v = edge_to[e]
                    for i in range(edge_type[e], edge_type[e + 1]):
                        k = seek(departure, offset[i], offset[i + 1], before[u])
                        if k == offset[i + 1]:
                            continue
                        out[q, 0] += offset[i + 1] - k
                        if departure[offset[i]] <= before[v]:
                            out[q, 1] += 1
                            label[v] = min(label[v], departure[k] + duration[i])
            for v in range(vertices):
                active[v] = label[v] < before[v]
                before[v] = label[v]
    return out
