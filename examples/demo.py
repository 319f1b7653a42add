"""The whole way in a minute: a feed, a store, a file of queries, answers, a summary.

    python examples/demo.py                                  # a made-up city
    python examples/demo.py --feed nyc.zip --date 2026-09-30  # a real one

Every step is a command that one could type; it is shown before it runs.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
QUERIES = 1000


def run(*command: str) -> None:
    """Show a command and run it; end with its status where it fails."""
    print("\n$", " ".join(command), flush=True)
    executable = Path(sys.executable).with_name(command[0])
    status = subprocess.run([executable, *command[1:]], check=False).returncode
    if status:
        sys.exit(status)


def main() -> None:
    """Make the feed unless one is given, build, query, summarise."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--feed", type=Path, help="a GTFS zip or folder; a made-up city without it")
    parser.add_argument("--date", help="YYYY-MM-DD, the first date of the store")
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder for all that is written")
    given = parser.parse_args()
    folder: Path = given.output
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    feed, date = given.feed, given.date or ""
    if feed is None:
        feed, date = folder / "city.zip", date or "2026-09-30"
        run(
            "python",
            str(ROOT / "benchmarks" / "generate.py"),
            str(feed),
            "--preset",
            "demo",
            "--date",
            date,
            "--no-stats",
        )
    store, stops, queries, answers = (folder / name for name in ("city.store", "stops.csv", "queries.csv", "answers"))
    run("headway", "build", str(feed), "-o", str(store), *(["--date", date] if date else []))
    run("headway", "stops", str(store), "-o", str(stops))
    places = write_queries(stops, queries)
    begun = time.perf_counter()
    run("headway", "query", str(store), str(queries), "-o", str(answers), "--answer", "reach")
    took = time.perf_counter() - begun
    first = pd.read_csv(queries, dtype=str).iloc[0]
    run("headway", "query", str(store), "--from", first["origin"], "--at", "8:00", "--to", places[-1])
    summarise(answers, took)


def write_queries(stops: Path, queries: Path) -> list[str]:
    """A thousand random origins and departures between 6:00 and 22:00; returns the stops' ids."""
    table = pd.read_csv(stops, dtype={"id": str, "station": str})
    rng = np.random.default_rng(1)
    origin = rng.choice(table["id"].to_numpy(str), QUERIES)
    departure = rng.integers(6 * 3600, 22 * 3600, QUERIES)
    pd.DataFrame({"origin": origin, "departure": departure}).to_csv(queries, index=False)
    print(f"\nwrote {queries}: {QUERIES:,} random origins and departures from 6:00 to 22:00")
    return table["id"].tolist()


def summarise(answers: Path, seconds: float) -> None:
    """How many stops a traveller reaches, on average and at best, by cut-off."""
    table = pd.concat(pd.read_parquet(part) for part in sorted(answers.glob("part-*.parquet")))
    print(f"\nStops reached within a time, over {table['query_id'].nunique():,} queries ({seconds:.1f} s in all):\n")
    print("minutes   median    mean     best")
    for cutoff, stops in table.groupby("cutoff_s")["stops"]:
        print(f"{cutoff // 60:7}{stops.median():9.0f}{stops.mean():8.0f}{stops.max():9}")


if __name__ == "__main__":
    main()
