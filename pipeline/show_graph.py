"""What commands print of a graph that changes with time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from ..storage.dt_csr import DTCSR

COUNTED = ("merged duplicates", "deletions of absent edges", "insertions of present edges")


def made(graph: DTCSR, output: Path, seconds: float) -> None:
    """What a graph came to."""
    out = Console(stderr=True, highlight=False, soft_wrap=True)
    for name in COUNTED:
        if count := graph.facts.get(name):
            out.print(f"{name}: {count:,}", markup=False)
    kind = "events" if graph.end is None else "presences"
    size = sum(held.nbytes for held in graph.arrays().values())
    out.print(
        f"{output}: {graph.nodes:,} nodes, {graph.events:,} {kind} at {graph.ticks:,} ticks, {size / 1e6:,.1f} MB "
        f"in {seconds:.1f} s",
        markup=False,
    )


def snapshot_bytes(graph: DTCSR) -> int:
    """Bytes of a CSR per tick in both directions: offsets, and columns and labels of its edges, 4 bytes each."""
    edges = graph.events
    if graph.end is not None:
        end = np.minimum(graph.end.astype(np.int64), graph.ticks)
        edges = int((end - graph.by_source.event_ticks).sum())
    return graph.ticks * 8 * (graph.nodes + 1) + 16 * edges


def info(graph: DTCSR, as_json: bool) -> None:
    """What a graph holds."""
    sizes = {name: held.nbytes for name, held in graph.arrays().items()}
    facts: dict[str, Any] = dict(graph.facts)
    facts["counts"] = {
        "nodes": graph.nodes,
        "events" if graph.end is None else "presences": graph.events,
        "distinct pairs": int(np.count_nonzero(graph.next == np.uint32(2**32 - 1))),
        "ticks": graph.ticks,
        "ticks without events": graph.ticks - len(np.unique(graph.by_source.entry_ticks)),
    }
    facts["first time"], facts["last time"] = (int(graph.times[k]) if graph.ticks else None for k in (0, -1))
    facts["bytes"] = sizes
    facts["bytes of a CSR per snapshot"] = snapshot_bytes(graph)
    if as_json:
        print(json.dumps(facts, indent=1))
        return
    out = Console(highlight=False, soft_wrap=True)
    for source in facts.get("sources", []):
        out.print(f"{source['name']}: sha256 {source['sha256'][:16]}...", markup=False)
    if "rebuild" in facts:
        out.print(f"build: {facts['rebuild']}", markup=False)
    if graph.ticks:
        out.print(f"ticks begin at times {facts['first time']} to {facts['last time']}", markup=False)
    counts = Table(box=None, show_header=False)
    for name, count in facts["counts"].items():
        counts.add_row(name, f"{count:,}")
    for name in COUNTED:
        if name in facts:
            counts.add_row(name, f"{facts[name]:,}")
    out.print(counts)
    table = Table("array", "bytes", "x a CSR per snapshot", box=None)
    whole = facts["bytes of a CSR per snapshot"]
    for name, size in (("a CSR per snapshot", whole), ("all arrays", sum(sizes.values())), *sizes.items()):
        table.add_row(name, f"{size:,}", f"{size / whole:.3f}" if whole else "")
    out.print(table)
