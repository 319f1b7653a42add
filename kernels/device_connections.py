"""Trips to connections on a GPU: a thread a trip."""

from __future__ import annotations

from numba import cuda, int64

from .connections import fill as fill_trips
from .warp import device, jit

_fill = device(fill_trips.py_func)


@jit
def fill(
    offset, vertex, arrival, departure, flags, run_offset, shift, horizon, piece, begin, count, tail, head, leave,
    lasts, run,
):  # fmt: skip
    """Write the connections of trip t from `begin[t]` to `begin[t + 1]`; how many there are goes to `count[t]`.

    Where these are equal it only counts. `begin` int64[trips + 1], `count` int64[trips]; all else is as in
    `connections.fill`.
    """
    trip = int64(cuda.grid(1))
    if trip < len(piece):
        a, b = begin[trip], begin[trip + 1]
        out = (tail[a:b], head[a:b], leave[a:b], lasts[a:b], run[a:b])
        some = (trip, trip + 1)
        count[trip] = _fill(
            some, offset, vertex, arrival, departure, flags, run_offset, shift, horizon, piece, out
        )  # fmt: skip
