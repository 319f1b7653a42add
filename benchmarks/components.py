"""Connected components of symmetric graphs: SciPy on the CPU beside cuGraph on the GPU, in one run.

    python benchmarks/components.py    # writes results/components.json

A grid of a city's size, a national one in 40 pieces, and random graphs of 500,000 vertices. Both count from a CSR on
the host, so cuGraph's time has the copy to the GPU in it. The first call of the process is what a build pays.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np
from harness import record, timed
from headway.cluster.devices import cuda_device
from headway.pipeline.vertex_order import components
from scipy.sparse import coo_array, csr_array

CITY, NATION = 20_000, 500_000
REPEATS = 15


def graph_of(pairs: np.ndarray, vertices: int) -> csr_array:
    """The symmetric graph of pairs, int64[2, pairs], each once."""
    pairs = np.unique(np.sort(pairs, axis=0)[:, pairs[0] != pairs[1]], axis=1)
    ends = np.concatenate([pairs, pairs[::-1]], axis=1)
    return coo_array((np.ones(ends.shape[1], np.int8), tuple(ends)), shape=(vertices, vertices)).tocsr()


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
    rng = np.random.default_rng(0)
    for share in (0.25, 0.5, 3):
        pairs = rng.integers(0, NATION, (2, int(share * NATION)))
        yield f"{NATION} vertices, {share} random pairs each", graph_of(pairs, NATION)


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=REPEATS)
    repeats = parser.parse_args().repeats
    if trouble := cuda_device().trouble or ("" if find_spec("pylibcugraph") else "cuGraph is not installed"):
        raise SystemExit(trouble)
    results: dict[str, dict] = {}
    first = None
    for name, graph in graphs():
        if first is None:
            start = time.perf_counter()
            components(graph, gpu=True)
            first = time.perf_counter() - start
        counts = [components(graph, gpu=gpu) for gpu in (False, True)]
        if len(set(counts)) > 1:
            raise SystemExit(f"{name}: SciPy counts {counts[0]} components, cuGraph {counts[1]}")
        results[name] = {
            "vertices": graph.shape[0],
            "pairs": graph.nnz // 2,
            "components": counts[0],
            "SciPy": timed(lambda graph=graph: components(graph), repeats),
            "cuGraph": timed(lambda graph=graph: components(graph, gpu=True), repeats),
        }
        medians = {way: f"{results[name][way]['median_s'] * 1000:.1f} ms" for way in ("SciPy", "cuGraph")}
        print(f"{name}: {counts[0]} components, {medians}", flush=True)
    found = {"first call of cuGraph, s": first, "graphs": results}
    print(
        f"first call of cuGraph: {first:.2f} s; wrote {record('components', found, config={'repeats': repeats}).name}"
    )


if __name__ == "__main__":
    main()
