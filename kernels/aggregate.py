"""Aggregation over a window of a graph that changes with time, and its gradients.

    H[v] = sum over u -> v of w[u -> v] * X[u]      reads the edges that reach v
    dX[u] = sum over u -> v of w[u -> v] * dH[v]    the same over the edges that leave u
    dw[u -> v] = dH[v] . X[u]                       one value an edge, at its id

A weight belongs to an edge id, so that the same array serves every window. No atomics: a row is summed in the order in
which it lies, a longer one in parts (`neighbours.LONGEST`), so that results are the same bit for bit, however many
threads there are.

Source: "DT-CSR: Dynamic Time CSR"; sampled products (SDDMM) as in "A Sparse Iteration Space Transformation Framework".
"""

from __future__ import annotations

from functools import cache
from typing import Any

from .neighbours import PARTS, PLAIN, Neighbours
from .space.begin import schedule
from .space.kernel import kernel
from .space.relations import shuffle
from .space.schedule import Schedule
from .space.tensors import DCSR, Format, Tensor

FEW = 2**20  # products that one thread computes sooner than several begin
TOGETHER = 8  # edges that a row of the output is loaded and stored once for
LANES, AT_ONCE = 8, 8  # lanes of a GPU for a scalar product, products of a block at once


def aggregate(
    edges: Neighbours, features: Any, weights: Any = None, out: Any = None, threads: int | None = None
) -> Any:
    """For each row the sum of its neighbours' `features` [N, F], times `weights` [M] by edge id: [N, F].

    Where the features lie, host or device; `out` is overwritten. Rows without edges are 0.
    """
    given = edges.filters | ({} if weights is None else {"w": weights})
    if edges.size * features.shape[1] < FEW:
        threads = 1
    out = _sums(edges, edges.head_ids if given else edges.head, features, given, out, threads)
    if not edges.whole:
        partial = _sums(edges, edges.tail_ids if given else edges.tail, features, given, None, threads)
        kernel(adding(_columns(edges, features)))(out=out, threads=threads, Q=edges.tails, P=partial)
    return out


def degrees(edges: Neighbours, threads: int | None = None) -> Any:
    """How many edges of each row count, int64[N]; differences of offsets where all do."""
    if not edges.filtered:
        return edges.high - edges.low
    return _counts(edges, False, threads)


def self_loops(edges: Neighbours, threads: int | None = None) -> Any:
    """How many edges that count lead from a node to itself, int64[N]."""
    return _counts(edges, True, threads)


def sampled(edges: Neighbours, rows: Any, columns: Any, out: Any = None, threads: int | None = None) -> Any:
    """For each edge that counts, at its id, the scalar product of what `rows` has for its row and `columns` for its
    neighbour, [N, F] both; 0 for all others: [M]. The ids must be places, as those of `outgoing` are.
    """
    if edges.ids is not None:
        raise ValueError("sampled products are stored by place: take the side whose places are the edges' ids")
    if edges.size * rows.shape[1] < FEW:
        threads = 1
    if out is not None:
        out = Tensor(PARTS, edges.parts.shape, edges.parts.arrays, out, checked=False)
    made = kernel(sampling(tuple(edges.filters), _columns(edges, rows)))
    return made(out=out, threads=threads, B=edges.parts, Y=rows, X=columns, **edges.filters).values


def _counts(edges: Neighbours, loops: bool, threads: int | None) -> Any:
    made = counting(edges.all_ids.format, tuple(edges.filters), loops, edges.cuda)
    return kernel(made)(threads=1 if edges.size < FEW else threads, A=edges.all_ids, **edges.filters)


def _sums(
    edges: Neighbours, tensor: Tensor, features: Any, given: dict[str, Any], out: Any, threads: int | None
) -> Any:
    made = summing(tensor.format, tuple(given), _columns(edges, features))
    return kernel(made)(out=out, threads=threads, A=tensor, X=features, **given)


def _columns(edges: Neighbours, features: Any) -> int:
    """What schedules are made for: so many columns on a GPU, or a CPU (0)."""
    return features.shape[1] if edges.cuda else 0


def _where(entries: str, given: tuple[str, ...]) -> str:
    conditions = {"next": "next[e] > now", "end": "end[e] > since"}
    return " and ".join([entries, *(text for name, text in conditions.items() if name in given)])


@cache
def summing(form: Format, given: tuple[str, ...], columns: int) -> Schedule:
    """Sums of rows; `given` names the operands beside the features. For CUDA with so many columns, or the CPU (0)."""
    weight, entries = "w[e] * " if "w" in given else "", "A[v, u]" if form == PLAIN else "A[v, u, e]"
    made = schedule(f"H[v, k] = {weight}X[u, k] where {_where(entries, given)}", A=form)
    if form != PLAIN:
        made = made.fuse("u", "e", "u_e")
    return _rows(made.pos(made.loops[1], "p", "A"), "v", columns)


@cache
def adding(columns: int) -> Schedule:
    """What the parts of long rows come to; for CUDA with so many columns, or the CPU (0)."""
    made = schedule("H[v, k] += P[s, k] where Q[v, s]", Q=DCSR).pos("v", "r", "Q")
    return _rows(made.pos("s", "p", "Q"), "r", columns)


def _rows(made: Schedule, row: str, columns: int) -> Schedule:
    """Sums over positions `p` of rows, their columns `k` innermost: several edges at a time."""
    if not columns:
        made = made.split("p", "p0", "p1", TOGETHER).split(row, "block", "one", 64)
        return made.unroll("p1").parallelize("block", "threads")
    wide = max(1, min(8, columns // 32))  # columns of a lane, whose loads are under way together with some edges'
    made = made.split("p", "p0", "p1", 2 if wide == 8 else 4)
    if columns < 32:  # a thread for each entry
        made = made.reorder(row, "k", "p0", "p1").fuse(row, "k", "entry").split("entry", "block", "one", 256)
        return made.unroll("p1").parallelize("block", "block").parallelize("one", "thread")
    made = made.split(row, "block", "one", 4)  # a warp for each row, its lanes take columns
    if columns < 64:
        made, lane = made.reorder("block", "one", "k", "p0", "p1"), "k"
    else:
        made = made.split("k", "tile", "within", 32 * wide).split("within", "column", "of_lane", 32)
        made, lane = made.reorder("block", "one", "tile", "of_lane", "column", "p0", "p1").unroll("column"), "of_lane"
    return made.unroll("p1").parallelize("block", "block").parallelize("one", "warp").parallelize(lane, "lane")


@cache
def counting(form: Format, given: tuple[str, ...], loops: bool, cuda: bool) -> Schedule:
    """How many edges of each row count; `loops`: of those to itself."""
    made = schedule(f"d[v] = 1 where {_where('A[v, u, e]', given)}{' and u == v' if loops else ''}", A=form)
    made = made.fuse("u", "e", "u_e").pos("u_e", "p", "A").split("v", "block", "one", 8 if cuda else 256)
    if not cuda:
        return made.parallelize("block", "threads")
    return made.parallelize("block", "block").parallelize("one", "warp").parallelize("p", "lane", shuffle(32))


@cache
def sampling(given: tuple[str, ...], columns: int) -> Schedule:
    """Scalar products at the edges of parts `s` of rows. For CUDA with so many columns, or the CPU (0)."""
    made = schedule(f"D[s, u, v, e] = Y[u, k] * X[v, k] where {_where('B[s, u, v, e]', given)}", pattern="B", B=PARTS)
    made = made.fuse("v", "e", "v_e").pos("v_e", "p", "B")
    if not columns:
        made = made.split("s", "block", "one", 16)
        return made.parallelize("block", "threads").parallelize("k", "vector", "private")
    # A block for each part; several lanes for an edge, so that sums need few steps and many loads are under way.
    made = made.split("p", "p0", "p1", AT_ONCE).split("k", "tile", "within", LANES * max(1, min(8, columns // LANES)))
    made = made.split("within", "column", "of_lane", LANES).reorder("of_lane", "tile", "column").unroll("column")
    made = made.parallelize("s", "block").parallelize("p1", "warp")
    return made.parallelize("of_lane", "lane", shuffle(LANES))
