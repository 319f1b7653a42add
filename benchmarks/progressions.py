"""How many progressions the cover takes, and how many would do: all small clusters of the six New York feeds.

python benchmarks/progressions.py --feeds FOLDER     # holds nyc_mta_*.zip; writes results/progressions.json
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from datetime import date
from pathlib import Path

import numpy as np
from build import DATE, SIX
from harness import ROOT, record
from headway.pipeline.build import build_feeds
from headway.pipeline.gtfs.report import Report
from headway.pipeline.settings import load_settings
from headway.storage.store import Store

sys.path.append(str(ROOT / "tests"))  # not in the wheel

from minimum import minimum

SMALL = 12


def clusters(store: Store) -> Counter[tuple[tuple[int, ...], int]]:
    """How often each small cluster occurs: its departures, counted from the first, and its progressions."""
    graph, connections = store.cluster_ap, store.connections
    kind = np.repeat(np.arange(len(graph.duration)), np.diff(connections.offset))
    number = connections.departure // graph.width
    new = np.ones(len(kind), np.bool_)
    new[1:] = (kind[1:] != kind[:-1]) | (number[1:] != number[:-1])
    begin = np.flatnonzero(new)
    size = np.diff(np.append(begin, len(kind)))
    ours = np.diff(graph.cluster_first)
    shifted = connections.departure - np.repeat(connections.departure[begin], size)
    found: Counter[tuple[tuple[int, ...], int]] = Counter()
    for n in range(1, SMALL + 1):
        which = np.flatnonzero(size == n)
        if len(which):
            rows = np.column_stack([ours[which], shifted[begin[which][:, None] + np.arange(n)]])
            for row, times in zip(*np.unique(rows, axis=0, return_counts=True), strict=True):
                found[tuple(row[1:].tolist()), int(row[0])] += int(times)
    return found


def compare(found: Counter[tuple[tuple[int, ...], int]]) -> dict:
    """Progressions of ours, of the minimum, and the excess; each distinct cluster once, and as they occur."""
    distinct = [0, 0]
    occurring = [0, 0]
    larger = 0
    for (terms, ours), times in found.items():
        fewest = minimum(terms)
        larger += ours > fewest
        for which, count in ((0, ours), (1, fewest)):
            distinct[which] += count
            occurring[which] += count * times
    return {
        "clusters": found.total(),
        "distinct clusters": len(found),
        "distinct clusters above the minimum": larger,
        "distinct": excess(*distinct),
        "as they occur": excess(*occurring),
    }


def excess(ours: int, fewest: int) -> dict:
    return {"ours": ours, "minimum": fewest, "excess_percent": round(100 * (ours - fewest) / fewest, 4)}


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--feeds", type=Path, required=True)
    parser.add_argument("--sample", type=int, help="so many distinct clusters at most, chosen by a fixed seed")
    given = parser.parse_args()
    feeds = [given.feeds / f"{name}.zip" for name in SIX]
    results = {}
    for minutes in (60, 5):
        options = {"build.cluster_minutes": ("", minutes), "walk.mode": ("", "none")}
        store = build_feeds(feeds, date.fromisoformat(DATE), load_settings("laptop", (), options), Report())
        found = clusters(store)
        if given.sample and len(found) > given.sample:
            keys = random.Random(1).sample(sorted(found), given.sample)
            found = Counter({key: found[key] for key in keys})
        counts = store.facts["counts"]
        results[f"{minutes} minutes"] = {
            "all": {name: counts[name] for name in ("connections", "connection types", "progressions")},
            f"clusters of at most {SMALL}": compare(found),
        }
        print(f"{minutes} minutes: {results[f'{minutes} minutes']}")
    config = {"feeds": list(SIX), "date": DATE, "days": 2, "largest": SMALL, "sample": given.sample}
    print(f"wrote {record('progressions', results, config=config).name}")


if __name__ == "__main__":
    main()
