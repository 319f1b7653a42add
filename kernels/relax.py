"""Earliest arrival as one statement over sparse levels, and the paper's algorithms as schedules of it.

A store's connections are a hierarchy: vertex > edge > connection type (its coordinate is the duration) > departures,
or progressions, or clusters of progressions. Entries are functions of time: leave at the first departure t at or
after the label of u, arrive l later. The sum is the minimum.

A schedule is for CUDA with so many threads a `block`, or for the threads of a CPU (0).

Source: "GPU Algorithm for Earliest Arrival Time Problem in Public Transport Networks": Algorithms 4 to 6, Cluster-ap,
the Edge-version with virtual warps, and the early terminations of its implementation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from .hierarchy import INSIDE, form
from .space.begin import schedule
from .space.relations import shuffle
from .space.schedule import Schedule
from .space.tensors import CSR

OF_CLUSTERS = "S[u, v, l, c, t] and c >= arrival[u] // width"
ENTRIES = dict.fromkeys(INSIDE, "S[u, v, l, t]") | dict.fromkeys(("clusters", "cluster table"), OF_CLUSTERS)
PAIR = 2  # progressions that are loaded together
# Nothing of a type helps: it begins after the label of v, or ends before that of u.
EARLY = " and begins[u, v, l] <= arrival[v] and ends[u, v, l] >= arrival[u]"


def relaxation(kind: str, early: bool = True, listed: int = 0) -> Schedule:
    """The statement over a `hierarchy.form`, before any transformation; `early`: with the paper's terminations."""
    text = f"arrival[v] min= t + l where active[u]{EARLY if early else ''} and {ENTRIES[kind]} and t >= arrival[u]"
    if not early:
        return schedule(text, S=form(kind, listed))
    types = form(kind, listed, 3)
    return schedule(text, along={"begins": "S", "ends": "S"}, S=form(kind, listed), begins=types, ends=types)


def each(made: Schedule, *loops: str, block: int) -> Schedule:
    """A thread for each position of the last of the outermost loops; on the CPU one for a block of them."""
    fused = loops[-1]
    for number, loop in enumerate(reversed(loops[:-1])):
        made, fused = made.fuse(loop, fused, f"f{number}"), f"f{number}"
    made = made.pos(fused, "p", "S").split("p", "block", "one", block or 4096)
    if not block:
        return made.parallelize("block", "threads", "atomic")
    return made.parallelize("block", "block", "atomic").parallelize("one", "thread", "atomic")


def connection(block: int = 0, kind: str = "departures") -> Schedule:
    """A thread for each connection (Algorithm 4)."""
    made = relaxation(kind, early=False, listed=4 if block else 0)
    return each(made, "u", "v", "l", "t", block=block)


def connection_type(block: int = 0, kind: str = "departures") -> Schedule:
    """A thread for each connection type, whose departures it looks through (Algorithm 5)."""
    made = relaxation(kind, listed=3 if block else 0)
    return each(made.scan("t").first("t"), "u", "v", "l", block=block)


def connection_type_ap(block: int = 0, kind: str = "progressions") -> Schedule:
    """A thread for each connection type: the first term of each of its progressions (Algorithm 6)."""
    made = relaxation(kind, listed=3 if block else 0)
    return each(made.first("t").unroll("t", PAIR), "u", "v", "l", block=block)


def cluster_ap(block: int = 0, kind: str = "clusters") -> Schedule:
    """A thread for each connection type: the cluster of the label, else the next one."""
    made = relaxation(kind, listed=3 if block else 0)
    return each(made.first("c", "t").unroll("t", PAIR), "u", "v", "l", block=block)


def edge(block: int = 0, kind: str = "clusters") -> Schedule:
    """A thread for each edge, over its connection types."""
    made = relaxation(kind, listed=2 if block else 0)
    return each(made.first("c", "t").unroll("t", PAIR), "u", "v", block=block)


def virtual_warp(width: int, block: int, kind: str = "clusters") -> Schedule:
    """A virtual warp of `width` lanes for each edge, over its connection types; CUDA's alone."""
    made = relaxation(kind, listed=2).first("c", "t").unroll("t", PAIR).fuse("u", "v", "e").pos("e", "p", "S")
    made = made.split("p", "block", "one", block // width).pos("l", "type", "S")
    made = made.parallelize("block", "block", "atomic").parallelize("one", "warp", "atomic")
    return made.parallelize("type", "lane", shuffle(width))


def footpath(block: int = 0) -> Schedule:
    """Walking, which every algorithm adds: a thread for each vertex."""
    made = schedule("arrival[v] min= arrival[u] + F[u, v] where active[u]", F=CSR)
    made = made.split("u", "block", "one", block or 256)
    if not block:
        return made.parallelize("block", "threads", "atomic")
    return made.parallelize("block", "block", "atomic").parallelize("one", "thread", "atomic")


class Algorithm(NamedTuple):
    """The `kind` of hierarchy that it walks, and its schedule for a size of blocks and a kind (see `fitting`).

    On CUDA the first `listed` levels are a list, and `lanes` threads share each of its entries.
    """

    kind: str
    listed: int
    make: Callable[..., Schedule]
    lanes: int = 1


ALGORITHMS = {
    "connection": Algorithm("departures", 4, connection),
    "connection-type": Algorithm("departures", 3, connection_type),
    "connection-type-ap": Algorithm("progressions", 3, connection_type_ap),
    "cluster-ap": Algorithm("clusters", 3, cluster_ap),
    "edge": Algorithm("clusters", 2, edge),
}
# CUDA's alone. A virtual warp of one lane is `edge`.
VIRTUAL_WARPS = {
    f"edge-{width}": Algorithm("clusters", 2, partial(virtual_warp, width), width) for width in (2, 4, 8, 16, 32)
}
