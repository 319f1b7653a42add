"""The stores of a study: the one given, and others made of its connections and trips, all between the same vertices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ...storage.store import Store
from ..graph import MOST_CLUSTERS, clusters_of, with_clusters, with_subtrips

WIDTHS = (5, 10, 15, 30, 60, 120, 240)  # minutes of a cluster
SCHEMES = ("none", "sqrt-trip", "sqrt-mean")


@dataclass(frozen=True)
class Variant:
    """A store that differs in one thing: `kind` is empty for the store as it was given, else `clusters` or
    `sub-trips`."""

    kind: str
    name: str
    minutes: int
    subtrips: str
    make: Callable[[], Store]


def variants_of(store: Store, threads: int) -> list[Variant]:
    """The given store first. Without trips there are no schemes of sub-trips."""
    own, scheme = store.cluster_ap.width // 60, store.facts["build"]["subtrips"]
    latest = int(store.connections.departure.max())
    found = [Variant("", "", own, scheme, lambda: store)]
    for minutes in WIDTHS:
        if minutes != own and clusters_of(latest, minutes) <= MOST_CLUSTERS:
            make = partial(with_clusters, store, minutes, threads)
            found.append(Variant("clusters", f"{minutes} min", minutes, scheme, make))
    if len(store.timetable.trips.ids):
        for other in SCHEMES:
            if other != scheme:
                make = partial(with_subtrips, store, other, threads)
                found.append(Variant("sub-trips", f"sub-trips {other}", own, other, make))
    return found
