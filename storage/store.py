"""What a build writes and a query reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .cluster_ap import ClusterAp
from .edge_profile import EdgeProfile
from .timetable import Timetable


@dataclass(frozen=True)
class Connections:
    """Distinct connections in order of type, then departure.

    `offset` int64[types + 1] gives each type's connections, `departure` int32[connections]; the runs that make
    connection c are `run[run_offset[c] : run_offset[c + 1]]` (int64, uint32), none for input without trips.
    """

    offset: np.ndarray
    departure: np.ndarray
    run_offset: np.ndarray
    run: np.ndarray


@dataclass(frozen=True)
class Store:
    """A timetable with its connections, as types and progressions, and its edge profiles.

    `facts` is plain data for people and manifests: feeds, build arguments, counts, what was dropped.
    """

    timetable: Timetable
    connections: Connections
    cluster_ap: ClusterAp
    profile: EdgeProfile
    facts: dict
