"""The greedy cover of `progressions` on a GPU: a thread for a cluster of few departures, a block for one of many.

The rule is that of the CPU. Candidates are counted anew in each round; which of those that cover most is the first
does not depend on who counts.
"""

from __future__ import annotations

from numba import cuda, int64, uint32

from . import warp
from .few import cover_few
from .levels import seek
from .progressions import ALL_CANDIDATES
from .warp import device, jit

FEW = 24  # departures that a thread covers, `few.FEW` at most
THREADS = 4 if warp.SIMULATED else 128  # of a block for many
SHIFT = 5
WORD = 2**SHIFT  # bits
ORDER = 40  # bits for where a candidate stands among all, below its count
LATEST = 2**ORDER - 1

_cover_few = device(cover_few.py_func)
_seek = device(seek.py_func)


def shared_bytes(width: int) -> int:
    """Shared memory of a block of `many`: two bits for each second of a cluster."""
    return 2 * 4 * _words(width)


def _words(width):
    return (width + WORD - 1) // WORD


_device_words = device(_words)


@jit
def few(which, begin, departure, end, step):
    """Cover the clusters `which` int64[...], of `FEW` departures at most, a thread each.

    Cluster c is `departure[begin[c] : begin[c + 1]]` (int32, int64[clusters + 1]), distinct and sorted. Of the
    progression that starts with departure k, `end[k]` and `step[k]` (int32); `step[k]` is 0 where none does.
    """
    k = int64(cuda.grid(1))
    if k < len(which):
        c = which[k]
        _cover_few(departure, begin[c], begin[c + 1] - begin[c], end, step)


@jit
def many(which, begin, departure, width, end, step):
    """The same for clusters of any number of departures, a block each, with `shared_bytes(width)`."""
    bits = cuda.shared.array(0, uint32)  # whether there is a departure at each second, and whether it is not covered
    told = cuda.shared.array(1, int64)
    me, threads = int64(cuda.threadIdx.x), int64(cuda.blockDim.x)
    c = which[cuda.blockIdx.x]
    first, after = begin[c], begin[c + 1]
    base = int64(departure[first] // width * width)
    last = departure[after - 1] - base
    for w in range(me, 2 * _device_words(width), threads):
        bits[w] = 0
    cuda.syncthreads()
    opened = int64(WORD * _device_words(width))
    for k in range(first + me, after, threads):
        t = departure[k] - base
        cuda.atomic.or_(bits, t >> SHIFT, uint32(uint32(1) << uint32(t & (WORD - 1))))
        cuda.atomic.or_(bits, (opened + t) >> SHIFT, uint32(uint32(1) << uint32(t & (WORD - 1))))
        step[k] = 0
    cuda.syncthreads()
    cluster = (first, after, base, last, opened)
    if after - first <= ALL_CANDIDATES:
        row, column, columns = me // warp.WIDTH, me % warp.WIDTH, int64(warp.WIDTH)
        rows = (first + row, after, threads // warp.WIDTH)
        while _cover_most(rows, column, columns, cluster, departure, bits, told, end, step):
            pass
    else:
        for i in range(first, after):
            if _bit(bits, opened + departure[i] - base):
                _cover_most((i, i + 1, int64(1)), me, threads, cluster, departure, bits, told, end, step)
    if me == 0:
        _pairs(cluster, departure, bits, end, step)


@device
def _bit(bits, t):
    return (int64(bits[t >> SHIFT]) >> (t & (WORD - 1))) & int64(1)


@device
def _cover_most(rows, column, columns, cluster, departure, bits, told, end, step):
    """Cover by the progression of most open departures, three and more; whether there is one.

    All threads of the block together. As first terms this one tries its `rows` (first, below, every), and as second
    every `columns`-th of those that follow, from `column` on.
    """
    if cuda.threadIdx.x == 0:
        told[0] = 0
    cuda.syncthreads()
    first, after, base, last, opened = cluster
    n = after - first
    best, mine = int64(2), int64(0)
    for i in range(rows[0], rows[1], rows[2]):
        start = departure[i] - base
        for j in range(i + 1 + column, after, columns):
            d = departure[j] - base - start
            if start + best * d > last:
                break  # no room for more terms than the best has
            count = int64(0)
            t = start
            while t <= last and _bit(bits, t):
                count += _bit(bits, opened + t)
                t += d
            if count > best:  # the first of equals, as rows and columns ascend
                best = count
                mine = (count << ORDER) | (LATEST - ((i - first) * n + (j - first)))
    if mine:
        cuda.atomic.max(told, 0, mine)
    cuda.syncthreads()
    found = told[0]
    if found and cuda.threadIdx.x == 0:
        order = LATEST - (found & LATEST)
        one, other = departure[first + order // n] - base, departure[first + order % n] - base
        _take(one, other - one, cluster, departure, bits, end, step)
    cuda.syncthreads()
    return found != 0


@device
def _take(t, d, cluster, departure, bits, end, step):
    """Cover by the progression by `d` from `t` on, without the covered departures at its ends."""
    first, after, base, last, opened = cluster
    at = int64(-1)
    while t <= last and _bit(bits, t):
        if _bit(bits, opened + t):
            bits[(opened + t) >> SHIFT] -= uint32(uint32(1) << uint32(t & (WORD - 1)))
            if at < 0:
                at = _seek(departure, first, after, base + t)
                step[at] = d
            end[at] = base + t
        t += d


@device
def _pairs(cluster, departure, bits, end, step):
    """Neighbours among what is left, two and two."""
    first, after, base, _, opened = cluster
    waiting = int64(-1)
    for k in range(first, after):
        t = departure[k]
        if _bit(bits, opened + t - base):
            if waiting < 0:
                waiting = k
                end[k], step[k] = t, 1
            else:
                end[waiting], step[waiting] = t, t - departure[waiting]
                waiting = int64(-1)
