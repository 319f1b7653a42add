"""How much of a city is reached within half an hour, hour by hour: a table and a picture.

python examples/accessibility.py city.zip 2026-09-30 -o accessibility.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import headway as hw

HOURS = range(5, 24)
CUTOFFS = (15, 30, 45, 60)


def accessibility(store: hw.Store, origins: int) -> pd.DataFrame:
    """Share of stops reached, in percent, averaged over random origins: a row an hour, a column a cut-off."""
    rng = np.random.default_rng(1)
    chosen = rng.choice(store.stops, min(origins, len(store.stops)), replace=False)
    engine = hw.Engine(store)
    queries = [(origin, hour * 3600) for hour in HOURS for origin in chosen]
    table = engine.reach([origin for origin, _ in queries], [second for _, second in queries], cutoffs=CUTOFFS)
    table["hour"] = table["departure"] // 3600
    share = table.groupby(["hour", "cutoff_s"])["stops"].mean().unstack() / len(store.stops) * 100
    return share.rename(columns=lambda seconds: f"{seconds // 60} min")


def main() -> None:
    """Build, compute, draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("feed", type=Path)
    parser.add_argument("date")
    parser.add_argument("--origins", type=int, default=200)
    parser.add_argument("--output", "-o", type=Path, default=Path("accessibility.png"))
    given = parser.parse_args()
    share = accessibility(hw.build(given.feed, given.date, quiet=False), given.origins)
    print(share.round(1).to_string())
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    share.columns.name = None
    share.plot(ax=axes, marker="o", markersize=3)
    axes.set(title=f"{given.feed.stem}, {given.date}", xlabel="departure, hour of the day", ylabel="% of stops reached")
    axes.set_xticks(list(HOURS)[::3])
    axes.set_ylim(0, None)
    axes.legend(title="within")
    axes.grid(alpha=0.3)
    figure.savefig(given.output, dpi=150)
    print(f"wrote {given.output}")


if __name__ == "__main__":
    main()
