"""Parts of a graph that changes with time, each the events that one device needs, in one bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

import numpy as np
import pyarrow as pa

from . import bundle, draft
from .dt_csr import DTCSR

KIND = "dt-csr-parts"
VERSION = 1


@dataclass(frozen=True, eq=False)
class Part:
    """Some events of a graph, as a graph of the same nodes, ticks and times.

    edges  uint32[events of the part]: edge id here -> edge id in the whole graph, ascending
    """

    graph: DTCSR
    edges: np.ndarray


def save_parts(path: str | PathLike[str], parts: Sequence[Part], overwrite: bool = False) -> None:
    """Write parts of one graph, at least one: all, or none. Raises `HeadwayError` as `draft.write` does."""
    first = parts[0].graph
    arrays = {"times": first.times}
    for number, part in enumerate(parts):
        held = part.graph.arrays() | {"edges": part.edges}
        arrays |= {f"{number}.{name}": array for name, array in held.items() if name != "times"}
    draft.write(
        path,
        kind=KIND,
        version=VERSION,
        arrays=arrays,
        tables={"nodes": pa.table({"id": first.ids})},
        meta={"facts": first.facts},
        overwrite=overwrite,
    )


def load_part(path: str | PathLike[str], number: int) -> Part:
    """Open one of them; its arrays are memory-mapped. Raises `HeadwayError` as `bundle.open` does."""
    found = bundle.open(path, KIND, VERSION)
    names = [name.removesuffix(".npy") for name in found.sizes() if name.startswith(f"{number}.")]
    arrays = {name.partition(".")[2]: found.array(name) for name in names} | {"times": found.array("times")}
    edges = arrays.pop("edges")
    ids = found.table("nodes")["id"].combine_chunks()
    return Part(DTCSR.of_arrays(arrays, ids, found.meta["facts"]), edges)
