"""CUDA schedules with small operands: `test_cuda_text.py` compiles them, the simulator and devices run them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from headway.kernels.space import COO, CSC, CSR, DCSR, Schedule, Tensor, csf_format, schedule, shuffle

RNG = np.random.default_rng(3)
MATRIX = (RNG.random((40, 30)) < 0.12) * RNG.integers(1, 9, (40, 30)).astype(float)
MATRIX[:3] = MATRIX[-2:] = 0
MATRIX[7] = 1
CUBE = (RNG.random((9, 8, 7)) < 0.2) * RNG.integers(1, 9, (9, 8, 7)).astype(float)


def fused(made: Schedule, *inside: str) -> Schedule:
    """Positions `p` of all loops but `inside`."""
    loops = [loop for loop in made.loops if loop not in inside]
    last = loops[-1]
    for number, loop in enumerate(reversed(loops[:-1])):
        made, last = made.fuse(loop, last, f"f{number}"), f"f{number}"
    return made.pos(last, "p", "A")


def blocks(made: Schedule, size: int, each: int, *inside: str) -> Schedule:
    """Blocks of nonzeros of all levels of A, `each` to what comes next."""
    made = fused(made, *inside).split("p", "b", "q", size).split("q", "part", "one", each)
    return made.reorder("b", "part", *inside, "one").parallelize("b", "block", "atomic")


def rows(made: Schedule, size: int, *inside: str) -> Schedule:
    """Blocks of rows, the other loops in this order."""
    return made.split("i", "b", "r", size).reorder("b", "r", *inside).parallelize("b", "block")


SPMV, SPMM, SDDMM = (
    "y[i] = A[i, j] * x[j]",
    "C[i, k] = A[i, j] * B[j, k]",
    "D[i, j] = A[i, j] * U[i, k] * V[k, j]",
)


def schedules() -> Iterator[tuple[str, Schedule]]:
    """Each way to lay work on a GPU."""
    v = schedule(SPMV, A=CSR)
    yield "row a thread", rows(v, 16).parallelize("r", "thread")
    for lanes in (4, 32):
        yield f"row to {lanes} lanes", rows(v, 4).parallelize("r", "warp").parallelize("j", "lane", shuffle(lanes))
    for name, form in {"csr": CSR, "coo": COO, "dcsr": DCSR, "csc": CSC}.items():
        s = schedule(SPMV, A=form)
        yield f"blocks, {name}", blocks(s, 32, 4).parallelize("part", "thread", "atomic")
    for name, form in {"csr": CSR, "coo": COO, "dcsr": DCSR}.items():
        s = schedule(SPMV, A=form)
        yield (
            f"segments, {name}",
            fused(s)
            .split("p", "b", "q", 128)
            .split("q", "part", "rest", 64)
            .split("rest", "step", "one", 32)
            .parallelize("b", "block", "atomic")
            .parallelize("part", "warp", "atomic")
            .parallelize("one", "lane", "segments"),
        )
    for name, form in {"csr": CSR, "dcsr": DCSR}.items():
        s = fused(schedule(SPMV, A=form)).split("p", "b", "q", 32)
        yield f"staged, {name}", s.parallelize("b", "block", "atomic").parallelize("q", "thread", "staged")
        s = fused(schedule(SPMV, A=form)).split("p", "b", "q", 64).split("q", "k", "t", 32)
        s = s.reorder("b", "t", "k").unroll("k").parallelize("b", "block", "atomic")
        yield f"staged by 32 threads, {name}", s.parallelize("t", "thread", "staged")
    yield (
        "nonzero a thread",
        v.fuse("i", "j", "f")
        .pos("f", "p", "A")
        .split("p", "b", "t", 32)
        .parallelize("b", "block", "atomic")
        .parallelize("t", "thread", "atomic"),
    )
    m = schedule(SPMM, A=CSR)
    s = fused(m.bound("k", 5).split("k", "c", "l", 2), "c", "l").split("p", "b", "q", 32).split("q", "part", "one", 8)
    s = s.reorder("b", "part", "l", "c", "one").parallelize("b", "block", "atomic")
    yield (
        "columns over lanes, several each, rows of a block",
        s.unroll("c").unroll("one", 3).parallelize("part", "warp", "atomic").parallelize("l", "lane"),
    )
    yield (
        "columns over lanes",
        rows(m, 4, "k", "j").parallelize("r", "warp").parallelize("k", "lane"),
    )
    yield (
        "columns over lanes, written out",
        rows(m.pos("j", "q", "A").split("q", "q0", "q1", 4), 4, "k", "q0", "q1")
        .parallelize("r", "warp")
        .parallelize("k", "lane")
        .unroll("q1"),
    )
    yield "blocks, columns", blocks(m, 32, 8, "k").parallelize("part", "warp", "atomic").parallelize("k", "lane")
    d = schedule(SDDMM, pattern="A", A=CSR)
    yield (
        "sampled",
        blocks(d, 32, 8, "k").reorder("one", "k").parallelize("part", "warp").parallelize("k", "lane", shuffle(8)),
    )
    t = schedule("Y[i, r] = A[i, j, k] * B[j, r] * C[k, r]", A=csf_format(3))
    yield "mttkrp", blocks(t, 32, 8, "r").parallelize("part", "warp", "atomic").parallelize("r", "lane")
    yield (
        "mttkrp, precomputed",
        t.bound("r", 4)
        .precompute("A[i, j, k] * C[k, r]", "r", "w")
        .pos("i", "p", "A")
        .split("p", "b", "t", 2)
        .parallelize("b", "block")
        .parallelize("t", "thread"),
    )
    m = schedule("Y[i, j, r] = A[i, j, k] * C[k, r]", pattern="A", A=csf_format(3))
    yield (
        "ttm",
        m.fuse("i", "j", "f")
        .pos("f", "p", "A")
        .split("p", "b", "part", 8)
        .reorder("b", "part", "r", "k")
        .parallelize("b", "block")
        .parallelize("part", "warp")
        .parallelize("r", "lane"),
    )


def operands(made: Schedule) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Whole numbers, and the shape of the output."""
    cube = len(made.access("A").indices) == 3
    array = CUBE if cube else MATRIX
    sizes = dict(zip("ijk", array.shape, strict=False)) | {"r": 4}
    sizes.setdefault("k", 5)
    given: dict[str, Any] = {}
    for access in made.read():
        shape = tuple(sizes[index] for index in access.indices)
        given[access.tensor] = np.arange(1.0, np.prod(shape) + 1).reshape(shape) % 7
    at = np.nonzero(array)
    given["A"] = Tensor.from_coordinates(at, array[at], array.shape, made.formats["A"])
    return given, tuple(sizes[index] for index in made.statement.output.indices)
