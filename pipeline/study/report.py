"""The report of a study: a text to read, with its tables and plots."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np

from . import plots, sentences
from .measure import DEPARTURES, ORIGINS, QUICK, SEED, TURN
from .setting import machine, versions
from .tables import Study, all_tables

# By table: its title, what it answers to in the paper, what its sentences are, its plot if it has one.
SECTIONS = {
    "algorithms": ("Single queries", "Tables II and V, Fig. 2", sentences.algorithms, plots.algorithms),
    "quantities": ("How parallel the store is", "Table III", sentences.quantities, plots.factors),
    "processed": ("Share of connections processed", "text beside Table V", sentences.processed, None),
    "cluster_widths": ("Widths of a cluster", "Fig. 3", sentences.clusters, plots.clusters),
    "subtrips": ("Sub-trips", "Table IV", sentences.subtrips, None),
    "virtual_warps": ("Virtual warps", "Fig. 4", sentences.warps, plots.warps),
    "read_back": ("Read-back policies", "Table V", sentences.read_back, None),
    "batches": ("Batches", "not in the paper", sentences.batches, None),
}


def write_report(study: Study, devices: tuple[str, ...], quick: bool, folder: Path) -> None:
    """`report.md`, `*.csv` and `*.png` into a folder."""
    text = [_setting(study, devices, quick)]
    for name, table in all_tables(study).items():
        title, source, words, plot = SECTIONS[name]
        table.write(folder)
        text += [f"## {title} ({source})", _list(words(study, table)), table.markdown()]
        text.append(f"[{name}.csv]({name}.csv)")
        if plot and plot(study, table, folder / f"{name}.png"):
            text.append(f"![{title}]({name}.png)")
    if missing := sentences.left_out(study):
        text += ["## Left out", _list(missing)]
    (folder / "report.md").write_text("\n\n".join(text) + "\n", encoding="utf-8")


def _list(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _setting(study: Study, devices: tuple[str, ...], quick: bool) -> str:
    store, counts = study.store, study.store.facts["counts"]
    first, *others = (source["name"] for source in store.facts["sources"])
    title = f"# The paper's experiments on {first}" + (f" and {len(others)} more" if others else "")
    build = ", ".join(f"{name} {value}" for name, value in store.facts["build"].items())
    sizes = ("stops", "connections", "connection types", "edges", "progressions")
    asked = (
        f"the paper's set, {ORIGINS} random stops and {DEPARTURES} departures from each, uniform over the first day "
        f"(seed {SEED}); here {len(study.queries):,} of them from {len(np.unique(study.queries.origin)):,} stops, the "
        "same for all"
    )
    setting = {
        "Date": date.today().isoformat(),
        "Machine": ", ".join(f"{name} {value}" for name, value in machine(devices).items()),
        "Versions": ", ".join(f"{name} {value}" for name, value in versions(devices).items()),
        "Store": f"{', '.join([first, *others])} ({build})",
        "Sizes": ", ".join(f"{counts[name]:,} {name}" for name in sizes),
        "Queries": asked,
    }
    text = (
        "Every time is of a single one-to-all query with kernels compiled before, algorithms taking turns every "
        f"{TURN} queries. Speedups are ratios of mean times, over the queries that both have answered. `median x` is "
        "the median of each query's own speedup over the connection scan: what else a machine does disturbs it least, "
        "so that algorithms are ordered by it. All arrivals of all queries were compared with the "
        "connection scan's, and are equal."
    )
    if quick:
        text += (
            f" This study is a short one (`--quick`): {QUICK.queries} queries of the set, and of a slow algorithm as "
            f"many as {QUICK.seconds:.0f} s allow (column `queries`)."
        )
    facts = _list([f"{name}: {value}" for name, value in setting.items()])
    return "\n\n".join([title, facts, text, PAPER])


PAPER = (
    'The paper: "GPU Algorithm for Earliest Arrival Time Problem in Public Transport Networks". Speedups, its own '
    "too, are over the connection scan on one core of a CPU."
)
