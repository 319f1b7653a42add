"""A store's connections as sparse hierarchies: vertex > edge > connection type > what a type holds.

The coordinate of a type is its duration. A type holds departures, or progressions, or clusters of progressions (CT,
CL, AP of "GPU Algorithm for Earliest Arrival Time Problem in Public Transport Networks", Fig. 1). Arrays are shared
with the store.
"""

from __future__ import annotations

import numpy as np

from ..storage.cluster_ap import ClusterAp
from ..storage.store import Connections
from ..storage.timetable import Footpaths
from .space.levels import Compressed, Dense
from .space.tensors import CSR, Format, Tensor
from .space.time_levels import Progression

TYPES = Format((Dense(), Compressed(), Compressed()), (0, 1, 2))
FORMATS = {
    "departures": Format((*TYPES.levels, Compressed()), (0, 1, 2, 3)),
    "progressions": Format((*TYPES.levels, Progression()), (0, 1, 2, 3)),
    "clusters": Format((*TYPES.levels, Compressed(), Progression()), (0, 1, 2, 3, 4)),
}
LARGE = 2**31  # above all durations, clusters and departures


def hierarchy(graph: ClusterAp, connections: Connections, kind: str) -> dict[str, Tensor]:
    """`S`, connections in one of `FORMATS`; `begins` and `ends`, a type's first and last departure (int32)."""
    vertices = len(graph.vertex_edge) - 1
    types = (
        {"n": vertices},
        {"pos": graph.vertex_edge, "crd": graph.edge_to},
        {"pos": graph.edge_type, "crd": graph.duration.view(np.uint32)},
    )
    terms = {"start": graph.start, "end": graph.end, "step": graph.step}
    inside = {
        "departures": ({"pos": connections.offset, "crd": connections.departure.view(np.uint32)},),
        "progressions": ({"pos": graph.cluster_first[graph.type_cluster], **terms},),
        "clusters": (
            {"pos": graph.type_cluster, "crd": graph.cluster_number},
            {"pos": graph.cluster_first, **terms},
        ),
    }
    shape = (vertices, vertices, *(LARGE,) * (len(FORMATS[kind].levels) - 2))
    found = {"S": Tensor(FORMATS[kind], shape, (*types, *inside[kind]), None, checked=False)}
    for name, at in (("begins", connections.offset[:-1]), ("ends", connections.offset[1:] - 1)):
        found[name] = Tensor(TYPES, shape[:3], types, connections.departure[at], checked=False)
    return found


def walking(paths: Footpaths) -> Tensor:
    """Footpaths as a matrix of seconds (int32)."""
    vertices = len(paths.offset) - 1
    arrays = ({"n": vertices}, {"pos": paths.offset, "crd": paths.to})
    return Tensor(CSR, (vertices, vertices), arrays, paths.seconds, checked=False)
