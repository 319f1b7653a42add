"""Aggregation on a GPU: bytes against the copy rate of the same run, twin against a build per snapshot, cuSPARSE.

python benchmarks/aggregate_gpu.py    # writes results/aggregate-gpu.json

Events are drawn on the host's seed with a skewed degree; counted are E (4 F + 4) + 4 N F bytes, as if every edge read
its row from memory.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from harness import record

NODES, EVENTS, TICKS, REPEATS = 1_000_000, 50_000_000, 10, 10


def graph_on_device(nodes: int, events: int) -> Any:
    """A DT-CSR of random events, sorted on the device; a tenth of them at each tick."""
    import cupy
    from headway.storage.dt_csr import DTCSR, NEVER, Side

    rng = cupy.random.default_rng(1)
    spread = [cupy.minimum((rng.random(events) ** 3 * nodes).astype(cupy.uint64), nodes - 1) for _ in range(2)]
    shuffled = rng.permutation(nodes).astype(cupy.uint64) if hasattr(rng, "permutation") else cupy.arange(nodes)
    source, destination = spread[0], cupy.asarray(shuffled).astype(cupy.uint64)[spread[1]]
    tick = rng.integers(0, TICKS, events).astype(cupy.uint64)

    def side(rows: Any, columns: Any) -> tuple[Side, Any]:
        order = cupy.argsort((rows * TICKS + tick) * nodes + columns)
        pair = (rows * TICKS + tick)[order]
        begin = cupy.flatnonzero(cupy.concatenate([cupy.ones(1, bool), pair[1:] != pair[:-1]]))
        row_offset = cupy.searchsorted(pair[begin] // TICKS, cupy.arange(nodes + 1, dtype=cupy.uint64))
        offset = cupy.append((pair[begin] % TICKS) << 32 | begin.astype(cupy.uint64), cupy.uint64(NEVER << 32 | events))
        arrays = (row_offset.astype(cupy.uint32), offset.astype(cupy.uint64), columns[order].astype(cupy.uint32))
        return Side(*(cupy.asnumpy(one) for one in arrays)), order

    forward, by_source = side(source, destination)
    back, by_destination = side(destination, source)
    place = cupy.empty(events, cupy.uint32)
    place[by_source] = cupy.arange(events, dtype=cupy.uint32)
    perm = cupy.asnumpy(place[by_destination])
    key = (source * nodes + destination)[by_source] * TICKS + tick[by_source]  # by edge id
    order = cupy.argsort(key)
    same = cupy.flatnonzero(key[order][1:] // TICKS == key[order][:-1] // TICKS)
    later = cupy.full(events, NEVER, cupy.uint32)
    later[order[same]] = (key[order][same + 1] % TICKS).astype(cupy.uint32)
    ids = pa.array(np.arange(nodes))
    return DTCSR(forward, back, perm, cupy.asnumpy(later), None, None, np.arange(TICKS), ids, {})


def seconds(fn: Callable[[], object], repeats: int = REPEATS) -> float:
    """The median of some runs, by the device's clock; the first two only warm up."""
    import cupy

    found = []
    for _ in range(repeats + 2):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        fn()
        end.record()
        end.synchronize()
        found.append(cupy.cuda.get_elapsed_time(begin, end) / 1000)
    return float(np.median(found[2:]))


def by_clock(fn: Callable[[], object], repeats: int = 5) -> float:
    """The median of some runs with what the host does in between."""
    import cupy

    found = []
    for _ in range(repeats + 1):
        cupy.cuda.Device().synchronize()
        begin = time.perf_counter()
        fn()
        cupy.cuda.Device().synchronize()
        found.append(time.perf_counter() - begin)
    return float(np.median(found[1:]))


def copy_rate() -> float:
    """Bytes read and written in a second by a copy of 4 GiB."""
    import cupy

    source = cupy.zeros(2**30, cupy.float32)
    target = cupy.empty_like(source)
    return 2 * source.nbytes / seconds(lambda: cupy.copyto(target, source))


def measured(graph: Any, columns: int, rate: float) -> dict[str, Any]:
    """One number of features."""
    import cupy
    import torch
    from headway.kernels.aggregate import aggregate, degrees, sampled
    from headway.kernels.device_reverse import device_reversed_edges
    from headway.kernels.neighbours import Arrays, incoming, outgoing

    window, arrays = graph.window(0, graph.ticks - 1), Arrays.of(graph).to_device()
    edges, away = incoming(window, arrays), outgoing(window, arrays)
    features = cupy.random.default_rng(2).random((graph.nodes, columns), cupy.float32)
    out = cupy.empty_like(features)
    count = graph.events * (4 * columns + 4) + 4 * graph.nodes * columns
    found: dict[str, Any] = {"bytes": count}

    def rated(name: str, fn: Callable[[], object]) -> None:
        took = seconds(fn)
        found[name] = {"s": took, "GB_per_s": count / took / 1e9, "of_copy_rate": count / took / rate}

    rated("forward", lambda: aggregate(edges, features, out=out))
    first = out.copy()
    aggregate(edges, features, out=out)
    found["same_bits_again"] = bool((first.view(cupy.uint32) == out.view(cupy.uint32)).all())
    rated("gradient of features", lambda: aggregate(away, features, out=out))
    weights = cupy.ones(graph.events, cupy.float32)
    rated("forward, weighted", lambda: aggregate(edges, features, weights, out=out))
    gradient = cupy.empty(graph.events, cupy.float32)
    rated("gradient of weights", lambda: sampled(away, features, features, out=gradient))

    indptr = cupy.asarray(np.concatenate([[0], np.cumsum(edges.high - edges.low)]).astype(np.int32))
    order = cupy.asarray(arrays.sources).view(cupy.int32)
    given = (torch.as_tensor(one) for one in (indptr, order, weights))
    matrix, operand = torch.sparse_csr_tensor(*given, (graph.nodes, graph.nodes)), torch.as_tensor(features)
    # PyTorch's product works by rows, as ours does; CuPy's by columns, with copies of the features.
    rated("cuSPARSE, CSR of the window", lambda: matrix @ operand)
    theirs = cupy.asarray(matrix @ operand)
    found["largest_relative_difference_to_cuSPARSE"] = float(abs(first - theirs).max() / abs(first).max())

    last = graph.window(graph.ticks // 2, graph.ticks - 1, distinct=True)
    of_pairs = incoming(last, arrays)
    took = seconds(lambda: aggregate(of_pairs, features, out=out))
    kept = int(cupy.asnumpy(cupy.asarray(degrees(of_pairs))).sum())
    found["forward, set of half the ticks"] = {"s": took, "edges": of_pairs.size, "edges_that_count": kept}

    twin = by_clock(lambda: aggregate(incoming(window, arrays), features, out=out))
    built = by_clock(lambda: aggregate(device_reversed_edges(window, arrays), features, out=out))
    found["a new window"] = {"twin_s": twin, "reverse_csr_built_s": built}
    return found


def main() -> None:
    """Measure, print and record."""
    from headway.cluster.devices import cuda_device

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--features", type=int, nargs="+", default=[64, 256])
    given = parser.parse_args()
    if trouble := cuda_device().trouble:
        sys.exit(f"no GPU: {trouble}")
    graph = graph_on_device(given.nodes, given.events)
    rate = copy_rate()
    longest = int((np.diff(graph.by_destination.starts[graph.by_destination.row_offset].astype(np.int64))).max())
    results: dict[str, Any] = {"copy_GB_per_s": rate / 1e9, "longest_row": longest}
    for columns in given.features:
        results[f"{columns} features"] = measured(graph, columns, rate)
        print(columns, results[f"{columns} features"], flush=True)
    config = {"nodes": given.nodes, "events": given.events, "ticks": TICKS, "repeats": REPEATS}
    print(f"wrote {record('aggregate-gpu', results, config=config).name}")


if __name__ == "__main__":
    main()
