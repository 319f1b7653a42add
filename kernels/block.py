"""What the threads of a block share: where it lies, how large it is, and the words that they agree by."""

from __future__ import annotations

from dataclasses import dataclass

from numba import uint32

QUEUE = 704  # vertices of a round; what doesn't fit waits for the next
NOBODY = uint32(0xFFFFFFFF)
EPOCH = 0xFFFE  # seconds of an epoch

# Words of shared memory for what a block agrees on; registers are scarce.
CONTROL = 16
WORK = 0  # the chain at work
COUNT = 1  # three counters of queued vertices: in a round one is read, one filled, one reset
LEFT = 4  # beside each, the earliest label that is left in the far set
BEYOND = 7  # whether an arrival does not fit into the labels of this epoch
AIM = 8  # the earliest arrival at a target
BASE = 9  # labels are seconds after this one
EPOCHS = 10
LIMIT = 11  # later arrivals are of no interest
SETTLED = 12  # labels before this one are final
OPEN = 13  # labels before this one are in the open bucket
ADVANCED = 14  # whether the last round opened a bucket
QUERY = 15


@dataclass(frozen=True)
class Shape:
    """What a kernel is compiled for: labels of 16 bits, profile words of 64, footpaths, the kind of answer."""

    narrow: bool
    wide: bool
    walking: bool
    answer: str


def set_words(vertices: int) -> int:
    """Words of a set of vertices."""
    return (vertices + 31) // 32


def shared_bytes(narrow: bool, vertices: int, threads: int) -> int:
    """Shared memory that a block needs."""
    return 4 * (CONTROL + 2 * QUEUE + 4 * threads + ((vertices + 1) // 2 + 2 * set_words(vertices) if narrow else 0))


def scratch_words(narrow: bool, vertices: int) -> int:
    """Device memory that a block needs, in words of 4 bytes."""
    return vertices + (0 if narrow else 2 * set_words(vertices))
