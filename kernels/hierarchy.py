"""A store's connections as sparse hierarchies: vertex > edge > connection type > what a type holds.

The coordinate of a type is its duration. A type holds departures, or progressions, or clusters of progressions (CT,
CL, AP of "GPU Algorithm for Earliest Arrival Time Problem in Public Transport Networks", Fig. 1). Arrays are shared
with the store.

Clusters are those of a type that are not empty, or a table with a place for each, the paper's CL: nothing is searched
for in it, where it fits.

On a GPU the leading levels may be a list of coordinates instead, as the paper keeps (u, v, lambda) of each connection
type: a thread reads them at its position, and searches for nothing.
"""

from __future__ import annotations

import numpy as np

from ..storage.cluster_ap import DENSE_LIMIT, ClusterAp
from ..storage.store import Connections
from ..storage.timetable import Footpaths
from .space.levels import Arrays, Compressed, Dense
from .space.tensors import CSR, Format, Tensor, coo_format
from .space.time_levels import Progression

INSIDE = {
    "departures": (Compressed(),),
    "progressions": (Progression(),),
    "clusters": (Compressed(), Progression()),
    "cluster table": (Dense(), Progression()),
}
LARGE = 2**31  # above all durations, clusters and departures


def form(kind: str, listed: int = 0, depth: int | None = None) -> Format:
    """The levels of one of `INSIDE`, or the first `depth` of them; the first `listed` (0, or 2 to 4) are a list."""
    levels = (Dense(), Compressed(), Compressed(), *INSIDE[kind])[:depth]
    if listed:
        levels = (*coo_format(listed).levels, *levels[listed:])
    return Format(levels, tuple(range(len(levels))))


def hierarchy(graph: ClusterAp, connections: Connections, kind: str, listed: int = 0) -> dict[str, Tensor]:
    """`S`, connections in a `form`; `begins` and `ends`, a type's first and last departure (int32).

    A list of four levels holds single connections, and there are no types then.
    """
    vertices = len(graph.vertex_edge) - 1
    departures = {"pos": connections.offset, "crd": connections.departure.view(np.uint32)}
    arrays = (
        {"n": vertices},
        {"pos": graph.vertex_edge, "crd": graph.edge_to},
        {"pos": graph.edge_type, "crd": graph.duration.view(np.uint32)},
        *([departures] if kind == "departures" else _progressions(graph, kind)),
    )
    if listed:
        arrays = (*_list(graph, departures, listed), *arrays[listed:])
    shape = (vertices, vertices, *(int(one.get("n", LARGE)) for one in arrays[2:]))
    found = {"S": Tensor(form(kind, listed), shape, arrays, None, checked=False)}
    if listed < 4:
        types, first, last = form(kind, listed, 3), connections.offset[:-1], connections.offset[1:] - 1
        for name, at in (("begins", first), ("ends", last)):
            found[name] = Tensor(types, shape[:3], arrays[:3], connections.departure[at], checked=False)
    return found


def fitting(graph: ClusterAp, kind: str) -> str:
    """`cluster table` for `clusters` where it fits, as `ClusterAp.dense` says; else the kind itself."""
    table = kind == "clusters" and 8 * len(graph.duration) * _clusters(graph) <= DENSE_LIMIT
    return "cluster table" if table else kind


def _clusters(graph: ClusterAp) -> int:
    return int(graph.cluster_number.max(initial=0)) + 1


def _progressions(graph: ClusterAp, kind: str) -> list[Arrays]:
    """What a type holds: progressions, in clusters or not."""
    terms = {"start": graph.start, "end": graph.end, "step": graph.step}
    if kind == "progressions":
        return [{"pos": graph.cluster_first[graph.type_cluster], **terms}]
    if kind == "clusters":
        clusters = {"pos": graph.type_cluster, "crd": graph.cluster_number}
        return [clusters, {"pos": graph.cluster_first, **terms}]
    count = _clusters(graph)
    offset = graph.dense(count)
    # Half as wide where that is enough, so that more of it stays in caches.
    offset = offset.astype(np.int32) if offset[-1] < 2**31 else offset
    return [{"n": count}, {"pos": offset, **terms}]


def _list(graph: ClusterAp, departures: Arrays, listed: int) -> tuple[Arrays, ...]:
    """Coordinates of all edges, types or connections."""
    columns = [graph.edge_from, graph.edge_to]
    if listed > 2:
        columns = [*(column[graph.type_edge] for column in columns), graph.duration.view(np.uint32)]
    if listed > 3:
        columns = [*(np.repeat(column, np.diff(departures["pos"])) for column in columns), departures["crd"]]
    whole = np.array([0, len(columns[0])])
    return {"pos": whole, "crd": columns[0]}, *({"crd": column} for column in columns[1:])


def walking(paths: Footpaths) -> Tensor:
    """Footpaths as a matrix of seconds (int32)."""
    vertices = len(paths.offset) - 1
    arrays = ({"n": vertices}, {"pos": paths.offset, "crd": paths.to})
    return Tensor(CSR, (vertices, vertices), arrays, paths.seconds, checked=False)
