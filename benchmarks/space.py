"""Sparse kernels on the CPU: generated ones against SciPy, on a power-law matrix, float64.

    python benchmarks/space.py    # writes results/space.json

SpMV and SpMM with 64 columns on one thread and on two; what runs in turn shares what else the machine does. Compiling
is not measured, allocating the output is.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from harness import record, timed
from headway.kernels.space import CSR, Schedule, Tensor, autoschedule, kernel, rows_of, schedule

ROWS, NONZEROS, LONGEST, EMPTY, COLUMNS = 100_000, 1_900_000, 25_000, 9_000, 64
SPMV = schedule("y[i] = A[i, j] * x[j]", A=CSR)
SPMM = schedule("C[i, k] = A[i, j] * B[j, k]", A=CSR)


def power_law(seed: int = 0) -> scipy.sparse.csr_matrix:
    """Rows of n-th rank hold about `LONGEST / n**a` nonzeros; `a` is such that there are `NONZEROS` of them."""
    rng = np.random.default_rng(seed)
    rank = np.arange(1, ROWS - EMPTY + 1)
    low, high = 0.0, 3.0
    for _ in range(60):
        middle = (low + high) / 2
        more = np.maximum(np.round(LONGEST / rank**middle), 1).sum() > NONZEROS
        low, high = (middle, high) if more else (low, middle)
    size = np.concatenate([np.maximum(np.round(LONGEST / rank**high), 1), np.zeros(EMPTY)]).astype(np.int64)
    rng.shuffle(size)
    column = np.concatenate([np.sort(rng.choice(ROWS, count, replace=False)) for count in size]).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(size)]).astype(np.int32)
    return scipy.sparse.csr_matrix((rng.random(len(column)), column, offsets), shape=(ROWS, ROWS))


def measure(runs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Milliseconds of each, the least of all rounds; each round runs every one in turn."""
    least = dict.fromkeys(runs, np.inf)
    for _ in range(repeats):
        for name, run in runs.items():
            least[name] = min(least[name], timed(run, 1)["min_s"] * 1e3)
    return {name: round(ms, 3) for name, ms in least.items()}


def compared(
    schedules: dict[str, Schedule], tensor: Tensor, operand: dict[str, Any], plain: Callable[[], Any]
) -> dict[str, Callable[[], Any]]:
    """A statement under several schedules, and SciPy; all agree."""
    runs: dict[str, Callable[[], Any]] = {"scipy, 1 thread": plain}
    for name, made in schedules.items():
        for threads in (1, 2):
            words = f"{name}, {threads} thread{'s' if threads > 1 else ''}"
            runs[words] = partial(kernel(made), A=tensor, threads=threads, **operand)
            if not np.allclose(runs[words](), plain()):
                raise AssertionError(f"{words} differs from SciPy")
    return runs


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=15)
    given = parser.parse_args()
    matrix, rng = power_law(), np.random.default_rng(1)
    tensor, x, b = Tensor.from_scipy(matrix), rng.random(ROWS), rng.random((ROWS, COLUMNS))
    rows = rows_of(tensor)
    blocks = SPMV.fuse("i", "j", "f").pos("f", "p", "A").split("p", "b", "q", 4096)
    blocks = blocks.parallelize("b", "threads", "carry").parallelize("q", "vector", "private")
    taco = SPMM.split("i", "i0", "i1", 16).pos("j", "p", "A").split("p", "p0", "p1", 8)
    taco = taco.reorder("i0", "i1", "p0", "k", "p1").parallelize("i0", "threads").unroll("p1")
    spmv = {"chosen": autoschedule(SPMV, "cpu", rows), "blocks of nonzeros": blocks}
    spmm = {"chosen": autoschedule(SPMM, "cpu", rows), "columns outside eight nonzeros": taco}
    results: dict[str, Any] = {}
    for name, schedules, operand, plain, repeats in (
        ("SpMV", spmv, {"x": x}, lambda: matrix @ x, 4 * given.repeats),
        (f"SpMM, {COLUMNS} columns", spmm, {"B": b}, lambda: matrix @ b, given.repeats),
    ):
        ms = measure(compared(schedules, tensor, operand, plain), repeats)
        ratios = {f"{run} over scipy": round(ms[run] / ms["scipy, 1 thread"], 3) for run in ms if "scipy" not in run}
        results[name] = {"ms": ms, "ratios": ratios, "schedules": {what: made.code for what, made in schedules.items()}}
        print(name, ms, ratios)
    size = np.diff(matrix.indptr)
    config = {
        "matrix": f"{ROWS} x {ROWS}, power law",
        "nonzeros": int(matrix.nnz),
        "longest row": int(size.max()),
        "empty rows": int((size == 0).sum()),
        "repeats": given.repeats,
    }
    print(f"wrote {record('space', results, config=config).name}")


if __name__ == "__main__":
    main()
