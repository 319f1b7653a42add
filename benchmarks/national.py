"""A made-up national network: 500,000 stops and 32 M stop_times, from zip to store to answers.

python benchmarks/national.py --work FOLDER    # writes results/national.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from build import DATE, HEADWAY, build
from harness import command, record
from headway.storage.store import load
from query import made_up, measure


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, default=Path("build/bench"))
    parser.add_argument("--queries", type=int, default=100)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    feed = made_up("national", given.work)
    results: dict = {}
    for walk in ("none", "default"):
        store = given.work / f"national-{walk}.store"
        built = build([str(feed)], store, walk, None)
        facts = json.loads(command([HEADWAY, "info", str(store), "--json"]).output)
        results[f"walk {walk}"] = {
            "build": {**built, "dominant step": max(built["steps_s"], key=built["steps_s"].get)},
            "counts": facts["counts"],
            "store_mib": round(sum(facts["bytes"].values()) / 2**20, 1),
            "queries": measure(load(store), given.queries),
        }
        print(f"walk {walk}", results[f"walk {walk}"], flush=True)
    print(f"wrote {record('national', results, config={'date': DATE, 'days': 2, 'queries': given.queries}).name}")


if __name__ == "__main__":
    main()
