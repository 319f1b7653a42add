"""What each table shows, in words, from its numbers; what the paper reports stands beside it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from .contestants import BEST, INCREMENTAL, PAPER, REFERENCE
from .tables import OWN_WIDTH, Study, Table, shown, typical

ALIKE = 0.05  # times that differ by less are called equal: a repeated study differs by as much
SPEEDUP, MEDIAN = "x connection scan", "median x"


def algorithms(study: Study, table: Table) -> list[str]:
    """The fastest, and the paper's order beside the measured one."""
    best = _best(table, MEDIAN)
    out = [
        f"Fastest for queries one after another, by `{MEDIAN}`: {best['algorithm']} on {best['device']}, "
        f"{shown(best['median ms'])} ms in the median, {_times(best[MEDIAN])} the speed of the connection scan on one "
        "core of the CPU.",
        f"The paper's order, slowest first: {', '.join(INCREMENTAL)}. Each is faster than the one before on most of "
        f"its data sets, and {BEST} is the fastest of its algorithms without sub-trips, 3.77 x (Madrid) to 39.40 x "
        "(Paris) its connection scan.",
    ]
    for device in study.devices:
        rows = {row["algorithm"]: row[MEDIAN] for row in table.records if row["device"] == device}
        some = {name: rows[name] for name in PAPER if name in rows}
        ranked = sorted(some, key=some.__getitem__)
        order = tuple(name for name in ranked if name in INCREMENTAL)
        listed = ", ".join(f"{name} ({_times(some[name])})" for name in ranked)
        text = f"Measured on {device}, slowest first, by `{MEDIAN}`: {listed}. The paper's order "
        text += "holds" if order == INCREMENTAL else "does not hold"
        text += f", and {ranked[-1]} is the fastest of these."
        if device == "cpu":
            text += (
                " The paper gives each connection, type or edge a thread of a GPU; a core looks at one after another, "
                "in every round."
            )
        out.append(text)
        esdg, cluster = study.find("esdg", device), study.find(BEST, device)
        if esdg and cluster:
            ratio = _times(study.over(esdg, study.times(cluster)))
            out.append(f"{BEST} on {device} runs at {ratio} the speed of ESDG there; the paper's at up to 5.21 x.")
    return out


def quantities(study: Study, table: Table) -> list[str]:
    """What follows from the factor."""
    found = study.measured.stores[""]
    deeper = found["longest path"] / max(1, found["diameter"])
    out = [
        f"A relaxation takes at most d rounds, ESDG always l levels, here {_times(deeper)} as many. d is the largest "
        f"over these {len(study.queries):,} queries, so a lower bound. The paper finds high speedups where connections "
        "/ d is high."
    ]
    for device in study.devices:
        points = sorted((row["parallel factor"], row[MEDIAN]) for row in study.schemes_of(BEST, device))
        if len(points) > 1:
            rises = all(after >= before * (1 - ALIKE) for (_, before), (_, after) in pairwise(points))
            listed = ", ".join(f"{_times(ratio)} at {shown(factor)}" for factor, ratio in points)
            verdict = "do not fall as it rises" if rises else "do not follow it throughout"
            out.append(
                f"With the schemes of sub-trips below, {BEST} on {device} runs at these speeds of the connection scan, "
                f"by factor: {listed}. They {verdict}."
            )
    return out


def processed(study: Study, table: Table) -> list[str]:
    """The share of Cluster-ap beside the paper's."""
    share = {name: shown(100 * value) for name, value in study.measured.processed.items()}
    return [
        "How many connections a query relaxes, on average and each as often as it is relaxed, was counted in a run "
        f"apart. {BEST} relaxes {share[BEST]}% of all (in the paper 3.35%), the connection scan passes over "
        f"{share[REFERENCE]}%, ESDG over all. Algorithms by connection type relax the same connections, and differ in "
        "how they find them."
    ]


def clusters(study: Study, table: Table) -> list[str]:
    """The best width."""
    out = [
        "In the paper the speedup grows as clusters get smaller. Widths are judged by the last column: each query "
        f"against itself with the store's own clusters of {study.store.cluster_ap.width // 60} min, the median."
    ]
    for device in study.devices:
        rows = [row for row in table.records if row["device"] == device]
        speedups = [row[OWN_WIDTH] for row in rows]
        best, worst = (rows[speedups.index(pick(speedups))] for pick in (max, min))
        ahead = best[OWN_WIDTH] / worst[OWN_WIDTH] - 1
        if ahead < 2 * ALIKE:
            verdict = "the width hardly matters"
        elif best is rows[0] and all(small >= large * (1 - ALIKE) for small, large in pairwise(speedups)):
            verdict = "smaller is faster, as in the paper"
        else:
            verdict = "smaller is not faster throughout"
        out.append(
            f"On {device} the best width is {best['cluster, min']} min, {ahead:.0%} ahead of the worst, "
            f"{worst['cluster, min']} min: {verdict}."
        )
    return out


def subtrips(study: Study, table: Table) -> list[str]:
    """What shortcuts cost and bring."""
    out = ["In the paper they take the speedup on London from 15.35 x to 27.88 x (sqrt-trip) and 28.10 x (sqrt-mean)."]
    plain, *others = study.schemes()
    before = study.measured.stores[plain.name]
    for variant in others:
        after, speeds = study.measured.stores[variant.name], []
        for one in study.contestants:
            if "sub-trips" in one.varied:
                speeds.append(f"{one} {_times(typical(study.times(one, plain.name), study.times(one, variant.name)))}")
        out.append(
            f"{variant.subtrips} adds {after['connections'] / before['connections'] - 1:.0%} connections and takes the "
            f"diameter from {before['diameter']:,} to {after['diameter']:,}. Speeds then, against those without, by "
            f"the median query: {', '.join(speeds)}."
        )
    return out


def warps(study: Study, table: Table) -> list[str]:
    """The best width."""
    best = _best(table, MEDIAN)
    return [
        f"Best are {best['lanes']} lanes for an edge, {_times(best[MEDIAN])} the speed of the connection scan. One "
        "lane is the edge version: a thread for an edge."
    ]


def read_back(study: Study, table: Table) -> list[str]:
    """The best policy."""
    best = _best(table, "x ESDG")
    return [
        f"Best is reading back {best['read back']}, {_times(best['x ESDG'])} the speed of ESDG on the GPU. In the "
        f"paper {BEST} is up to 5.21 x its ESDG reading back every round, and 1.63 to 12.48 x every sqrt(d) rounds."
    ]


def batches(study: Study, table: Table) -> list[str]:
    """The best engine for many queries."""
    best = _best(table, "queries/s")
    return [
        f"All {len(study.queries):,} queries at once, their arrivals at every stop brought to the host: "
        f"{best['engine']} on {best['device']} answers {shown(best['queries/s'])} a second, {_times(best[SPEEDUP])} "
        "the rate of the connection scan on one core. The paper has no batches."
    ]


def left_out(study: Study) -> list[str]:
    """Parts of the paper's study that this one lacks, and what would make them."""
    out = []
    if not len(study.store.timetable.trips.ids):
        out.append(
            "Sub-trips (Table IV): the store knows no trips, as it was made of a file of connections. One made by "
            "`headway build FEED -o STORE --date DATE --walk none` does."
        )
    if not any(one.device == "cuda" for one in study.contestants):
        out.append("Virtual warps (Fig. 4): they are lanes of a GPU, and none took part.")
    if not any(one.sync for one in study.contestants):
        out.append("Read-back policies (Table V): without a GPU nothing is read back.")
    return out


def _best(table: Table, column: str) -> dict[str, Any]:
    return max(table.records, key=lambda row: row[column])


def _times(value: Any) -> str:
    return f"{shown(float(value))} x"
