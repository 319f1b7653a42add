"""Connected components of symmetric graphs: SciPy on the CPU beside cuGraph on the GPU, in one run.

    python benchmarks/components.py    # writes results/components.json

A grid of a city's size, a national one in 40 pieces, grids of many nations, and random graphs. Both count from a CSR on
the host, so cuGraph's time has the copy to the GPU in it. A build counts once, so it pays for the first call of its
process too, in which cuGraph is imported: that is timed by itself.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import numpy as np
from harness import record, timed
from headway.cluster.devices import cuda_device
from headway.pipeline import device_components
from headway.pipeline.vertex_order import components
from scipy.sparse import coo_array, csr_array

CITY, NATION = 20_000, 500_000
NATIONS = 40
REPEATS = 15
LONG = 1.0  # seconds: what takes longer is timed three times only


def graph_of(pairs: np.ndarray, vertices: int) -> csr_array:
    """The symmetric graph of pairs, int64[2, pairs], each once."""
    keys = np.sort(np.minimum(*pairs) * vertices + np.maximum(*pairs))
    u, v = np.divmod(keys[np.append(True, np.diff(keys) > 0)], vertices)
    ends = np.stack([u, v])[:, u != v].astype(np.int32)
    half = coo_array((np.ones(ends.shape[1], np.int8), tuple(ends)), shape=(vertices, vertices)).tocsr()
    return half + half.T.tocsr()


def grid(vertices: int, pieces: int) -> csr_array:
    """Square grids beside each other, numbered row by row: as stops are after reverse Cuthill-McKee."""
    size = vertices // pieces
    side = int(size**0.5)
    place = np.arange(vertices)
    right = place[(place % size % side < side - 1) & (place % size < size - 1)]
    below = place[place % size < size - side]
    return graph_of(np.stack([np.append(right, below), np.append(right + 1, below + side)]), vertices)


def graphs() -> Iterator[tuple[str, csr_array]]:
    """Each by name."""
    yield "city, a grid", grid(CITY, 1)
    yield "nation, 40 grids", grid(NATION, 40)
    yield f"{NATIONS} nations, grids", grid(NATIONS * NATION, 40 * NATIONS)
    rng = np.random.default_rng(0)
    for vertices, share in ((NATION, 0.25), (NATION, 0.5), (NATION, 3), (10 * NATION, 3)):
        pairs = rng.integers(0, vertices, (2, int(share * vertices)))
        yield f"{vertices} vertices, {share} random pairs each", graph_of(pairs, vertices)


def at_most(repeats: int, count: Callable[[], int]) -> dict[str, float]:
    """Seconds of a count, fewer times where it takes long."""
    once = timed(count, 1)
    return timed(count, repeats if once["max_s"] < LONG else min(repeats, 3))


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=REPEATS)
    repeats = parser.parse_args().repeats
    if trouble := cuda_device().trouble or ("" if find_spec("pylibcugraph") else "cuGraph is not installed"):
        raise SystemExit(trouble)
    results: dict[str, dict] = {}
    start = time.perf_counter()
    device_components.components(graph_of(np.array([[0, 1], [1, 2]]), 3))
    first = time.perf_counter() - start
    for name, graph in graphs():
        counts = [count(graph) for count in (components, device_components.components)]
        if len(set(counts)) > 1:
            raise SystemExit(f"{name}: SciPy counts {counts[0]} components, cuGraph {counts[1]}")
        results[name] = {
            "vertices": graph.shape[0],
            "pairs": graph.nnz // 2,
            "components": counts[0],
            "SciPy": at_most(repeats, lambda graph=graph: components(graph)),
            "cuGraph": at_most(repeats, lambda graph=graph: device_components.components(graph)),
        }
        medians = {way: f"{results[name][way]['median_s'] * 1000:.1f} ms" for way in ("SciPy", "cuGraph")}
        print(f"{name}: {counts[0]} components, {medians}", flush=True)
    found = {"first call of cuGraph, s": first, "graphs": results}
    print(
        f"first call of cuGraph: {first:.2f} s; wrote {record('components', found, config={'repeats': repeats}).name}"
    )


if __name__ == "__main__":
    main()
