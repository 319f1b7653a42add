"""Every precondition of a transformation has an error that names the loop and the rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from headway.kernels.space import (
    COO,
    CSC,
    CSR,
    Compressed,
    Dense,
    Format,
    Progression,
    Schedule,
    ScheduleError,
    kernel,
    schedule,
    shuffle,
)

SPMV = schedule("y[i] = A[i, j] * x[j]", A=CSR)
SPMM = schedule("C[i, k] = A[i, j] * B[j, k]", A=CSR)
TWICE = schedule("y[i] = A[i, j] * B[i, j]", A=CSR, B=CSR)
BLOCKS = SPMV.fuse("i", "j", "f").pos("f", "p", "A").split("p", "b", "q", 8)
HOUR = Format((Dense(), Compressed(), Progression()), (0, 1, 2))
FIRST = schedule("a[u] min= t where S[u, c, t] and t >= e[u]", S=HOUR)
SUM = schedule("a[u] += t where S[u, c, t] and t >= e[u]", S=HOUR)
MTTKRP = schedule(
    "Y[i, r] = A[i, j, k] * B[j, r] * C[k, r]", A=Format((Dense(), Compressed(), Compressed()), (0, 1, 2))
)
REFUSED = {
    "split of i by 0: it must be at least 1": lambda: SPMV.split("i", "a", "b", 0),
    "divide of i by -1: it must be at least 1": lambda: SPMV.divide("i", "a", "b", -1),
    "split of z: the loops are i, j": lambda: SPMV.split("z", "a", "b", 2),
    "j is taken": lambda: SPMV.split("i", "j", "b", 2),
    "acc cannot be a name here: kernels use it": lambda: SPMV.split("i", "acc", "b", 2),
    "pA1 cannot be a name here: kernels use it": lambda: SPMV.split("i", "pA1", "b", 2),
    "p_begin cannot be a name here: kernels use it": lambda: SPMV.pos("j", "p_begin", "A"),
    "split of t: terms of a progression have no blocks; take pos first": lambda: FIRST.split("t", "a", "b", 2),
    "fuse of j and i: i is not directly inside j": lambda: SPMV.fuse("j", "i", "f"),
    "fuse of a and b: both come from i": lambda: SPMV.split("i", "a", "b", 2).fuse("a", "b", "f"),
    "fuse of b and j: through a compressed level only whole loops fuse, before any split": lambda: SPMV.split(
        "i", "a", "b", 2
    ).fuse("b", "j", "f"),
    "fuse of i and q: how far q goes changes with the loops outside it": lambda: SPMV.pos("j", "q", "A").fuse(
        "i", "q", "f"
    ),
    'f fuses compressed levels of A: pos("f", ..., "A") comes next': lambda: SPMV.fuse("i", "j", "f").split(
        "f", "a", "b", 2
    ),
    'g fuses compressed levels of A: pos("g", ..., "A") comes next': lambda: kernel(SPMV.fuse("i", "j", "g")),
    "pos of i: i is not compressed": lambda: SPMV.pos("i", "p", "A"),
    "pos of j: x is no sparse operand": lambda: SPMV.pos("j", "p", "x"),
    "pos of j: j is walked through A": lambda: TWICE.pos("j", "p", "B"),
    "pos of k: A has no levels k": lambda: SPMM.pos("k", "p", "A"),
    "pos of p: it runs over positions already": lambda: SPMV.pos("j", "p", "A").pos("p", "q", "A"),
    "pos of b: split positions instead, after pos": lambda: SPMV.split("j", "a", "b", 2).pos("b", "p", "A"),
    "coord of i: it does not come from pos directly": lambda: SPMV.coord("i", "z"),
    "coord of p: its coordinates are those of j, not i": lambda: SPMV.pos("j", "p", "A").coord("p", "i"),
    "reorder puts j outside i, but the level of j in A is reached through i": lambda: SPMV.reorder("j", "i"),
    "reorder puts p outside i, but the level of j in A is reached through i": lambda: SPMV.pos("j", "p", "A").reorder(
        "p", "i"
    ),
    "reorder puts b outside a, but the level of j in A is reached through a": lambda: SPMV.split(
        "j", "a", "b", 2
    ).reorder("b", "a"),
    "reorder of i, i: a loop is named twice": lambda: SPMV.reorder("i", "i"),
    "bound of j: only a dense index of the statement has a fixed extent": lambda: SPMV.bound("j", 3),
    "bound of i by -1: an extent is not negative": lambda: SPMV.bound("i", -1),
    "unroll of i: its extent is no constant (split or bound it, or say by how many)": lambda: SPMV.unroll("i"),
    "unroll of i by 1: it must be at least 2, and whole": lambda: SPMV.unroll("i", 1),
    "unroll of i by 2.0: it must be at least 2, and whole": lambda: SPMV.unroll("i", 2.0),  # type: ignore[arg-type]
    "unroll of i: it is unrolled already; unroll last": lambda: SPMV.unroll("i", 4).unroll("i", 2),
    "unroll of i: it runs on threads already; parallelize last": lambda: SPMV.parallelize("i", "threads").unroll(
        "i", 4
    ),
    "unroll of c: first takes its iterations in order": lambda: FIRST.first("c", "t").unroll("c", 2),
    "unroll of t: first takes its iterations in order": lambda: FIRST.first("c", "t").unroll("t"),
    "unroll of b: 65 copies are too many (at most 64, of all loops together)": lambda: SPMV.split(
        "i", "a", "b", 65
    ).unroll("b"),
    "unroll of k: 128 copies are too many (at most 64, of all loops together)": lambda: (
        SPMM.bound("k", 8).unroll("i", 16).unroll("k")
    ),
    "unroll of b: how much a level stores is no constant; unroll positions, after pos": lambda: SPMV.split(
        "j", "a", "b", 2
    ).unroll("b"),
    "parallelize of i: 'gpu' is none of threads, vector, block, warp, thread, lane": lambda: SPMV.parallelize(
        "i", "gpu"
    ),
    "parallelize of j: threads is for the outermost loop, i": lambda: SPMV.parallelize("j", "threads", "atomic"),
    "parallelize of i: a vector runs the innermost loop, j": lambda: SPMV.parallelize("i", "vector"),
    "parallelize of j: block and threads are of different machines": lambda: SPMV.parallelize(
        "i", "threads"
    ).parallelize("j", "block"),
    "parallelize of j: another loop runs on lane already": lambda: SPMM.parallelize("k", "lane").parallelize(
        "j", "lane"
    ),
    "parallelize of j: thread and lane are the same threads of a block": lambda: SPMM.parallelize(
        "k", "lane"
    ).parallelize("j", "thread", "atomic"),
    "parallelize of b: its iterations add to the same entries of y[i]; name a race strategy (carry, private, atomic)": (
        lambda: BLOCKS.parallelize("b", "threads")
    ),
    "parallelize of j: its iterations add to the same entries of y[i]; name a race strategy (private)": (
        lambda: SPMV.parallelize("j", "vector")
    ),
    "parallelize of b: shuffle is not for block (atomic)": lambda: BLOCKS.parallelize("b", "block", shuffle(4)),
    "parallelize of q: shuffle adds up lanes of one entry; the output follows q": lambda: BLOCKS.parallelize(
        "q", "lane", shuffle(4)
    ),
    "parallelize of u: d[v] is read, private copies would be empty": lambda: schedule(
        "d[v] min= d[u] + A[u, v]", A=CSR
    ).parallelize("u", "threads", "private"),
    "parallelize of q: segments is for the innermost loop, 32 positions of sorted rows": lambda: BLOCKS.parallelize(
        "q", "lane", "segments"
    ),
    "parallelize of r: segments is for the innermost loop, 32 positions of sorted rows": lambda: (
        schedule("y[i] = A[i, j] * x[j]", A=CSC)
        .fuse("j", "i", "f")
        .pos("f", "p", "A")
        .split("p", "b", "r", 32)
        .parallelize("r", "lane", "segments")
    ),
    "parallelize of q: segments is for sums without conditions, of one sparse tensor": lambda: (
        schedule("y[i] = A[i, j] where j < n", A=CSR)
        .fuse("i", "j", "f")
        .pos("f", "p", "A")
        .split("p", "b", "q", 32)
        .parallelize("q", "lane", "segments")
    ),
    "shuffle over k: loops of the output or of rows that end stand inside it": lambda: kernel(
        schedule("y[i] = A[i, j] * B[j, k]", A=CSR).reorder("k", "i", "j").parallelize("k", "lane", shuffle(8))
    ),
    "parallelize of q: staged is for the innermost loop, at most 4096 positions of sorted rows": lambda: (
        SPMM.fuse("i", "j", "f").pos("f", "p", "A").split("p", "b", "q", 8).parallelize("q", "thread", "staged")
    ),
    "staged q: the rows are those of the level above j, their block is a loop over blocks of p, and only A may depend "
    "on them": lambda: kernel(
        schedule("y[i] = A[i, j] * z[i]", A=CSR)
        .fuse("i", "j", "f")
        .pos("f", "p", "A")
        .split("p", "b", "q", 8)
        .parallelize("b", "block", "atomic")
        .parallelize("q", "thread", "staged")
    ),
    "shuffle(5): a row has 2, 4, 8, 16 or 32 lanes": lambda: shuffle(5),
    "split of i: it runs on threads already; parallelize last": lambda: SPMV.parallelize("i", "threads").split(
        "i", "a", "b", 2
    ),
    "reorder of i: it runs on threads already; parallelize last": lambda: SPMV.parallelize("i", "threads").reorder(
        "i", "j"
    ),
    "split of b: it is unrolled already; unroll last": lambda: (
        SPMV.split("i", "a", "b", 2).unroll("b").split("b", "c", "d", 2)
    ),
    "carry of b: the sum of a row must end inside the block; put the position loop innermost, with the rows of C[i, k] "
    "the leading levels": lambda: kernel(
        SPMM.fuse("i", "j", "f").pos("f", "p", "A").split("p", "b", "q", 8).parallelize("b", "threads", "carry")
    ),
    "carry of b: inside it only t > z, in this order, may walk A, and its rows must be the first indices of C[i, k]": (
        lambda: kernel(
            SPMM.fuse("i", "j", "f")
            .pos("f", "p", "A")
            .split("p", "b", "q", 8)
            .split("q", "t", "z", 2)
            .reorder("b", "t", "k", "z")
            .parallelize("b", "threads", "carry")
        )
    ),
    "parallelize of p: it walks positions; take pos, then split it": lambda: kernel(
        SPMV.fuse("i", "j", "f").pos("f", "p", "A").parallelize("p", "threads", "private")
    ),
    "first(c): these are not the innermost loops, in order": lambda: FIRST.first("c"),
    "first(t): only the sum of min-plus keeps the first alone": lambda: SUM.first("t"),
    "first(k): every loop must walk an ordered level": lambda: schedule(
        "a[i] min= A[i, j] + k where B[j, k]", A=CSR
    ).first("k"),
    "first(j): the expression must grow with j alone": lambda: schedule("a[i] min= A[i, j] + j", A=CSR).first("j"),
    "first of t: t > k is not the one condition t >= key": lambda: schedule(
        "a[u] min= t where S[u, c, t] and t > k", S=HOUR
    ).first("t"),
    "first of t: t >= k is not the one condition t >= key": lambda: schedule(
        "a[u] min= t where S[u, c, t] and t >= n and t >= k", S=HOUR
    ).first("t"),
    "reorder across first(c, t): what it finds depends on its order": lambda: FIRST.first("c", "t").reorder("c", "u"),
    "split of c: first takes its iterations in order": lambda: FIRST.first("c", "t").split("c", "a", "b", 2),
    "parallelize of t: first takes its iterations in order": lambda: FIRST.first("c", "t").parallelize(
        "t", "lane", shuffle(4)
    ),
    "precompute of A[i, j, k] * z[r]: it is no part of Y[i, r] = A[i, j, k] * B[j, r] * C[k, r]": (
        lambda: MTTKRP.precompute("A[i, j, k] * z[r]", "r", "w")
    ),
    "precompute of A[i, j, k] * B[j, r]: the innermost loops are not r and those that only it sums over": (
        lambda: MTTKRP.precompute("A[i, j, k] * B[j, r]", "r", "w")
    ),
    "split of r: it fills the workspace already; precompute after it": lambda: MTTKRP.precompute(
        "A[i, j, k] * C[k, r]", "r", "w"
    ).split("r", "a", "b", 2),
    "precompute over r on CUDA: bound(r) must say how large the workspace is": lambda: kernel(
        MTTKRP.precompute("A[i, j, k] * C[k, r]", "r", "w").parallelize("i", "block")
    ),
    "pattern x: it is no sparse operand": lambda: schedule("y[i, j] = A[i, j] * x[j]", pattern="x", A=CSR),
    "pattern A: y[j] does not follow its first levels": lambda: schedule("y[j] = A[i, j]", pattern="A", A=CSR),
    "pattern A: its level of i repeats coordinates": lambda: schedule("y[i] = A[i, j]", pattern="A", A=COO),
    "A is read with two sets of indices: pass it under two names": lambda: schedule("y[i] = A[i, j] * A[j, k]", A=CSR),
    "y[i] = A[i, j] + B[i, j] sums 2 products: schedule each of its terms": lambda: schedule(
        "y[i] = A[i, j] + B[i, j]", A=CSR, B=CSR
    ),
    "B cannot be searched for j: its level is not ordered and unique": lambda: kernel(
        schedule("y[i] = A[i, j] * B[j, i]", A=CSR, B=COO)
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message: str) -> None:
    make: Callable[[], Schedule] = REFUSED[message]
    with pytest.raises(ScheduleError) as error:
        make()
    assert message in str(error.value)


def test_each_step_is_new() -> None:
    before = SPMV.code
    assert SPMV.split("i", "a", "b", 2) != SPMV
    assert SPMV.code == before == 'schedule("y[i] = A[i, j] * x[j]", A=CSR)'


def test_code_makes_it_again() -> None:
    made = BLOCKS.parallelize("b", "threads", "carry")
    assert eval(made.code, {"schedule": schedule, "CSR": CSR}) == made
    lanes = SPMV.parallelize("j", "lane", shuffle(8))
    assert eval(lanes.code, {"schedule": schedule, "CSR": CSR, "shuffle": shuffle}) == lanes


def test_coord_undoes_pos() -> None:
    assert SPMV.pos("j", "p", "A").coord("p", "j").loops == ("i", "j")


def test_default_order_follows_the_levels() -> None:
    assert schedule("y[i] = A[i, j] * x[j]", A=CSC).loops == ("j", "i")


@pytest.mark.parametrize("size", [0, 2.5, True, 2**31])
def test_blocks_are_counted_in_31_bits(size: int) -> None:
    for step in (SPMV.split, SPMV.divide):
        with pytest.raises(ScheduleError, match="it must be at least 1, whole and below"):
            step("i", "a", "b", size)


def test_names_of_the_output_are_taken() -> None:
    for name in ("y", "y_val"):
        for step in (lambda n: SPMV.split("i", n, "b", 4), lambda n: SPMV.pos("j", n, "A")):
            with pytest.raises(ScheduleError, match=f"{name} is taken"):
                step(name)
    with pytest.raises(ScheduleError, match="it is no plain identifier"):
        SPMV.split("i", "ä", "b", 4)
    made = schedule("Y[i, k] = A[i, j] * B[j, k] * c[j, k]", A=CSR)
    with pytest.raises(ScheduleError, match="Y is taken"):
        made.precompute("A[i, j] * B[j, k]", "k", "Y")
