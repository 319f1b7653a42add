"""The fewest arithmetic progressions that cover some departures exactly, by trying everything."""

from __future__ import annotations

from collections.abc import Sequence


def minimum(terms: Sequence[int]) -> int:
    """The least number of progressions whose terms together are the sorted, distinct `terms`; they may overlap.

    A part of a progression covers no more than the whole, so only progressions that can't be made longer are
    tried, and single terms. For a dozen terms.
    """
    sets = progressions(terms)
    everything = (1 << len(terms)) - 1
    count = 1
    while not can_cover(everything, count, sets):
        count += 1
    return count


def can_cover(left: int, count: int, sets: list[list[int]]) -> bool:
    """Whether so many progressions cover the terms whose bits are set in `left`."""
    if left == 0:
        return True
    if count == 0:
        return False
    first = (left & -left).bit_length() - 1  # something must cover it
    return any(can_cover(left & ~one, count - 1, sets) for one in sets[first])


def progressions(terms: Sequence[int]) -> list[list[int]]:
    """For each term the longest progressions that it is in, as bits of the terms; large ones first."""
    place = {term: k for k, term in enumerate(terms)}
    found = {1 << k for k in range(len(terms))}
    for i, a in enumerate(terms):
        for b in terms[i + 1 :]:
            step = b - a
            if a - step not in place:
                found.add(sum(1 << place[t] for t in run(a, step, place)))
    ordered = sorted(found, key=lambda one: (-one.bit_count(), one))
    return [[one for one in ordered if one >> k & 1] for k in range(len(terms))]


def run(first: int, step: int, present: dict[int, int]) -> list[int]:
    """The terms first, first + step, ... as long as all are present."""
    out = []
    while first in present:
        out.append(first)
        first += step
    return out
