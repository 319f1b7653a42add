"""The greedy cover of `progressions` for few departures, one body for a CPU and for a thread of a GPU.

What is not covered yet are bits of a word, a progression is followed by a walk along the terms, and nothing is
allocated: candidates are counted anew each time, which is soon done where there are few. A progression begins at a term
that none before it covered, so each is kept at the place of its first term, which sorts them too.
"""

from __future__ import annotations

import numpy as np

from .jit import njit

FEW = 62  # bits of a word without its sign


@njit
def cover_few(terms, first, n, end, step):
    """Cover the sorted, distinct `terms` int32[first : first + n], with `n` from 1 to `FEW`.

    Of the progression that starts at term k, `end[k]` and `step[k]` (int32); `step[k]` is 0 where none does.
    """
    for k in range(first, first + n):
        step[k] = 0
    open_ = (np.int64(1) << n) - np.int64(1)  # bit k: `terms[first + k]`
    last = terms[first + n - 1]
    while True:
        best, which, by = 2, 0, 0
        for i in range(n - 2):
            for j in range(i + 1, n - 1):
                d = terms[first + j] - terms[first + i]
                if terms[first + i] + best * d > last:
                    break  # no room for more terms than the best has
                count = ((open_ >> i) & 1) + ((open_ >> j) & 1)
                t = terms[first + j] + d
                for k in range(j + 1, n):
                    if terms[first + k] == t:
                        count += (open_ >> k) & 1
                        t += d
                    elif terms[first + k] > t:
                        break
                if count > best:
                    best, which, by = count, i, d
        if best == 2:
            break
        begin = first - 1
        t = terms[first + which]
        for k in range(which, n):
            if terms[first + k] == t:
                if (open_ >> k) & 1:
                    open_ -= np.int64(1) << k
                    if begin < first:
                        begin = first + k
                        step[begin] = by
                    end[begin] = t
                t += by
            elif terms[first + k] > t:
                break
    waiting = first - 1
    for k in range(first, first + n):
        if (open_ >> (k - first)) & 1:
            if waiting < first:
                waiting = k
                end[k], step[k] = terms[k], 1
            else:
                end[waiting], step[waiting] = terms[k], terms[k] - terms[waiting]
                waiting = first - 1
