"""Device functions of the levels of CT / CL / AP: what each level answers about its positions."""

from __future__ import annotations

import numpy as np

from .jit import njit

NEVER = np.int32(2**31 - 1)


@njit
def seek(keys, first, last, key):
    """First position in [first, last) whose key is at or after `key`, else `last`; keys ascend."""
    while first < last:
        middle = (first + last) >> 1
        if keys[middle] < key:
            first = middle + 1
        else:
            last = middle
    return first


@njit
def first_term(start, end, step, first, last, earliest):
    """Least term at or after `earliest` of the progressions [first, last), sorted by start; or `NEVER`.

    The paper's getConnectionFromAPs (Algorithm 6).
    """
    best = NEVER
    for p in range(first, last):
        if start[p] >= earliest:
            return min(best, start[p])
        if end[p] >= earliest:
            late = np.uint32(earliest - start[p])
            d = np.uint32(step[p])
            term = np.int32(start[p] + (late + d - np.uint32(1)) // d * d)
            best = min(best, term)
    return best


@njit
def useful_departure(width, type_cluster, cluster_number, cluster_first, start, end, step, kind, earliest):
    """First departure of connection type `kind` at or after `earliest`, or `NEVER`: the paper's Cluster-ap.

    The arrays are those of `ClusterAp`. In the cluster of `earliest` the least term; none there: the start of the
    next progression of this type.
    """
    after = type_cluster[kind + 1]
    k = earliest // width
    c = seek(cluster_number, type_cluster[kind], after, k)
    if c < after and cluster_number[c] == k:
        term = first_term(start, end, step, cluster_first[c], cluster_first[c + 1], earliest)
        if term != NEVER:
            return term
        c += 1
    return start[cluster_first[c]] if c < after else NEVER
