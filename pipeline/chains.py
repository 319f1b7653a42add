"""In what order a GPU takes the queries of a batch, and which of them it takes together."""

from __future__ import annotations

import numpy as np

GAP = 300  # seconds between neighbours in a chain: from further apart, little of what was found helps
SPAN = 3600  # seconds of a whole chain, and so how far it may reach out of its place in time


def chains(origin: np.ndarray, departure: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Order of work int64[queries] and where each chain begins in it, uint32[chains + 1].

    `origin` and `departure` int32[queries]. A chain's queries leave one origin shortly after one another, the
    latest first; chains follow one another in time, so that those at work together read the same slots.
    """
    order = np.lexsort((-departure.astype(np.int64), origin))
    place, second = origin[order], departure[order]
    new = np.ones(len(order), bool)
    new[1:] = (place[1:] != place[:-1]) | (second[:-1] - second[1:] > GAP)
    head = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    stretch = (second[head] - second) // SPAN
    new[1:] |= stretch[1:] != stretch[:-1]
    first = np.flatnonzero(new)
    length = np.diff(np.append(first, len(order)))
    by_time = np.argsort(second[first + length - 1], kind="stable")
    first, length = first[by_time], length[by_time]
    begin = np.concatenate([[0], np.cumsum(length)])
    inside = np.arange(len(order)) - np.repeat(begin[:-1], length)
    return order[np.repeat(first, length) + inside], begin.astype(np.uint32)
