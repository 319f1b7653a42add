"""Build the six New York feeds as a user would: whole processes, warm and with an empty compilation cache.

python benchmarks/build.py --feeds FOLDER                              # holds nyc_mta_*.zip; writes results/build.json
python benchmarks/build.py --feeds FOLDER --ways threads "processes 2"   # beside each other: results/build_ways.json
python benchmarks/build.py --feed national.zip --name national --ways threads one-gpu     # build_ways-national.json
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
PROCESSES = {
    f"processes {count}": ("--set", "workers.kind=processes", "--set", f"workers.count={count}") for count in (1, 2, 4)
}
GPUS = {name: ("--profile", name) for name in ("one-gpu", "gpu-node")}
WAYS: dict[str, tuple[str, ...]] = {"threads": (), **PROCESSES, **GPUS}


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


def side_by_side(feeds: list[str], ways: list[str], walk: str, repeats: int) -> dict:
    """The same build in each of `WAYS`, in turn, and whether all stores have the same bytes.

    Peak memory is that of the command, without its workers.
    """
    runs: dict[str, list[dict]] = {name: [] for name in ways}
    stores = set()
    with tempfile.TemporaryDirectory() as temporary:
        store = Path(temporary) / "made.store"
        for _ in range(repeats + 1):
            for name in ways:
                runs[name].append(build(feeds, store, walk, None, *WAYS[name]))
                print(f"{name}: {runs[name][-1]}", flush=True)
                stores.add(fingerprint(store))
    found: dict = {name: {"first": some[0], **middle(some[1:])} for name, some in runs.items()}
    for name, run in found.items():
        print(f"{name}: {run['wall_s']:.1f} s {run['wall_range_s']}, {run['peak_rss_mib']:.0f} MiB; {run['steps_s']}")
    if len(stores) > 1:
        raise SystemExit(f"{len(stores)} different stores of one input")
    return found | {"all stores have the same bytes": True}


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--feeds", type=Path)
    source.add_argument("--feed", type=Path, help="another one, for --ways")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--ways", nargs="+", choices=WAYS)
    parser.add_argument("--walk", choices=("none", "default"), default="default", help="for --ways")
    parser.add_argument("--name", help="of the result of --ways")
    given = parser.parse_args()
    feeds = [str(given.feed)] if given.feed else [str(given.feeds / f"{name}.zip") for name in SIX]
    config = {"feeds": [Path(feed).stem for feed in feeds], "date": DATE, "days": 2, "repeats": given.repeats}
    if given.ways:
        found = side_by_side(feeds, given.ways, given.walk, given.repeats)
        name = "-".join(filter(None, ("build_ways", given.name)))
        print(f"wrote {record(name, found, config={**config, 'walk': given.walk}).name}")
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
