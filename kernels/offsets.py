"""Counts to offsets."""

from __future__ import annotations

from .jit import njit


@njit
def fill_ends(counts, begin, out):
    """Where each group ends, the first of which begins at `begin`: `counts` int[groups] -> `out` int64[groups]."""
    for k in range(len(counts)):
        begin += counts[k]
        out[k] = begin
