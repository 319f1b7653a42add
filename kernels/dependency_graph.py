"""Edge-scan-dependency graph: levels of connections, and earliest arrivals level by level (the paper's baseline).

Connection c' depends on c = (u, v, t, lambda) if it leaves v at or after t + lambda and nothing on its edge that does
arrives earlier. The graph itself is never stored: its levels come from one pass in order of time.
"""

from __future__ import annotations

import numpy as np

from .jit import njit
from .levels import NEVER
from .trips import group

# Who can depend on another connection: none that is beaten. Of equal arrivals over an edge all can; the last one to
# leave ends them.
BEATEN, TIED, LAST = np.uint8(0), np.uint8(1), np.uint8(2)
NO_CYCLE = np.int32(-1)


@njit
def roles(edges, edge, departure, arrival):
    """`BEATEN`, `TIED` or `LAST`: uint8[connections].

    `edge` uint32, `departure`, `arrival` int32 [connections] in scan order, of so many `edges`.
    """
    out = np.empty(len(edge), np.uint8)
    best = np.full(edges, NEVER, np.int32)
    after = len(edge)
    while after > 0:  # backwards, a second at a time: whatever leaves later is known
        first = after - 1
        while first > 0 and departure[first - 1] == departure[after - 1]:
            first -= 1
        for c in range(first, after):
            out[c] = LAST if arrival[c] < best[edge[c]] else TIED
        for c in range(first, after):
            best[edge[c]] = min(best[edge[c]], arrival[c])
        for c in range(first, after):
            if arrival[c] > best[edge[c]]:
                out[c] = BEATEN
        after = first
    return out


@njit
def levels(vertex_edge, edge_to, edge, departure, arrival, role, cycle, last):
    """The level of each connection: int32[connections].

    `vertex_edge` int64[vertices + 1], `edge_to` uint32[edges]. `edge`, `departure`, `arrival`, `role` as of `roles`.
    `cycle` int32[zero-second connections], in their order, numbers the cycles of connections of no duration, or is
    `NO_CYCLE`. Nothing departs after second `last`.
    """
    count = len(edge)
    out = np.zeros(count, np.int32)
    # What leaves over an edge now is at least at this level: arrivals raise it, and a departure on which later
    # arrivals don't bear ends it.
    least = np.zeros(len(edge_to), np.int32)
    in_cycle = np.full(len(edge_to), NO_CYCLE, np.int32)
    shared = np.zeros(cycle.max() + 1 if len(cycle) else 0, np.int32)
    arriving = group(np.minimum(arrival, last + 1), last + 2)[1]
    a = k = z = 0
    while k < count:
        now = departure[k]
        while a < count and arrival[arriving[a]] <= now:
            c = arriving[a]
            a += 1
            if departure[c] < arrival[c]:
                _raise(vertex_edge, least, edge_to[edge[c]], out[c] + 1)
        begin = k
        while k < count and departure[k] == now and arrival[k] == now:
            in_cycle[edge[k]] = cycle[z]
            k += 1
            z += 1
        if begin < k:
            _zero_seconds(begin, k, vertex_edge, edge_to, edge, in_cycle, shared, least, out)
        while k < count and departure[k] == now:
            if role[k] != BEATEN:
                out[k] = least[edge[k]]
                if role[k] == LAST:
                    least[edge[k]] = 0
            k += 1
    return out


@njit
def _raise(vertex_edge, least, v, level):
    """Whatever leaves `v` from now on is at `level` or above."""
    for e in range(np.uint64(vertex_edge[v]), np.uint64(vertex_edge[v + np.uint64(1)])):
        least[e] = max(least[e], level)


@njit
def _zero_seconds(begin, end, vertex_edge, edge_to, edge, in_cycle, shared, least, out):
    """Levels of the zero-second connections [begin, end) of one second, which depend on each other."""
    changed = True
    while changed:
        changed = False
        for c in range(begin, end):
            level, own = least[edge[c]], in_cycle[edge[c]]
            if own != NO_CYCLE:
                changed = changed or level > shared[own]
                level = shared[own] = max(level, shared[own])
            out[c] = level
            v = edge_to[edge[c]]
            for e in range(vertex_edge[v], vertex_edge[v + np.uint64(1)]):
                if least[e] <= level and (own == NO_CYCLE or in_cycle[e] != own):
                    least[e] = level + 1
                    changed = True
    for c in range(begin, end):
        least[edge[c]] = 0
        in_cycle[edge[c]] = NO_CYCLE


@njit
def scan(queries, connections, offset, cyclic, sources, leave, out):
    """Earliest arrivals without walking.

    `connections` (tail, head uint32, departure, arrival int32) by level: those of level l are `offset[l] :
    offset[l + 1]` (int64), relaxed until stable if `cyclic[l]` (bool). The others as of `baselines.scan`.
    """
    tail, head, departure, arrival = connections
    for q in queries:
        label = out[q]
        label[:] = NEVER
        for s in range(sources[0][q], sources[0][q + 1]):
            label[sources[1][s]] = leave[q]
        for level in range(len(cyclic)):
            changed = True
            while changed:
                changed = False
                for c in range(np.uint64(offset[level]), np.uint64(offset[level + 1])):
                    if label[tail[c]] <= departure[c] and arrival[c] < label[head[c]]:
                        label[head[c]] = arrival[c]
                        changed = cyclic[level]
