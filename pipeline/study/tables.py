"""The tables of a study, from what was measured."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...storage.store import Store
from ..query_file import Queries
from .contestants import BEST, LANES, REFERENCE, Contestant
from .measure import Measured, key
from .variants import SCHEMES, Variant

Cell = str | int | float | None


@dataclass(frozen=True)
class Table:
    """`name` is that of its CSV file. None is a cell without a value."""

    name: str
    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]]

    @property
    def records(self) -> list[dict[str, Any]]:
        """Rows by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def markdown(self) -> str:
        """As people read it."""
        numbers = [any(isinstance(row[k], int | float) for row in self.rows) for k in range(len(self.columns))]
        lines = [
            self.columns,
            ["---:" if right else "---" for right in numbers],
            *([*map(shown, r)] for r in self.rows),
        ]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def write(self, folder: Path) -> None:
        """As programs read it: numbers as they are."""
        with (folder / f"{self.name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([self.columns, *self.rows])


def shown(value: Cell) -> str:
    """A cell, numbers to three digits or more."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def speedup(base: np.ndarray, times: np.ndarray) -> float:
    """Mean by mean, over the queries that both have answered."""
    count = min(len(base), len(times))
    return float(base[:count].mean() / times[:count].mean())


def typical(base: np.ndarray, times: np.ndarray) -> float:
    """The median over queries of each one's own speedup; what else a machine does disturbs it least."""
    count = min(len(base), len(times))
    return float(np.median(base[:count] / times[:count]))


@dataclass(frozen=True)
class Study:
    """What was asked and what was measured."""

    store: Store
    queries: Queries
    contestants: list[Contestant]
    variants: list[Variant]
    measured: Measured

    def times(self, one: Contestant, variant: str = "") -> np.ndarray:
        """Milliseconds of each query: float64[queries], maybe of the first ones of the set alone."""
        return np.array(self.measured.times[key(one, variant)])

    def over(self, base: Contestant | None, times: np.ndarray) -> float | None:
        """Speedup over a baseline; None where it does not take part."""
        return None if base is None else speedup(self.times(base), times)

    @property
    def scan(self) -> Contestant:
        """The connection scan."""
        return self.contestants[0]

    def find(self, name: str, device: str) -> Contestant | None:
        """A contestant, if it takes part."""
        found = (one for one in self.contestants if (one.name, one.device, one.sync) == (name, device, ""))
        return next(found, None)

    @property
    def devices(self) -> list[str]:
        """Those of the paper's algorithms."""
        return sorted({one.device for one in self.contestants if one.name == BEST})

    def of_kind(self, kind: str) -> list[Variant]:
        """The store as given, among its variants of a kind."""
        return [variant for variant in self.variants if variant.kind in ("", kind)]

    def widths(self) -> list[Variant]:
        """By width of a cluster."""
        return sorted(self.of_kind("clusters"), key=lambda variant: variant.minutes)

    def schemes(self) -> list[Variant]:
        """By sub-trips, none first."""
        return sorted(self.of_kind("sub-trips"), key=lambda variant: SCHEMES.index(variant.subtrips))

    def schemes_of(self, name: str, device: str) -> list[dict[str, Any]]:
        """Rows of the table of sub-trips that have a parallel factor."""
        wanted = (row for row in subtrips(self).records if (row["algorithm"], row["device"]) == (name, device))
        return [row for row in wanted if row["parallel factor"]]

    def factor(self, variant: str = "") -> float | None:
        """Connections by temporal diameter; None where that is 0."""
        found = self.measured.stores[variant]
        return found["connections"] / found["diameter"] if found["diameter"] else None


OWN_WIDTH = "median x, own width"
TIMES = ("queries", "mean ms", "median ms", "p95 ms", "x connection scan", "median x")


def _summary(study: Study, times: np.ndarray) -> tuple[Cell, ...]:
    """`TIMES`."""
    mean, median, late = float(times.mean()), float(np.median(times)), float(np.percentile(times, 95))
    scan = study.times(study.scan)
    return len(times), mean, median, late, speedup(scan, times), typical(scan, times)


def algorithms(study: Study) -> Table:
    """Single queries: Tables II and V and Fig. 2 of the paper."""
    rows: list[tuple[Cell, ...]] = []
    for one in study.contestants:
        if one.sync or LANES.get(one.name, 1) > 1:
            continue
        esdg = study.find("esdg", one.device)
        for variant in study.of_kind("sub-trips") if one.name == BEST else study.variants[:1]:
            times = study.times(one, variant.name)
            name = f"{one.name}, {variant.name}" if variant.name else one.name
            rows.append((name, one.device, *_summary(study, times), study.over(esdg, times)))
    return Table("algorithms", ("algorithm", "device", *TIMES, "x ESDG"), rows)


def quantities(study: Study) -> Table:
    """How parallel the store is: Table III."""
    found = study.measured.stores[""]
    rows: list[tuple[Cell, ...]] = [
        ("connections", found["connections"]),
        ("longest path l of the edge-scan-dependency graph", found["longest path"]),
        ("parallel factor, connections / l", found["connections"] / found["longest path"]),
        ("temporal diameter d, at least", found["diameter"]),
        ("parallel factor, connections / d", study.factor()),
    ]
    for device in study.devices:
        one = study.find(BEST, device)
        if one is not None:
            speedup = study.over(study.scan, study.times(one))
            rows.append((f"speedup of {BEST} on {device} over connection scan", speedup))
    return Table("quantities", ("quantity", "value"), rows)


def processed(study: Study) -> Table:
    """Share of connections processed: the text beside Table V."""
    rows: list[tuple[Cell, ...]] = [(name, 100 * share) for name, share in study.measured.processed.items()]
    return Table("processed", ("algorithm", "% of connections"), rows)


def clusters(study: Study) -> Table:
    """Widths of a cluster: Fig. 3. Widths differ by little, so each query is compared with itself at the own width."""
    rows: list[tuple[Cell, ...]] = []
    for one, variant, times in _varied(study, "clusters", study.widths()):
        found = study.measured.stores[variant.name]
        size = found["bytes"] / 1e6
        counts = (found["progressions"], size)
        rows.append((one.device, variant.minutes, *counts, *_summary(study, times), typical(study.times(one), times)))
    columns = ("device", "cluster, min", "progressions", "CL and AP, MB", *TIMES, OWN_WIDTH)
    return Table("cluster_widths", columns, rows)


def subtrips(study: Study) -> Table:
    """Schemes of sub-trips: Table IV."""
    rows: list[tuple[Cell, ...]] = []
    for one, variant, times in _varied(study, "sub-trips", study.schemes()):
        found = study.measured.stores[variant.name]
        counts = (found["connections"], found["types"], found["diameter"], study.factor(variant.name))
        rows.append((one.name, one.device, variant.subtrips, *counts, *_summary(study, times)))
    columns = ("algorithm", "device", "sub-trips", "connections", "types", "diameter", "parallel factor", *TIMES)
    return Table("subtrips", columns, rows)


def _varied(study: Study, kind: str, some: list[Variant]) -> Iterator[tuple[Contestant, Variant, np.ndarray]]:
    """Contestants that run on such variants, and their times over the queries answered on all of them."""
    for one in study.contestants if len(some) > 1 else ():
        if kind in one.varied:
            times = [study.times(one, variant.name) for variant in some]
            count = min(map(len, times))
            yield from ((one, variant, found[:count]) for variant, found in zip(some, times, strict=True))


def warps(study: Study) -> Table:
    """Lanes of a virtual warp: Fig. 4."""
    rows: list[tuple[Cell, ...]] = [
        (one.device, LANES[one.name], *_summary(study, study.times(one)))
        for one in study.contestants
        if one.name in LANES and one.device == "cuda"
    ]
    return Table("virtual_warps", ("device", "lanes", *TIMES), rows)


def read_back(study: Study) -> Table:
    """Read-back policies: Table V."""
    rows: list[tuple[Cell, ...]] = []
    for one in study.contestants:
        if one.sync:
            times = study.times(one)
            rows.append((one.sync, *_summary(study, times), study.over(study.find("esdg", one.device), times)))
    return Table("read_back", ("read back", *TIMES, "x ESDG"), rows)


def batches(study: Study) -> Table:
    """Many queries at once; the paper has none."""
    scan = 1e3 / float(study.times(study.scan).mean())
    rows: list[tuple[Cell, ...]] = [(REFERENCE, "cpu", 1, len(study.queries), scan, 1.0)]
    for one in study.contestants:
        if found := study.measured.batches.get(str(one)):
            rate = found["queries per second"]
            threads = int(found["threads"]) if one.device == "cpu" else None
            rows.append((one.name, one.device, threads, int(found["queries"]), rate, rate / scan))
    return Table("batches", ("engine", "device", "threads", "queries", "queries/s", "x connection scan"), rows)


def all_tables(study: Study) -> dict[str, Table]:
    """By name; those without a row are left out."""
    makers = (algorithms, quantities, processed, clusters, subtrips, warps, read_back, batches)
    made: Sequence[Table] = [make(study) for make in makers]
    return {table.name: table for table in made if table.rows}
