"""One-to-all queries: our engines side by side in one run, on real feeds and the made-up city.

    python benchmarks/query.py --feeds FOLDER --work FOLDER    # writes results/query.json

`--work` keeps stores and made-up feeds between runs. Every engine answers the same random queries, and all
arrivals are compared.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from pathlib import Path

import generate
import numpy as np
from build import DATE, SIX
from geography import PRESETS
from harness import record, timed
from headway.kernels import relax
from headway.pipeline.build import build_feeds
from headway.pipeline.cpu import CELLS, FEWEST, MOST
from headway.pipeline.engines import Arrivals, algorithms_for
from headway.pipeline.gtfs.report import Report
from headway.pipeline.settings import load_settings
from headway.storage.store import Store, load

# Name, feeds (None: the made-up city), days, walking, queries.
CASES = (
    ("nyc_mta_subway", ("nyc_mta_subway",), 1, "none", 20_000),
    ("nyc_mta_bus_bk", ("nyc_mta_bus_bk",), 1, "none", 1000),
    ("six feeds", SIX, 1, "none", 1000),
    ("made-up city", None, 1, "none", 1000),
    ("nyc_mta_subway", ("nyc_mta_subway",), 1, "default", 1000),
    ("nyc_mta_bus_bk", ("nyc_mta_bus_bk",), 1, "default", 1000),
    ("six feeds", SIX, 2, "default", 1000),
    ("made-up city", None, 1, "default", 1000),
)
REPEATS = 3


def store_of(name: str, feeds: tuple[str, ...] | None, days: int, walk: str, given: argparse.Namespace) -> Store:
    """The store of a case, built on first use."""
    place = given.work / f"{name.replace(' ', '-')}-{days}-{walk}.store"
    if not place.exists():
        paths = [given.feeds / f"{feed}.zip" for feed in feeds] if feeds else [made_up("city", given.work)]
        options = {"build.days": ("days", days), "walk.mode": ("walk", walk)}
        build_feeds(paths, date.fromisoformat(DATE), load_settings("laptop", (), options), Report()).save(place)
    return load(place)


def made_up(preset: str, work: Path) -> Path:
    """A made-up feed, written on first use."""
    feed = work / f"{preset}.zip"
    if not feed.exists():
        generate.generate(feed, PRESETS[preset])
    return feed


def random_queries(store: Store, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Stops that a vehicle leaves, as vertices, and departures from 5:00 to 23:00."""
    rng = np.random.default_rng(0)
    served = np.flatnonzero(np.diff(store.cluster_ap.vertex_edge) > 0)
    return rng.choice(served, count).astype(np.uint32), rng.integers(5 * 3600, 23 * 3600, count).astype(np.int32)


def pieces_of(store: Store, count: int) -> list[tuple[tuple[np.ndarray, np.ndarray], np.ndarray]]:
    """Random queries in pieces that are neighbours in time, as an engine takes them.

    They are as large as those of a batch, unless that would leave a thread without work at the end.
    """
    origin, leave = random_queries(store, count)
    size = min(max(CELLS // store.timetable.vertices, FEWEST), MOST)
    pieces = np.array_split(np.argsort(leave, kind="stable"), max(32, count // size))
    return [((np.arange(len(piece) + 1), origin[piece]), leave[piece]) for piece in pieces]


def answer_all(pool: ThreadPoolExecutor, engine: Arrivals, pieces: list) -> list[np.ndarray]:
    """Labels of each piece."""
    return list(pool.map(engine, *zip(*pieces, strict=True)))


def measure(store: Store, count: int) -> dict:
    """Milliseconds a query for each engine, on one thread and on two; the fastest of a few runs."""
    pieces = pieces_of(store, count)
    found: dict = {"queries": count, "stops": store.timetable.vertices, "connections": len(store.connections.departure)}
    expected = None
    names = [name for name in algorithms_for(store)[::-1] if name not in relax.ALGORITHMS]
    for name in names:
        engine = Arrivals(store, name)
        with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(2) as two:
            for pool in (one, two):
                got = np.concatenate(answer_all(pool, engine, pieces))
                if expected is None:
                    expected = got
                if not np.array_equal(got, expected):
                    raise AssertionError(f"{name} differs from {names[0]}")
            # In turn, so that what else the machine does hits both.
            runs = [
                [timed(partial(answer_all, pool, engine, pieces), 1)["min_s"] for pool in (one, two)]
                for _ in range(REPEATS)
            ]
        for words, seconds in zip(("1 thread", "2 threads"), map(min, zip(*runs, strict=True)), strict=True):
            found[f"{name}, {words}, ms"] = round(seconds / count * 1e3, 4)
    scan, fast = found["connection-scan, 1 thread, ms"], found["edge-profile, 1 thread, ms"]
    found["edge-profile over connection-scan"] = round(scan / fast, 2)
    found["edge-profile, two threads over one"] = round(fast / found["edge-profile, 2 threads, ms"], 2)
    found["all arrivals equal"] = True
    return found


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--feeds", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("build/bench"))
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    results = {}
    for name, feeds, days, walk, count in CASES:
        case = f"{name}, {days} day{'s' if days > 1 else ''}, walk {walk}"
        results[case] = measure(store_of(name, feeds, days, walk, given), count)
        print(case, results[case], flush=True)
    config = {"date": DATE, "departures": "05:00 to 23:00, uniform", "repeats": REPEATS}
    print(f"wrote {record('query', results, config=config).name}")


if __name__ == "__main__":
    main()
