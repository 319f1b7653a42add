"""A million `reach` queries on the six New York feeds, and `arrivals`: the rate to the end, and memory.

python benchmarks/batch.py --feeds FOLDER --work FOLDER    # writes results/batch.json
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from build import DATE, SIX
from harness import command, record
from headway.storage.store import sizes
from query import store_of

HEADWAY = str(Path(sys.executable).with_name("headway"))
RATE = re.compile(r"([\d,]+) of [\d,]+ queries, ([\d,]+)/s")


def write_queries(store, count: int, path: Path) -> None:
    """Random stops and departures of a whole day."""
    rng = np.random.default_rng(1)
    origin = pa.array(store.stops).take(pa.array(rng.integers(0, len(store.stops), count)))
    pq.write_table(pa.table({"origin": origin, "departure": rng.integers(0, 86400, count).astype(np.int32)}), path)


def batch(store: Path, queries: Path, output: Path, *options: str) -> dict:
    """One run of the command; the rate of each stretch between two lines of progress."""
    shutil.rmtree(output, ignore_errors=True)
    done = command([HEADWAY, "query", str(store), str(queries), "-o", str(output), *options])
    points = [(int(a.replace(",", "")), int(b.replace(",", ""))) for a, b in RATE.findall(done.output)]
    clock = [(count, count / rate) for count, rate in points]
    stretches = [round((b[0] - a[0]) / max(b[1] - a[1], 1e-9)) for a, b in pairwise(clock)]
    count = pq.ParquetFile(queries).metadata.num_rows
    size = sum(part.stat().st_size for part in output.glob("part-*.parquet"))
    rows = sum(pq.ParquetFile(part).metadata.num_rows for part in output.glob("part-*.parquet"))
    found = {
        **done.figures(),
        "queries": count,
        "queries_per_s": round(count / done.wall_s),
        "store_mib": round(sum(sizes(store).values()) / 2**20, 1),
        "answer_rows": rows,
        "answer_mib": round(size / 2**20, 1),
        "rows_per_s": round(rows / done.wall_s),
    }
    if len(stretches) > 1:
        found["queries/s between lines of progress"] = stretches
    found["memory above store, MiB"] = round(found["peak_rss_mib"] - found["store_mib"], 1)
    shutil.rmtree(output)
    return found


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--feeds", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("build/bench"))
    parser.add_argument("--queries", type=int, default=1_000_000)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    results = {}
    for walk, days in (("none", 1), ("default", 2)):
        store = store_of("six feeds", SIX, days, walk, given)
        place = given.work / f"six-feeds-{days}-{walk}.store"
        for kind, count in (("reach", given.queries if walk == "none" else given.queries // 10), ("arrivals", 2000)):
            queries = given.work / f"queries-{count}.parquet"
            write_queries(store, count, queries)
            results[f"{kind}, walk {walk}"] = batch(place, queries, given.work / "answers", "--answer", kind)
            print(kind, walk, results[f"{kind}, walk {walk}"], flush=True)
    config = {"feeds": list(SIX), "date": DATE, "cutoffs_min": [15, 30, 45, 60]}
    print(f"wrote {record('batch', results, config=config).name}")


if __name__ == "__main__":
    main()
