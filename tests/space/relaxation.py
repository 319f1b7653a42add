"""Statements that the next issues need, and their schedules: earliest arrival over Cluster-AP, a windowed sum."""

from __future__ import annotations

from headway.kernels.hierarchy import form, hierarchy
from headway.kernels.space import (
    Compressed,
    Dense,
    Format,
    Schedule,
    Tensor,
    Window,
    schedule,
    shuffle,
)
from headway.storage.store import Store

RELAX = schedule(
    "arrival[v] min= t + l where active[u] and S[u, v, l, c, t] and c >= arrival[u] // width and t >= arrival[u]",
    S=form("clusters"),
)
WINDOWS = Format((Dense(), Window(), Compressed()), (0, 1, 2))
WINDOWED = schedule("H[i, k] += A[i, w, j] * X[j, k] where t0 <= w < t1", A=WINDOWS)


def of_cluster_ap(store: Store) -> Tensor:
    """The connections of a store, as they lie."""
    return hierarchy(store.cluster_ap, store.connections, "clusters")["S"]


def fused(made: Schedule, *loops: str) -> Schedule:
    """Positions `p` of the last loop, which all others are fused into."""
    last = loops[-1]
    for number, loop in enumerate(reversed(loops[:-1])):
        made, last = made.fuse(loop, last, f"f{number}"), f"f{number}"
    return made.pos(last, "p", "S")


FIRST = RELAX.first("c", "t")
CPU = {
    "as stated": RELAX,
    "vertices": FIRST.parallelize("u", "threads", "atomic"),
    "edges": fused(FIRST, "u", "v").split("p", "b", "e", 16).parallelize("b", "threads", "atomic"),
    "connection types": fused(FIRST, "u", "v", "l").split("p", "b", "q", 16).parallelize("b", "threads", "atomic"),
    "connection types, all terms": fused(RELAX, "u", "v", "l")
    .split("p", "b", "q", 16)
    .parallelize("b", "threads", "atomic"),
    "connection types, progressions in threes": fused(FIRST.unroll("t", 3), "u", "v", "l")
    .split("p", "b", "q", 16)
    .parallelize("b", "threads", "atomic"),
    "progressions": fused(RELAX, "u", "v", "l", "c", "t")
    .split("p", "b", "q", 16)
    .parallelize("b", "threads", "atomic"),
}
CUDA = {
    "edge a thread": fused(FIRST, "u", "v")
    .split("p", "b", "e", 256)
    .parallelize("b", "block", "atomic")
    .parallelize("e", "thread", "atomic"),
    "connection type a thread": fused(FIRST, "u", "v", "l")
    .split("p", "b", "q", 256)
    .parallelize("b", "block", "atomic")
    .parallelize("q", "thread", "atomic"),
    "connection type a thread, progressions in pairs": fused(FIRST.unroll("t", 2), "u", "v", "l")
    .split("p", "b", "q", 256)
    .parallelize("b", "block", "atomic")
    .parallelize("q", "thread", "atomic"),
    "edge to eight lanes": fused(FIRST, "u", "v")
    .split("p", "b", "e", 32)
    .pos("l", "lp", "S")
    .parallelize("b", "block", "atomic")
    .parallelize("e", "warp", "atomic")
    .parallelize("lp", "lane", shuffle(8)),
    "progression a thread": fused(RELAX, "u", "v", "l", "c", "t")
    .split("p", "b", "q", 256)
    .parallelize("b", "block", "atomic")
    .parallelize("q", "thread", "atomic"),
}
WINDOWED_CPU = {
    "as stated": WINDOWED,
    "rows": WINDOWED.split("i", "a", "b", 4).parallelize("a", "threads"),
    "blocks of entries": WINDOWED.fuse("w", "j", "f")
    .fuse("i", "f", "g")
    .pos("g", "p", "A")
    .split("p", "a", "b", 8)
    .reorder("a", "k", "b")
    .parallelize("a", "threads", "carry"),
}
WINDOWED_CUDA = {
    "row a thread": WINDOWED.split("i", "a", "b", 64).parallelize("a", "block").parallelize("b", "thread"),
    "row a warp, columns over lanes": WINDOWED.split("i", "a", "b", 4)
    .reorder("a", "b", "k", "w", "j")
    .parallelize("a", "block")
    .parallelize("b", "warp")
    .parallelize("k", "lane"),
}
