"""Build the six New York feeds as a user would: whole processes, warm and with an empty compilation cache.

python benchmarks/build.py --feeds FOLDER             # holds nyc_mta_*.zip; writes results/build.json
python benchmarks/build.py --feeds FOLDER --workers   # threads beside local processes: results/build_workers.json
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from pathlib import Path

from harness import command, record
from headway.storage.store import fingerprint

SIX = ("nyc_mta_bus_bk", "nyc_mta_bus_m", "nyc_mta_bus_busco", "nyc_mta_bus_qns", "nyc_mta_mnr", "nyc_mta_subway")
DATE = "2026-09-30"
HEADWAY = str(Path(sys.executable).with_name("headway"))
WORKERS = {"threads": ()} | {
    f"processes {count}": ("--set", "workers.kind=processes", "--set", f"workers.count={count}") for count in (1, 2, 4)
}


def build(feeds: list[str], store: Path, walk: str, cache: Path | None, *more: str) -> dict:
    """One build in a process of its own; `cache` is where compiled kernels lie, or the usual place."""
    argv = [HEADWAY, "build", *feeds, "-o", str(store), "--date", DATE, "--days", "2", "--walk", walk, "--overwrite"]
    argv += more
    done = command(argv, env={"NUMBA_CACHE_DIR": str(cache)} if cache else None)
    line = next(line for line in done.output.splitlines() if line.startswith("seconds: "))
    steps = {name.strip(): float(took) for name, took in re.findall(r"([a-z_, ]+?) ([0-9.]+)(?:, |$)", line[9:])}
    return {**done.figures(), "steps_s": steps}


def middle(runs: list[dict]) -> dict:
    """The run of median wall time, and the range."""
    runs = sorted(runs, key=lambda run: run["wall_s"])
    return {**runs[len(runs) // 2], "wall_range_s": [runs[0]["wall_s"], runs[-1]["wall_s"]]}


def across_workers(feeds: list[str], repeats: int) -> dict:
    """The same build in threads and on local processes, in turn, and whether all stores have the same bytes.

    Peak memory is that of the command, without its workers.
    """
    runs: dict[str, list[dict]] = {name: [] for name in WORKERS}
    stores = set()
    with tempfile.TemporaryDirectory() as temporary:
        store = Path(temporary) / "six.store"
        for _ in range(repeats + 1):
            for name, options in WORKERS.items():
                runs[name].append(build(feeds, store, "default", None, *options))
                stores.add(fingerprint(store))
    found: dict = {name: middle(some[1:]) for name, some in runs.items()}
    for name, run in found.items():
        print(f"{name}: {run['wall_s']:.1f} s {run['wall_range_s']}, {run['peak_rss_mib']:.0f} MiB; {run['steps_s']}")
    if len(stores) > 1:
        raise SystemExit(f"{len(stores)} different stores of one input")
    return found | {"all stores have the same bytes": True}


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--feeds", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--workers", action="store_true", help="compare threads and local processes")
    given = parser.parse_args()
    feeds = [str(given.feeds / f"{name}.zip") for name in SIX]
    config = {"feeds": list(SIX), "date": DATE, "days": 2, "repeats": given.repeats}
    if given.workers:
        print(f"wrote {record('build_workers', across_workers(feeds, given.repeats), config=config).name}")
        return
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
    print(f"wrote {record('build', results, config=config).name}")


if __name__ == "__main__":
    main()
