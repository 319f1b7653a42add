"""What the tests of iteration spaces share: tensors of every awkward shape, formats, kernels run as plain Python."""

from __future__ import annotations

import importlib
from functools import cache
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from headway.kernels.space import (
    COO,
    CSC,
    CSR,
    DCSR,
    Compressed,
    Dense,
    Format,
    Kernel,
    Schedule,
    Tensor,
    coo_format,
    csf_format,
    interpret,
    kernel,
    runtime,
)
from headway.kernels.space.integers import load_integers
from headway.kernels.space.source import load
from numba import cuda

MODULE = importlib.import_module("headway.kernels.space.kernel")

FORMATS = {"csr": CSR, "csc": CSC, "coo": COO, "dcsr": DCSR}
FORMATS_3D = {
    "csf": csf_format(3),
    "coo": coo_format(3),
    "dense > compressed > compressed": Format((Dense(), Compressed(), Compressed()), (0, 1, 2)),
    "dense > dense > compressed": Format((Dense(), Dense(), Compressed()), (0, 1, 2)),
    "compressed > dense > compressed": Format((Compressed(), Dense(), Compressed()), (0, 1, 2)),
    "csf, last dimension first": Format((Compressed(),) * 3, (2, 0, 1)),
}


@cache
def arrays() -> dict[str, np.ndarray]:
    """Dense matrices, by what is awkward about them."""
    rng = np.random.default_rng(1)
    uneven = (rng.random((37, 29)) < 0.12) * rng.integers(1, 9, (37, 29)).astype(float)
    edges = uneven.copy()
    edges[:5] = edges[-4:] = 0
    long = np.zeros((11, 70))
    long[4] = rng.integers(1, 9, 70)
    long[[2, 9], [3, 69]] = 1
    return {
        "uneven": uneven,
        "first and last rows empty": edges,
        "no nonzeros": np.zeros((6, 5)),
        "no rows": np.zeros((0, 5)),
        "no columns": np.zeros((5, 0)),
        "one long row": long,
        "only the last entry": np.pad([[3.0]], ((8, 0), (7, 0))),
        "full": rng.integers(1, 9, (6, 7)).astype(float),
    }


@cache
def cubes() -> dict[str, np.ndarray]:
    """The same with three dimensions."""
    rng = np.random.default_rng(2)
    uneven = (rng.random((7, 6, 9)) < 0.15) * rng.integers(1, 9, (7, 6, 9)).astype(float)
    edges = uneven.copy()
    edges[:2] = edges[-2:] = edges[:, 0] = 0
    long = np.zeros((4, 3, 40))
    long[2, 1] = 2
    return {
        "uneven": uneven,
        "first and last slices empty": edges,
        "no nonzeros": np.zeros((3, 4, 2)),
        "no slices": np.zeros((0, 4, 2)),
        "one long fibre": long,
    }


def tensor(array: np.ndarray, form: Format) -> Tensor:
    at = np.nonzero(array)
    return Tensor.from_coordinates(at, array[at], array.shape, form)


def check(made: Schedule, operands: dict[str, Any], shape: tuple[int, ...], plain: bool = False) -> None:
    """A kernel and the interpreter agree, on whole numbers: the order of sums does not matter."""
    run = kernel(made)
    if plain:
        with patch.object(MODULE, "compiled", run_plain), patch.object(cuda, "device_array", np.empty):
            found = run(**operands) if made.cuda else run(threads=2, **operands)
    else:
        found = run(**operands) if made.cuda else run(threads=2, **operands)
    found = found.to_dense() if isinstance(found, Tensor) else found
    expected = interpret(made.statement, np.zeros(shape, found.dtype), **operands)
    assert np.array_equal(found, expected), f"{run.source}\n{found}\n{expected}"


def run_plain(made: Kernel, dtype: np.dtype, wide: bool = False) -> Any:
    """The functions of a kernel in plain Python; a CUDA kernel runs all its threads in turn, a warp being one."""
    constants = {"zero": made.schedule.statement.semiring.zero(dtype), "dtype": dtype, "LANES": 1}
    shared = {"lower": runtime.lower, "upper": runtime.upper, "term": runtime.term, "empty": np.empty}
    shared |= {"int64": int, "uint32": int, "uint64": int}
    if not made.schedule.cuda:
        atomics = {"atomic_add": _add, "atomic_min": _min}
        return load(made.source, **constants, **shared, **atomics)["kernel"]
    ids = {name: SimpleNamespace(x=0) for name in ("blockIdx", "threadIdx", "blockDim", "gridDim")}
    local = SimpleNamespace(array=lambda size, dtype: np.empty(size, dtype))
    grid = {"grid": lambda _: ids["blockIdx"].x * ids["blockDim"].x + ids["threadIdx"].x}
    grid |= {"gridsize": lambda _: ids["gridDim"].x * ids["blockDim"].x}
    names = SimpleNamespace(**ids, **grid, atomic=SimpleNamespace(add=_add, min=_min), local=local)
    rows = dict.fromkeys(("row_add", "row_min", "row_or"), lambda value, width: value)
    rows |= {"segment_add": lambda array, at, row, value, count: _add(array, at, value)}
    found = load_integers(made.source, wide, **constants, **shared, cuda=names, **rows)
    lanes = made.lanes if any(onto == "lane" for _, onto, _ in made.schedule.tags) else 1

    class Launch:
        def __init__(self, function: Any) -> None:
            self.function = function

        def __getitem__(self, size: tuple[int, int]) -> Any:
            def launch(*arguments: Any) -> None:
                ids["gridDim"].x, ids["blockDim"].x = min(size[0], 3), size[1] // lanes
                for ids["blockIdx"].x in range(min(size[0], 3)):
                    for ids["threadIdx"].x in range(size[1] // lanes):
                        self.function(*arguments)

            return launch

    return {name: Launch(found[name]) for name in ("kernel", "starts") if name in found}


def _add(array: np.ndarray, at: Any, value: Any) -> None:
    array[at] += value


def _min(array: np.ndarray, at: Any, value: Any) -> None:
    array[at] = min(array[at], value)
