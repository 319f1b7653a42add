"""The partitions of a build on a GPU, beside all threads of the CPU of the same machine, in one run.

    python benchmarks/build_gpu.py --store national.store --name national    # writes results/build-gpu-national.json
    python benchmarks/build_gpu.py --feed nyc_mta_subway.zip --date 2026-09-30 --name subway

Of a store only its timetable is read. All arrays that both make are compared.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from harness import record
from headway.pipeline import device_graph, partition
from headway.pipeline.build import build_feeds
from headway.pipeline.device_graph import Clock, to_device, to_host, xp
from headway.pipeline.gtfs.report import Report
from headway.pipeline.partition import SLOT, Assembled, TripPart
from headway.pipeline.settings import load_settings
from headway.storage.store import load
from headway.storage.timetable import Timetable

REPEATS = 5
TRIPS_A_PART = 1 << 15
CONNECTIONS_A_RANGE = (1 << 18, 1 << 22)
WIDTH = 3600


def timetable_of(given: argparse.Namespace) -> Timetable:
    """Of a store, or of a feed that is built."""
    if given.store:
        return load(given.store).timetable
    options = {"build.days": ("--days", given.days), "walk.mode": ("", "none")}
    return build_feeds([given.feed], given.date, load_settings("laptop", (), options), Report()).timetable


def part_of(timetable: Timetable, first: int, last: int) -> TripPart:
    """Trips `first` up to `last`, in memory."""
    trips = timetable.trips
    offset, run_offset = (np.array(every[first : last + 1], np.int64) for every in (trips.offset, trips.run_offset))
    rows, runs = slice(offset[0], offset[-1]), slice(run_offset[0], run_offset[-1])
    columns = (np.array(column[rows]) for column in (trips.vertex, trips.arrival, trips.departure, trips.flags))
    return TripPart(offset - offset[0], *columns, run_offset - run_offset[0], np.array(trips.shift[runs]))


def no_pieces(part: TripPart) -> np.ndarray:
    """No sub-trips."""
    return np.zeros(len(part.offset) - 1, np.int64)


def numbers_of(edge_leave: Any, leave: Any, lasts: Any) -> tuple[int, int, bool]:
    """Slots, bits of a duration, and whether words are wide, as a build has them."""
    shift = max(1, int(lasts.max()).bit_length())
    slots = int(leave.max()) // SLOT + 1
    return slots, shift, (slots * SLOT).bit_length() + shift > 32


def whole_on_device(part: TripPart, timetable: Timetable) -> tuple[dict[str, float], list[np.ndarray]]:
    """Seconds of each step, and all results on the host; what lies between stays on the GPU."""
    clock, vertices = Clock(), timetable.vertices
    given, piece = TripPart._make(map(to_device, part)), to_device(no_pieces(part))
    clock.lap("to the GPU")
    raw = device_graph.expand(given, piece, timetable.horizon)
    clock.lap("connections")
    found = device_graph.sort_types(raw, 0, vertices, vertices)
    counted = device_graph.levels(found, 0, vertices)
    clock.lap("sort, types")
    clusters = device_graph.cover(found, WIDTH)
    clock.lap("progressions")
    profile = device_graph.pareto(found)
    clock.lap("profiles, lists")
    words = device_graph.layout(*profile, *numbers_of(*profile))
    clock.lap("profiles, words")
    results = to_host(*counted, *clusters, *profile, *words)
    clock.lap("from the GPU")
    clock.seconds["all"] = sum(clock.seconds.values())
    return clock.seconds, list(results)


def in_parts(
    where: Any, parts: Sequence[TripPart], timetable: Timetable, cuts: np.ndarray, threads: int
) -> tuple[dict[str, float], list[Assembled]]:
    """Seconds of a build's steps by the functions of a module, on so many threads, and what each range of tails gives.

    Steps of one partition add up over threads.
    """
    took: dict[str, float] = defaultdict(float)
    firsts = np.cumsum([0, *(len(part.shift) for part in parts)])

    def expanded(number: int) -> partition.Expanded:
        part = parts[number]
        return where.expand_part(part, no_pieces(part), timetable.horizon, int(firsts[number]), cuts)

    def assembled(place: int) -> tuple[Assembled, dict[str, float]]:
        columns = zip(*(tuple(c[e.begin[place] : e.begin[place + 1]] for c in e[1:]) for e in made), strict=True)
        joined = (np.concatenate(column) for column in columns)
        return where.assemble_part(*joined, int(cuts[place]), int(cuts[place + 1]), timetable.vertices, WIDTH)

    with ThreadPoolExecutor(threads) as pool:
        begun = time.perf_counter()
        made = list(pool.map(expanded, range(len(parts))))
        took["connections"] = time.perf_counter() - begun
        pairs = list(pool.map(assembled, range(len(cuts) - 1)))
        took["sort, types, progressions, lists of profiles"] = time.perf_counter() - begun - took["connections"]
        ranges = [found for found, _ in pairs]
        lists = [np.concatenate([getattr(one, name) for one in ranges]) for name in ("edge_leave", "leave", "lasts")]
        numbers = numbers_of(*lists)
        again = time.perf_counter()
        list(pool.map(lambda one: where.layout_part(one.edge_leave, one.leave, one.lasts, *numbers), ranges))
        took["words of profiles"] = time.perf_counter() - again
        took["all"] = time.perf_counter() - begun
    for _, seconds in pairs:
        for step, second in seconds.items():
            took[f"{step}, added over threads"] += second
    return dict(took), ranges


def repeated(work: Callable[[], tuple[dict[str, float], Any]], repeats: int) -> tuple[dict[str, Any], Any]:
    """The first run, which compiles, and the one of median time among those after it; what the last gave."""
    runs, found = [], None
    for _ in range(repeats + 1):
        found = None  # free it first
        seconds, found = work()
        runs.append({step: round(second, 4) for step, second in seconds.items()})
    warm = sorted(runs[1:], key=lambda run: run["all"])
    middle = warm[len(warm) // 2]
    return {"first": runs[0], "warm": middle, "warm, range": [warm[0]["all"], warm[-1]["all"]]}, found


def cuts_of(part: TripPart, timetable: Timetable, size: int) -> np.ndarray:
    """Ranges of vertices with about as many departures each."""
    runs = np.diff(part.run_offset)
    leaves = np.bincount(part.vertex, np.repeat(runs, np.diff(part.offset)), timetable.vertices)
    total = np.cumsum(leaves)
    return np.unique([0, *np.searchsorted(total, np.arange(size, total[-1], size)), timetable.vertices])


def assert_same(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> int:
    """How many values were compared."""
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one.dtype != other.dtype or not np.array_equal(one, other):
            raise AssertionError(f"array {number} of {len(expected)} differs")
    return sum(len(one) for one in expected)


def copies(results: Sequence[np.ndarray]) -> dict[str, float]:
    """Seconds to bring as many bytes from the GPU: into new arrays, into newly pinned ones, and into those again."""
    if xp is np:
        return {}
    import cupyx

    there = [xp.asarray(one) for one in results]
    clock = Clock()
    to_host(*there)
    clock.lap("new arrays")
    pinned = [cupyx.empty_pinned(one.shape, one.dtype) for one in there]
    clock.lap("pinning")
    for step in ("pinned arrays, first", "pinned arrays, again"):
        for one, out in zip(there, pinned, strict=True):
            one.get(out=out, blocking=False)
        clock.lap(step)
    return {step: round(second, 4) for step, second in clock.seconds.items()}


def sizes_of(covered: Assembled) -> dict[str, int]:
    """How many clusters have how many departures."""
    kind = np.repeat(np.arange(len(covered.duration)), covered.type_connections)
    number = covered.departure // WIDTH
    new = np.flatnonzero(np.append(True, (kind[1:] != kind[:-1]) | (number[1:] != number[:-1])))
    size = np.diff(np.append(new, len(kind)))
    edges = (0, 2, 8, 24, 62, 400, 2**31)
    return {f"{a + 1} to {b}": int(np.count_nonzero((size > a) & (size <= b))) for a, b in pairwise(edges)}


def measure(timetable: Timetable, threads: int, repeats: int) -> dict[str, Any]:
    """Seconds of all ways, after each is found to give the same arrays."""
    trips = len(timetable.trips.ids)
    part = part_of(timetable, 0, trips)
    parts = [part_of(timetable, a, min(a + TRIPS_A_PART, trips)) for a in range(0, trips, TRIPS_A_PART)]
    cuts = {size: cuts_of(part, timetable, size) for size in CONNECTIONS_A_RANGE}
    few = cuts[CONNECTIONS_A_RANGE[0]]
    results: dict[str, Any] = {"trips": trips, "positions": len(part.vertex), "runs": len(part.shift)}
    cpu, ranges = repeated(lambda: in_parts(partition, parts, timetable, few, threads), 1)
    results[f"CPU, {threads} threads"] = cpu
    print(f"CPU: {cpu}", flush=True)
    expected = Assembled._make(np.concatenate(column) for column in zip(*ranges, strict=True))
    gpu, found = repeated(lambda: whole_on_device(part, timetable), repeats)
    results["GPU, one partition that stays there"] = gpu
    print(f"GPU: {gpu}", flush=True)
    lists = expected.edge_leave, expected.leave, expected.lasts
    words = partition.layout_part(*lists, *numbers_of(*lists))
    results["values compared"] = assert_same(found, [*expected, *words])
    results["bytes of results"] = sum(one.nbytes for one in found)
    results["copies from the GPU"] = copies(found)
    del found, words
    if xp is not np:
        results["GPU memory, MiB"] = round(xp.get_default_memory_pool().total_bytes() / 2**20)
        xp.get_default_memory_pool().free_all_blocks()
    for size, some in cuts.items():
        seconds, found = repeated(lambda some=some: in_parts(device_graph, parts, timetable, some, 1), 1)
        whole = [np.concatenate(column) for column in zip(*found, strict=True)]
        assert_same(whole, expected)
        results[f"GPU, {len(some) - 1} ranges of {size} connections, from and to the host"] = seconds
        print(f"GPU, ranges of {size}: {seconds}", flush=True)
    return results | {
        "connections": len(expected.departure),
        "types": len(expected.duration),
        "edges": len(expected.edge_to),
        "progressions": len(expected.start),
        "clusters of so many departures": sizes_of(expected),
    }


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--store", type=Path)
    source.add_argument("--feed", type=Path)
    parser.add_argument("--date", type=date.fromisoformat, default=date(2026, 9, 30))
    parser.add_argument("--days", type=int, default=2)
    parser.add_argument("--name", required=True)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeats", type=int, default=REPEATS)
    given = parser.parse_args()
    begun = time.perf_counter()
    timetable = timetable_of(given)
    print(f"timetable: {time.perf_counter() - begun:.1f} s", flush=True)
    results = measure(timetable, given.threads, given.repeats)
    config = {"cluster minutes": WIDTH // 60, "repeats": given.repeats, "threads": given.threads}
    print(f"wrote {record(f'build-gpu-{given.name}', results, config=config).name}")


if __name__ == "__main__":
    main()
