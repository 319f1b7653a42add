"""What a build writes and a query reads, and how it lies in a bundle."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from . import bundle
from .cluster_ap import ClusterAp
from .draft import Draft, draft
from .edge_profile import EdgeProfile
from .errors import HeadwayError
from .remote import brought_bundle
from .timetable import Footpaths, Places, Timetable, Trips

KIND = "store"
VERSION = 1


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

    `facts` is plain data for people and manifests: sources, build arguments, counts, what was dropped.
    """

    timetable: Timetable
    connections: Connections
    cluster_ap: ClusterAp
    profile: EdgeProfile
    facts: dict[str, Any]

    @cached_property
    def stops(self) -> list[str]:
        """Ids of the stops, in the order of arrays of arrivals."""
        return self.timetable.places.table["id"].slice(0, self.timetable.places.stops).to_pylist()

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write the store as a bundle: whole, or not at all. Raises `HeadwayError` as `draft.write` does."""
        with draft(path, overwrite) as made:
            self.finish(made)

    def finish(self, made: Draft) -> None:
        """Write the store into a draft, which may have made some of its arrays."""
        places, trips = self.timetable.places, self.timetable.trips
        arrays: dict[str, np.ndarray] = {}
        numbers: dict[str, Any] = {"horizon": self.timetable.horizon, "vertices": self.timetable.vertices}
        for part, holder in self._parts().items():
            for field in fields(holder):
                value = getattr(holder, field.name)
                if isinstance(value, np.ndarray):
                    arrays[f"{part}.{field.name}"] = value
                elif isinstance(value, int):
                    numbers[f"{part}.{field.name}"] = value
        tables = {"places": places.table, "trips": pa.table({"id": trips.ids})}
        meta = {"facts": self.facts, "numbers": numbers, "rebuild": self.facts["rebuild"]}
        made.write(kind=KIND, version=VERSION, arrays=arrays, tables=tables, meta=meta)

    def _parts(self) -> dict[str, Any]:
        timetable = self.timetable
        return {
            "places": timetable.places,
            "trips": timetable.trips,
            "footpaths": timetable.footpaths,
            "connections": self.connections,
            "cluster_ap": self.cluster_ap,
            "profile": self.profile,
        }


def load(path: str | Path, verify: bool = False) -> Store:
    """Open a store; its arrays are memory-mapped. `verify` compares every checksum first.

    Raises `HeadwayError` for what is no whole store of this version.
    """
    found = bundle.open(path, KIND, VERSION)
    if verify:
        found.verify()
    numbers, facts = (_section(found, name) for name in ("numbers", "facts"))

    def part(kind: Any, name: str, **given: Any) -> Any:
        for field in fields(kind):
            if field.name not in given:
                key = f"{name}.{field.name}"
                given[field.name] = numbers[key] if key in numbers else found.array(key)
        return kind(**given)

    if missing := [name for name in ("horizon", "vertices") if type(numbers.get(name)) is not int]:
        raise HeadwayError(f"{found.path / bundle.MANIFEST}: damaged, it has no {missing[0]}; build the store again")
    timetable = Timetable(
        numbers["horizon"],
        numbers["vertices"],
        part(Places, "places", table=found.table("places")),
        part(Trips, "trips", ids=found.table("trips")["id"].combine_chunks()),
        part(Footpaths, "footpaths"),
    )
    return Store(
        timetable,
        part(Connections, "connections"),
        part(ClusterAp, "cluster_ap"),
        part(EdgeProfile, "profile"),
        facts,
    )


def local(source: str | Path, say: Callable[[str], None] = lambda text: None) -> Path:
    """The folder of a store on this machine: `source` itself, or a copy of what a URL names, as `brought_bundle`."""
    return brought_bundle(source, KIND, VERSION, say)


def _section(found: bundle.Bundle, name: str) -> dict[str, Any]:
    section = found.meta.get(name)
    if not isinstance(section, dict):
        raise HeadwayError(f"{found.path / bundle.MANIFEST}: damaged, it has no {name}; build the store again")
    return section


def fingerprint(path: str | Path) -> str:
    """Tells this store's content from any other's: SHA-256 of its manifest, which holds all checksums."""
    return hashlib.sha256((Path(path) / bundle.MANIFEST).read_bytes()).hexdigest()


def sizes(path: str | Path) -> dict[str, int]:
    """Bytes of each file of a store."""
    return bundle.open(path, KIND, VERSION).sizes()
