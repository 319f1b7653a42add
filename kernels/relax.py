"""Earliest arrival as one statement over sparse levels, and the paper's algorithms as schedules of it.

A store's connections are a hierarchy: vertex > edge > connection type (its coordinate is the duration) > departures,
or progressions, or clusters of progressions. Entries are functions of time: leave at the first departure t at or
after the label of u, arrive l later. The sum is the minimum.

Source: "GPU Algorithm for Earliest Arrival Time Problem in Public Transport Networks": Algorithms 4 to 6, Cluster-ap,
the Edge-version with virtual warps, and the early terminations of its implementation.
"""

from __future__ import annotations

from collections.abc import Callable

from .hierarchy import FORMATS, TYPES
from .space.relations import shuffle
from .space.schedule import Schedule, schedule
from .space.tensors import CSR

ENTRIES = {kind: "S[u, v, l, t]" for kind in FORMATS} | {"clusters": "S[u, v, l, c, t] and c >= arrival[u] // width"}
# Nothing of a type helps: it begins after the label of v, or ends before that of u.
EARLY = " and begins[u, v, l] <= arrival[v] and ends[u, v, l] >= arrival[u]"


def relaxation(kind: str, early: bool = True) -> Schedule:
    """The statement over one of `FORMATS`, before any transformation; `early`: with the paper's terminations."""
    text = f"arrival[v] min= t + l where active[u]{EARLY if early else ''} and {ENTRIES[kind]} and t >= arrival[u]"
    if not early:
        return schedule(text, S=FORMATS[kind])
    return schedule(text, along={"begins": "S", "ends": "S"}, S=FORMATS[kind], begins=TYPES, ends=TYPES)


def each(made: Schedule, *loops: str, cuda: bool) -> Schedule:
    """A thread for each position of the last of the outermost loops; on the CPU one for a block of them."""
    fused = loops[-1]
    for number, loop in enumerate(reversed(loops[:-1])):
        made, fused = made.fuse(loop, fused, f"f{number}"), f"f{number}"
    made = made.pos(fused, "p", "S").split("p", "block", "one", 256 if cuda else 4096)
    if not cuda:
        return made.parallelize("block", "threads", "atomic")
    return made.parallelize("block", "block", "atomic").parallelize("one", "thread", "atomic")


def connection(cuda: bool = False) -> Schedule:
    """A thread for each connection (Algorithm 4)."""
    return each(relaxation("departures", early=False), "u", "v", "l", "t", cuda=cuda)


def connection_type(cuda: bool = False) -> Schedule:
    """A thread for each connection type, whose departures it looks through (Algorithm 5)."""
    return each(relaxation("departures").scan("t").first("t"), "u", "v", "l", cuda=cuda)


def connection_type_ap(cuda: bool = False) -> Schedule:
    """A thread for each connection type: the first term of each of its progressions (Algorithm 6)."""
    return each(relaxation("progressions").first("t"), "u", "v", "l", cuda=cuda)


def cluster_ap(cuda: bool = False) -> Schedule:
    """A thread for each connection type: the cluster of the label, else the next one."""
    return each(relaxation("clusters").first("c", "t"), "u", "v", "l", cuda=cuda)


def edge(cuda: bool = False) -> Schedule:
    """A thread for each edge, over its connection types."""
    return each(relaxation("clusters").first("c", "t"), "u", "v", cuda=cuda)


def virtual_warp(width: int) -> Schedule:
    """A virtual warp of `width` lanes for each edge, over its connection types; CUDA's alone."""
    made = relaxation("clusters").first("c", "t").fuse("u", "v", "e").pos("e", "p", "S")
    made = made.split("p", "block", "one", 256 // width).pos("l", "kind", "S")
    made = made.parallelize("block", "block", "atomic").parallelize("one", "warp", "atomic")
    return made.parallelize("kind", "lane", shuffle(width))


def footpath(cuda: bool = False) -> Schedule:
    """Walking, which every algorithm adds: a thread for each vertex."""
    made = schedule("arrival[v] min= arrival[u] + F[u, v] where active[u]", F=CSR).split("u", "block", "one", 256)
    if not cuda:
        return made.parallelize("block", "threads", "atomic")
    return made.parallelize("block", "block", "atomic").parallelize("one", "thread", "atomic")


# By name: the hierarchy that it walks, and its schedule for CUDA or the CPU.
ALGORITHMS: dict[str, tuple[str, Callable[[bool], Schedule]]] = {
    "connection": ("departures", connection),
    "connection-type": ("departures", connection_type),
    "connection-type-ap": ("progressions", connection_type_ap),
    "cluster-ap": ("clusters", cluster_ap),
    "edge": ("clusters", edge),
}
