"""Build the six New York feeds as a user would: whole processes, warm and with an empty compilation cache.

python benchmarks/build.py --feeds FOLDER     # holds nyc_mta_*.zip; writes results/build.json
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from pathlib import Path

from harness import command, record

SIX = ("nyc_mta_bus_bk", "nyc_mta_bus_m", "nyc_mta_bus_busco", "nyc_mta_bus_qns", "nyc_mta_mnr", "nyc_mta_subway")
DATE = "2026-09-30"
HEADWAY = str(Path(sys.executable).with_name("headway"))


def build(feeds: list[str], store: Path, walk: str, cache: Path | None) -> dict:
    """One build in a process of its own; `cache` is where compiled kernels lie, or the usual place."""
    argv = [HEADWAY, "build", *feeds, "-o", str(store), "--date", DATE, "--days", "2", "--walk", walk, "--overwrite"]
    done = command(argv, env={"NUMBA_CACHE_DIR": str(cache)} if cache else None)
    line = next(line for line in done.output.splitlines() if line.startswith("seconds: "))
    steps = {name.strip(): float(took) for name, took in re.findall(r"([a-z_, ]+?) ([0-9.]+)(?:, |$)", line[9:])}
    return {**done.figures(), "steps_s": steps}


def middle(runs: list[dict]) -> dict:
    """The run of median wall time, and the range."""
    runs = sorted(runs, key=lambda run: run["wall_s"])
    return {**runs[len(runs) // 2], "wall_range_s": [runs[0]["wall_s"], runs[-1]["wall_s"]]}


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--feeds", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    feeds = [str(given.feeds / f"{name}.zip") for name in SIX]
    results: dict = {}
    with tempfile.TemporaryDirectory() as temporary:
        store = Path(temporary) / "six.store"
        for walk in ("none", "default"):
            first = build(feeds, store, walk, Path(temporary) / f"cache-{walk}")
            warm = middle([build(feeds, store, walk, None) for _ in range(given.repeats + 1)][1:])
            facts = json.loads(command([HEADWAY, "info", str(store), "--json"]).output)
            raw, sizes = facts["bytes of raw departures"], facts["bytes"]
            results[f"walk {walk}"] = {
                "first, empty compilation cache": first,
                "warm": warm,
                "counts": facts["counts"],
                "connections per progression": facts["connections per progression"],
                "bytes": {
                    "raw departures": raw,
                    "CT, CL, AP": sum(size for name, size in sizes.items() if name.startswith("cluster_ap.")),
                    "edge profiles": sum(size for name, size in sizes.items() if name.startswith("profile.")),
                    "whole store": sum(sizes.values()),
                },
            }
            print(
                f"walk {walk}: first {first['wall_s']:.1f} s, warm {warm['wall_s']:.2f} s {warm['wall_range_s']}, "
                f"{warm['peak_rss_mib']:.0f} MiB; {warm['steps_s']}"
            )
    path = record("build", results, config={"feeds": list(SIX), "date": DATE, "days": 2, "repeats": given.repeats})
    print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
