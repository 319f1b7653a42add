"""What commands print when they are done."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from ..storage.store import Store
    from .gtfs.report import Report
    from .query import Done
    from .single import Single

ON_SCREEN = 25
COUNTS = (
    "stops",
    "stations",
    "stops without departures",
    "connected components",
    "trips",
    "runs",
    "raw connections",
    "connections",
    "edges",
    "connection types",
    "progressions",
    "footpaths",
)


def built(store: Store, report: Report, output: Path, seconds: float) -> None:
    """What a build made, dropped and took."""
    out = Console(stderr=True, highlight=False, soft_wrap=True)
    counts = store.facts["counts"]
    for warning in report.warnings:
        out.print(f"warning: {warning}", markup=False)
    for entry in report.dropped.values():
        first = ", ".join(entry.first)
        out.print(f"left out, {entry.file}: {entry.count:,} x {entry.cause} (first: {first})", markup=False)
    steps = ", ".join(f"{name} {took:.2f}" for name, took in report.seconds.items())
    out.print(f"seconds: {steps}", markup=False)
    out.print(
        f"{output}: {counts['stops']:,} stops, {counts['connections']:,} connections, "
        f"{counts['connection types']:,} types, {counts['progressions']:,} progressions, "
        f"{counts['footpaths']:,} footpaths in {seconds:.1f} s",
        markup=False,
    )


def note(quiet: bool) -> Callable[[str], None]:
    """What says a line that people want to know before the work."""
    return lambda text: None if quiet else print(f"headway: {text}", file=sys.stderr)


def answered(done: Done, output: Path | str, seconds: float, which: str) -> None:
    """What a batch came to, and on which device and why."""
    out = Console(stderr=True, highlight=False, soft_wrap=True)
    rate = done.queries / max(seconds, 1e-9)
    name = Path(output)
    where = f"{name.stem}.errors.csv" if name.suffix == ".csv" else "errors.parquet"
    bad = f", {done.errors:,} of them errors (see {where})" if done.errors else ""
    out.print(f"{output}: {done.queries:,} queries{bad} in {seconds:.1f} s ({rate:,.0f}/s) on {which}", markup=False)


def studied(output: Path, seconds: float) -> None:
    """Where the report of a study lies."""
    out = Console(stderr=True, highlight=False, soft_wrap=True)
    out.print(f"{output / 'report.md'}: all arrivals equal, in {seconds / 60:.1f} min", markup=False)


def arrivals(single: Single) -> None:
    """One query's arrivals: all of them as lines, or the first on a terminal."""
    from .times import show_time

    start = f"from {single.origin} at {show_time(single.departure)}"
    if single.destination is not None and not single.reached:
        print(f"{single.destination} is not reached {start}")
        return
    shown = single.reached[:ON_SCREEN] if sys.stdout.isatty() else single.reached
    print(f"{start}: {len(single.reached):,} places reached" if single.destination is None else start)
    for second, name, title in shown:
        print(f"{show_time(second):>8}  +{(second - single.departure) / 60:6.1f} min  {name}  {title}")
    if len(shown) < len(single.reached):
        print(f"... and {len(single.reached) - len(shown):,} more; give a file of queries to have all in a table")


def info(store: Store, sizes: dict[str, int], as_json: bool) -> None:
    """What a store holds."""
    facts = dict(store.facts)
    facts["bytes"] = sizes
    facts["bytes of raw departures"] = 4 * facts["counts"]["connections"]
    facts["connections per progression"] = round(facts["counts"]["connections"] / facts["counts"]["progressions"], 3)
    if as_json:
        print(json.dumps(facts, indent=1))
        return
    out = Console(highlight=False, soft_wrap=True)
    for source in facts["sources"]:
        out.print(f"{source['name']}: sha256 {source['sha256'][:16]}...", markup=False)
        if "timezone" in source:
            out.print(
                f"  service {source['first_date']} to {source['last_date']}, {source['timezone']}; "
                f"{source['active_trips']:,} of {source['trips']:,} trips run",
                markup=False,
            )
    clock = (
        f"seconds after midnight of {facts['build']['date']} in {facts['sources'][0]['timezone']}"
        if ("date" in facts["build"])
        else "seconds"
    )
    out.print(f"clock: {clock}, horizon {facts['counts']['horizon']:,} s", markup=False)
    out.print("build: " + ", ".join(f"{key} {value}" for key, value in facts["build"].items()), markup=False)
    for warning in facts["warnings"]:
        out.print(f"warning: {warning}", markup=False)
    for entry in facts["dropped"]:
        first = ", ".join(entry["first"])
        out.print(f"left out, {entry['file']}: {entry['count']:,} x {entry['cause']} (first: {first})", markup=False)
    counts = Table(box=None, show_header=False)
    for name in COUNTS:
        counts.add_row(name, f"{facts['counts'][name]:,}")
    counts.add_row("connections per progression", f"{facts['connections per progression']:.2f}")
    out.print(counts)
    table = Table("array", "bytes", "x raw departures", box=None)
    raw = facts["bytes of raw departures"]
    table.add_row("raw departures", f"{raw:,}", "1.00")
    for name, total in [*_grouped(sizes).items(), *sizes.items()]:
        table.add_row(name, f"{total:,}", f"{total / raw:.2f}")
    out.print(table)


def _grouped(sizes: dict[str, int]) -> dict[str, int]:
    """The paper's three arrays and the edge profiles."""
    found = {"CT": 0, "CL": 0, "AP": 0, "edge profiles": 0}
    fields = {"CL": ("type_cluster", "cluster_number", "cluster_first"), "AP": ("start", "end", "step")}
    groups = {field: group for group, names in fields.items() for field in names}
    for name, size in sizes.items():
        part, _, field = name.removesuffix(".npy").partition(".")
        if part == "cluster_ap":
            found[groups.get(field, "CT")] += size
        elif part == "profile":
            found["edge profiles"] += size
    return found
