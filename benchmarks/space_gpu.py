"""Generated sparse kernels on a GPU, beside cuSPARSE by CuPy and by PyTorch, in one run.

    python benchmarks/space_gpu.py    # writes results/space-gpu.json

Five kinds of matrices of 2 M rows and 50 M nonzeros. SpMV and SpMM with 32 and 128 columns against cuSPARSE at its
best; SDDMM, MTTKRP, TTV and TTM as a share of the bandwidth that a copy reaches. Outputs are allocated beforehand and
formats converted; an output that is added to is set to zero within the time. Times are medians of runs in a row.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import record
from headway.kernels.space import (
    CSR,
    Schedule,
    Tensor,
    autoschedule,
    csf_format,
    kernel,
    rows_of,
    schedule,
    tune,
)

KINDS = ("uniform", "power law", "banded", "few long rows", "hypersparse")
COLUMNS = (32, 128)
REPEATS = 15
LONG = 300  # milliseconds
SPMV = schedule("y[i] = A[i, j] * x[j]", A=CSR)
SPMM = schedule("C[i, k] = A[i, j] * B[j, k]", A=CSR)
Run = Callable[[], Any]


def matrix(cp: Any, kind: str, rows: int, nonzeros: int) -> Any:
    """A square CSR matrix with values of float64, sorted and without duplicates; `cp` is CuPy."""
    rng = cp.random.RandomState(0)
    if kind == "banded":
        width = nonzeros // rows
        row = cp.arange(rows * width) // width
        column = (row + cp.arange(rows * width) % width - width // 2) % rows
    else:
        if kind == "uniform":
            size = rng.poisson(nonzeros / rows, rows)
        elif kind == "power law":
            weight = cp.arange(1, rows + 1) ** -0.6
            weight = weight[rng.permutation(rows)]
            size = rng.poisson(weight / weight.sum() * nonzeros)
        elif kind == "few long rows":
            size = rng.poisson(nonzeros / 2 / rows, rows)
            size[rng.randint(0, rows, 50)] = nonzeros // 100
        else:
            size = cp.zeros(rows, np.int64)
            chosen = cp.unique(rng.randint(0, rows, rows // 10))
            size[chosen] = rng.poisson(nonzeros / len(chosen), len(chosen))
        ends = cp.cumsum(size)
        row = cp.searchsorted(ends, cp.arange(int(ends[-1])), side="right")
        column = rng.randint(0, rows, len(row))
    key = cp.unique(row * rows + column)
    row, column = key // rows, (key % rows).astype(np.int32)
    offset = cp.concatenate([cp.zeros(1, np.int64), cp.cumsum(cp.bincount(row, minlength=rows))]).astype(np.int32)
    from cupyx.scipy.sparse import csr_matrix  # pyright: ignore[reportMissingImports]

    return csr_matrix((rng.rand(len(column)), column, offset), shape=(rows, rows))


def milliseconds(cp: Any, run: Run) -> float:
    """The median of a few runs (fewer of long ones), measured on the device; the first two are not counted."""
    found: list[float] = []
    while len(found) < REPEATS + 2 and (len(found) < 5 or sum(found) < LONG):
        begin, end = cp.cuda.Event(), cp.cuda.Event()
        begin.record()
        run()
        end.record()
        end.synchronize()
        found.append(cp.cuda.get_elapsed_time(begin, end))
    return statistics.median(found[2:])


def checked(cp: Any, got: Any, expected: Any, what: str) -> None:
    """Equal but for rounding, or an error that says what differs."""
    got, expected = cp.asarray(got).reshape(expected.shape), cp.asarray(expected)
    scale = float(cp.abs(expected).max()) or 1.0
    if float(cp.abs(got - expected).max()) > scale * (1e-4 if expected.dtype == np.float32 else 1e-10):
        raise AssertionError(f"{what} differs")


def peers(cp: Any, torch: Any, whole: Any, dense: Any) -> dict[str, Run]:
    """cuSPARSE by two libraries: CuPy works by columns, PyTorch by rows."""
    theirs = torch.sparse_csr_tensor(
        torch.as_tensor(whole.indptr), torch.as_tensor(whole.indices), torch.as_tensor(whole.data), whole.shape
    )
    operand = torch.as_tensor(dense)
    found: dict[str, Run] = {"PyTorch": lambda: theirs @ operand}
    by_column = cp.asfortranarray(dense) if dense.ndim == 2 else dense
    found["CuPy"] = lambda: whole @ by_column
    return found


def against_cusparse(cp: Any, torch: Any, base: Schedule, whole: Any, dense: Any, what: str) -> dict:
    """Milliseconds of everybody, and ours over their best."""
    tensor, name = Tensor.from_scipy(whole), "x" if dense.ndim == 1 else "B"
    expected, columns = whole @ dense, dense.shape[1] if dense.ndim == 2 else None
    out = cp.zeros(expected.shape, expected.dtype)
    tuned = tune(base, "cuda", out=out, A=tensor, **{name: dense}).schedule
    found: dict[str, Any] = {}
    for title, made in (("chosen", autoschedule(base, "cuda", rows_of(tensor), columns)), ("tuned", tuned)):
        run = kernel(made).prepared(out=out, A=tensor, **{name: dense})
        run()
        checked(cp, out, expected, f"{what}, {title}")
        found[f"{title}, ms"] = round(milliseconds(cp, run), 4)
        found[f"{title}, schedule"] = made.code
    for title, run in peers(cp, torch, whole, dense).items():
        checked(cp, run(), expected, f"{what}, {title}")
        found[f"cuSPARSE by {title}, ms"] = round(milliseconds(cp, run), 4)
    best = min(ms for title, ms in found.items() if title.startswith("cuSPARSE"))
    for title in ("chosen", "tuned"):
        found[f"{title} over cuSPARSE"] = round(found[f"{title}, ms"] / best, 3)
    return found


def of_bandwidth(cp: Any, copy: float, dtype: Any, nonzeros: int, rank: int) -> dict:
    """The other kernels: milliseconds, and the bytes that must move over those of a copy in that time."""
    rng, rows, size = np.random.default_rng(0), nonzeros // 25, np.dtype(dtype).itemsize
    cells = np.unique(rng.integers(0, rows * rows, nonzeros))
    plane = np.array([cells // rows, cells % rows])
    values = rng.random(len(cells)).astype(dtype)
    flat = Tensor.from_coordinates(plane, values, (rows, rows), CSR)
    deep = np.array([plane[0], plane[1] // 64, plane[1] % 64])
    cube = Tensor.from_coordinates(deep, values, (rows, rows // 64 + 1, 64), csf_format(3))

    def dense(*shape: int) -> Any:
        return cp.random.RandomState(1).rand(*shape).astype(dtype)

    u, v = dense(rows, rank), dense(rows, rank)
    b, c, x = dense(rows // 64 + 1, rank), dense(64, rank), dense(64)
    fibers = len(cube.arrays[1]["crd"])
    stored = sum(array.nbytes for data in cube.arrays for array in data.values())
    value, fiber = cp.asarray(cube.values), cp.asarray(np.repeat(np.arange(fibers), np.diff(cube.arrays[2]["pos"])))
    i, j, k = (cp.asarray(index) for index in deep)
    jobs = {
        "SDDMM": ("D[i, j] = A[i, j] * B[i, k] * C[j, k]", {"A": flat, "B": u, "C": v}, "A",
                  len(cells) * (4 + 2 * size + rank * size) + rows * rank * size,
                  lambda: value * (u[i] * v[cp.asarray(plane[1])]).sum(1)),
        "MTTKRP": ("Y[i, r] = A[i, j, k] * B[j, r] * C[k, r]", {"A": cube, "B": b, "C": c}, None,
                   stored + cube.values.nbytes + fibers * rank * size + rows * rank * size,
                   lambda: summed(cp, i, rows, value[:, None] * b[j] * c[k])),
        "TTV": ("Y[i, j] = A[i, j, k] * x[k]", {"A": cube, "x": x}, "A", stored + cube.values.nbytes + fibers * size,
                lambda: summed(cp, fiber, fibers, value * x[k])),
        "TTM": ("Y[i, j, r] = A[i, j, k] * C[k, r]", {"A": cube, "C": c}, "A",
                stored + cube.values.nbytes + fibers * rank * size,
                lambda: summed(cp, fiber, fibers, value[:, None] * c[k])),
    }  # fmt: skip
    found: dict[str, Any] = {}
    for name, (text, operands, pattern, moved, expected) in jobs.items():
        formats = {key: one.format for key, one in operands.items() if isinstance(one, Tensor)}
        base = schedule(text, pattern=pattern, **formats)
        there = {key: one.to_device() if isinstance(one, Tensor) else one for key, one in operands.items()}
        for title, made in (
            ("chosen", autoschedule(base, "cuda", rows_of(operands["A"]), rank)),
            ("tuned", tune(base, "cuda", **there).schedule),
        ):
            run = kernel(made).prepared(**there)
            got = run()
            checked(cp, got.values if isinstance(got, Tensor) else got, expected().ravel(), f"{name}, {title}")
            ms = milliseconds(cp, run)
            found[f"{name}, {title}"] = {
                "ms": round(ms, 4),
                "share of copy bandwidth": round(moved / (ms / 1e3) / 1e9 / copy, 3),
                "schedule": made.code,
            }
    return found


def summed(cp: Any, place: Any, count: int, values: Any) -> Any:
    """Rows of values added up where they belong, by CuPy."""
    import cupyx  # pyright: ignore[reportMissingImports]

    found = cp.zeros((count, *values.shape[1:]), values.dtype)
    cupyx.scatter_add(found, place, values)
    return found


def copy_bandwidth(cp: Any) -> float:
    """GB/s, read and written."""
    one = cp.zeros(2**28, np.float32)
    other = cp.empty_like(one)
    return 2 * one.nbytes / (milliseconds(cp, lambda: cp.copyto(other, one)) / 1e3) / 1e9


def main() -> None:
    """Measure, print and record."""
    import cupy as cp  # pyright: ignore[reportMissingImports]
    import torch  # pyright: ignore[reportMissingImports]

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--nonzeros", type=int, default=50_000_000)
    given = parser.parse_args()
    copy = copy_bandwidth(cp)
    results: dict[str, Any] = {"copy, GB/s": round(copy)}
    config = {"rows": given.rows, "nonzeros": given.nonzeros, "columns": list(COLUMNS), "repeats": REPEATS}
    for dtype in (np.float32, np.float64):
        found = of_bandwidth(cp, copy, dtype, given.nonzeros // 5, 32)
        results |= {f"{name}, {np.dtype(dtype).name}": one for name, one in found.items()}
        print(np.dtype(dtype).name, {name: one["share of copy bandwidth"] for name, one in found.items()}, flush=True)
    for kind in KINDS:
        double = matrix(cp, kind, given.rows, given.nonzeros)
        for dtype in (np.float32, np.float64):
            whole = double.astype(dtype)
            for columns in (None, *COLUMNS):
                what = f"{kind}, {np.dtype(dtype).name}, {f'SpMM {columns}' if columns else 'SpMV'}"
                dense = cp.random.RandomState(1).rand(given.rows, *([columns] if columns else [])).astype(dtype)
                results[what] = against_cusparse(cp, torch, SPMM if columns else SPMV, whole, dense, what)
                print(what, {k: v for k, v in results[what].items() if "schedule" not in k}, flush=True)
                del dense
                cp.get_default_memory_pool().free_all_blocks()
                torch.cuda.empty_cache()
        for title in ("chosen over cuSPARSE", "tuned over cuSPARSE"):
            ratios = [one[title] for one in results.values() if isinstance(one, dict) and title in one]
            mean = round(statistics.geometric_mean(ratios), 3)
            results[title] = {"geometric mean": mean, "worst": max(ratios), "of": len(ratios)}
        # After each kind, so that what is measured stays if the run is cut short.
        print(f"wrote {record('space-gpu', results, config=config).name}", flush=True)


if __name__ == "__main__":
    main()
