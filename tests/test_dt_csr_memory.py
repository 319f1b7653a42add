"""Bytes of a DT-CSR on real graphs, by allocating everything that it is compared with."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import SHARED

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))  # not in the wheel

import dt_csr_memory as memory


def real_graph(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Sources and destinations in order of time; the test is skipped where the graph is not beside the checkout."""
    path = SHARED / "graphs" / name
    if not path.exists():
        pytest.skip(f"{name} is not beside the checkout")
    memory.store(*np.zeros((3, 2), np.int64))  # compiled kernels are no part of a graph
    return memory.read(path)


@pytest.mark.parametrize("slides", [False, True])
def test_mathoverflow(slides: bool) -> None:
    """250,000 events at first, then 5,000 a tick: twin, values and set index are at most 8.5 MB, CSRs above 100 MB."""
    found = memory.measure(*real_graph("sx-mathoverflow.txt.gz"), 250_000, 5_000, slides)
    sizes, counts = found["bytes"], found["counts"]
    assert counts["snapshots"] == 53
    assert sizes["twin, values, next"] <= 8.5e6
    assert sizes["held after building"] <= 8.5e6
    # By the formulas: what is allocated is what the arrays hold, and no more.
    nodes, events, edges = counts["nodes"], counts["events"], counts["edges of all snapshots"]
    assert sizes["twin, values, next"] - sizes["twin"] == 8 * events
    assert sizes["CSR per snapshot, both ways"] == 53 * 8 * (nodes + 1) + 16 * edges > 100e6
    assert sizes["COO per snapshot"] == 16 * edges
    assert sizes["plain intervals, both ways"] == 8 * (nodes + 1) + 28 * counts["intervals"]


def test_email_where_intervals_are_smaller() -> None:
    """One pair writes 2,816 times: a presence stands for many events."""
    source, target = real_graph("email-Eu-core-temporal.txt.gz")
    sizes = memory.measure(source, target, len(source) // 2, len(source) // 100, True)["bytes"]
    assert 5 * sizes["plain intervals, both ways"] < sizes["twin, values, next"]
    assert sizes["intervals as DT-CSR with end, both ways"] < sizes["plain intervals, both ways"]
    assert 3 * sizes["twin, values, next"] < sizes["CSR per snapshot, both ways"]


@pytest.mark.parametrize("slides", [False, True])
@pytest.mark.parametrize("name", memory.GRAPHS)
def test_intervals_hold_the_same_snapshots(name: str, slides: bool) -> None:
    """The bytes compared are of the same edges at every snapshot."""
    import headway as hw

    source, target = real_graph(name)
    source, target = source[:60_000], target[:60_000]
    first, step = len(source) // 2, len(source) // 20
    tick = np.arange(len(source)) // step if slides else memory.ticks_of(len(source), first, step)
    length = first // step if slides else None
    graph = memory.store(source, target, tick)
    present = hw.DTCSR.from_events(memory.changes(graph, length), op="op", nodes=graph.nodes)
    assert present.ticks == graph.ticks
    skipped = 0 if length is None else length - 1
    found = list(memory.snapshots(graph, length))
    assert len(found) == graph.ticks - skipped
    for tick, edges in enumerate(found, skipped):
        expected = present.snapshot(tick).edges()[:2]
        keys = [np.sort(one[0].astype(np.int64) * graph.nodes + one[1]) for one in (edges, expected)]
        assert np.array_equal(*keys)
