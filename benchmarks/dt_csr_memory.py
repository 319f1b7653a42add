"""Bytes of a DT-CSR beside those of other stores of the same snapshots, by allocating all of them.

    python benchmarks/dt_csr_memory.py --graphs FOLDER       # writes results/dt_csr_memory.json
    python benchmarks/dt_csr_memory.py --events 50000000     # writes results/dt_csr_build.json

Two workloads, events in order of time. Growing: the first part of the events at tick 0, then a step a tick; snapshot t
has what came up to t. Sliding: a step a tick; a snapshot has the events of a window as long as that first part. Of a
pair in a snapshot the last event counts. Then 10 M random events, unsorted, are built, in seconds.
With --events only so many are built, once, and the memory that this takes at most is measured too.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import peak_rss_mib, record, timed

import headway as hw

# Events at first, and a step, as they are in the file; None: half and a hundredth of all.
GRAPHS = {
    "sx-mathoverflow.txt.gz": (250_000, 5_000),
    "email-Eu-core-temporal.txt.gz": None,
    "CollegeMsg.txt": None,
}
RANDOM_EVENTS, RANDOM_NODES, RANDOM_TICKS = 10_000_000, 1_000_000, 100


def read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Sources and destinations in order of time, int64."""
    data = np.loadtxt(path, np.int64, skiprows=int(path.suffix == ".txt"))
    data = data[np.argsort(data[:, 2], kind="stable")]
    return data[:, 0], data[:, 1]


def ticks_of(events: int, first: int, step: int) -> np.ndarray:
    """Ticks when `first` events come at tick 0 and then `step` a tick."""
    return np.maximum(0, (np.arange(events) - first) // step + 1)


def store(source: np.ndarray, target: np.ndarray, tick: np.ndarray) -> hw.DTCSR:
    """A DT-CSR with a value an event, duplicates in a tick removed."""
    columns = (source, target, tick, np.ones(len(tick)))
    return hw.DTCSR.from_events(columns, duplicates="last")


def allocated(make: Any) -> tuple[Any, int]:
    """What `make` returns, and the bytes that NumPy holds for it afterwards."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    made = make()
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return made, held


def snapshots(graph: hw.DTCSR, length: int | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Sources and destinations of each snapshot: all up to a tick, or of whole windows of so many ticks."""
    for window in graph.windows(length or graph.ticks, distinct=True):
        if length is None or window.last - window.first + 1 == length:
            yield window.edges()[:2]


def csr_per_snapshot(graph: hw.DTCSR, length: int | None) -> list[np.ndarray]:
    """Offsets, columns and labels, 4 bytes each, in both directions."""
    kept = []
    for source, target in snapshots(graph, length):
        for row, column in ((source, target), (target, source)):
            order = np.argsort(row, kind="stable")
            offset = np.zeros(graph.nodes + 1, np.uint32)
            np.cumsum(np.bincount(row, minlength=graph.nodes), out=offset[1:])
            kept += [offset, column[order], order.astype(np.uint32)]
    return kept


def coo_per_snapshot(graph: hw.DTCSR, length: int | None) -> list[np.ndarray]:
    """Edge indices int64[2, E], as libraries for graph learning take them."""
    return [np.stack(edges).astype(np.int64) for edges in snapshots(graph, length)]


def changes(graph: hw.DTCSR, length: int | None) -> dict[str, Any]:
    """Insertions and deletions of the same snapshots: a pair goes when no event of it is left in the window."""
    source, target, edge = graph.window(0, graph.ticks - 1).edges()
    tick = graph.by_source.event_ticks.astype(np.int64)
    gone = np.empty(0, np.int64)
    if length is not None:
        gone = np.flatnonzero((graph.next > tick + length) & (tick + length < graph.ticks))
    return {
        "src": np.concatenate([source, source[gone]]),
        "dst": np.concatenate([target, target[gone]]),
        "time": np.concatenate([tick, tick[gone] + (length or 0)]),
        "op": np.repeat(["+", "-"], [len(edge), len(gone)]),
    }


def plain_intervals(present: hw.DTCSR) -> list[np.ndarray]:
    """Both directions: offsets, column, first and last tick of each presence, and the twin's permutation."""
    kept = []
    for side, perm in ((present.by_source, None), (present.by_destination, present.perm)):
        tick, end = side.event_ticks, present.end
        assert end is not None
        rows = np.repeat(np.arange(present.nodes), np.diff(side.row_offset))
        count = np.bincount(rows, np.diff(side.starts.astype(np.int64)), minlength=present.nodes)
        kept += [np.concatenate([[0], np.cumsum(count)]).astype(np.uint32), side.column_indices.copy(), tick]
        kept += [end.copy()] if perm is None else [end[perm], perm.copy()]
    return kept


def measure(source: np.ndarray, target: np.ndarray, first: int, step: int, slides: bool) -> dict[str, Any]:
    """Bytes of every store of one workload, and counts."""
    tick = np.arange(len(source)) // step if slides else ticks_of(len(source), first, step)
    length = first // step if slides else None
    graph, held = allocated(lambda: store(source, target, tick))
    arrays = {name: array.nbytes for name, array in graph.arrays().items()}
    extra = arrays["values"] + arrays["next"]
    edges = [len(one[0]) for one in snapshots(graph, length)]
    present = hw.DTCSR.from_events(changes(graph, length), op="op", nodes=graph.nodes)
    sizes = {
        "forward": sum(size for name, size in arrays.items() if name.startswith("by_source")),
        "twin": sum(arrays.values()) - extra - arrays["times"],
        "twin, next": sum(arrays.values()) - arrays["values"] - arrays["times"],
        "twin, values, next": sum(arrays.values()) - arrays["times"],
        "held after building": held,
        "CSR per snapshot, both ways": sum(array.nbytes for array in csr_per_snapshot(graph, length)),
        "COO per snapshot": sum(array.nbytes for array in coo_per_snapshot(graph, length)),
        "plain intervals, both ways": sum(array.nbytes for array in plain_intervals(present)),
        "intervals as DT-CSR with end, both ways": sum(
            array.nbytes for name, array in present.arrays().items() if name not in ("times", "next")
        ),
    }
    counts = {
        "nodes": graph.nodes,
        "events": graph.events,
        "ticks": graph.ticks,
        "snapshots": len(edges),
        "edges of all snapshots": sum(edges),
        "intervals": present.events,
    }
    return {"first": first, "step": step, "counts": counts, "bytes": sizes}


def random_events(events: int) -> tuple[np.ndarray, ...]:
    """Sources, destinations and times in no order."""
    rng = np.random.default_rng(0)
    return *(rng.integers(0, RANDOM_NODES, events) for _ in range(2)), rng.integers(0, 2**31, events)


def facts_of(graph: hw.DTCSR) -> dict[str, int]:
    """What a build made."""
    size = sum(array.nbytes for array in graph.arrays().values())
    return {"events": graph.events, "nodes": graph.nodes, "ticks": graph.ticks, "bytes": size}


def build_time(repeats: int) -> dict[str, Any]:
    """Seconds to build the twin and set index of random events in no order."""
    events = random_events(RANDOM_EVENTS)

    def build() -> hw.DTCSR:
        return hw.DTCSR.from_events(events, ticks=RANDOM_TICKS)

    graph = build()
    return facts_of(graph) | {name: round(value, 3) for name, value in timed(build, repeats).items()}


def build_once(count: int) -> dict[str, Any]:
    """Seconds and peak memory of one build; of the arrays that it is given, and above them."""
    events = random_events(count)
    hw.DTCSR.from_events([one[:1000] for one in events], ticks=RANDOM_TICKS)  # compile
    before, start = peak_rss_mib(), time.perf_counter()
    graph = hw.DTCSR.from_events(events, ticks=RANDOM_TICKS)
    took, peak = time.perf_counter() - start, peak_rss_mib()
    memory = {"with_given_mib": round(before), "above_mib": round(peak - before)}
    return facts_of(graph) | {"s": round(took, 2)} | memory


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--graphs", type=Path)
    what.add_argument("--events", type=int)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    if given.events:
        found = build_once(given.events)
        print(found)
        print(f"wrote {record('dt_csr_build', found, config={'ticks': RANDOM_TICKS}).name}")
        return
    results: dict[str, Any] = {}
    store(*np.zeros((3, 2), np.int64))  # compiled kernels are no part of a graph
    for name, sizes in GRAPHS.items():
        source, target = read(given.graphs / name)
        first, step = sizes or (len(source) // 2, len(source) // 100)
        for words, slides in (("growing", False), ("sliding", True)):
            found = results[f"{name.partition('.')[0]}, {words}"] = measure(source, target, first, step, slides)
            print(name, words, found["counts"], {what: round(size / 1e6, 2) for what, size in found["bytes"].items()})
    results["build"] = build_time(given.repeats)
    print(results["build"])
    print(f"wrote {record('dt_csr_memory', results, config={'repeats': given.repeats}).name}")


if __name__ == "__main__":
    main()
