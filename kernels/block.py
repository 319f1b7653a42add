"""What the threads of a block share: where it lies, how large it is, and the words that they agree by."""

from __future__ import annotations

from dataclasses import dataclass

QUEUE = 1216  # vertices of a round and the next; more lie in device memory
EPOCH = 0xFFFE  # seconds of an epoch
GATHERED = 8  # words of a thread in which warps gather work: two edges with time and head, and a vertex
LISTS = 4  # two far lists, and of two rounds what the queue has no room for

# Words of shared memory for what a block agrees on; registers are scarce.
CONTROL = 18
COUNT = 0  # four counters of queued vertices: in a round one is read, one filled, one reset
FAR = 4  # entries of the two far lists
WORK = 6  # the chain at work
QUERY = 7
LEFT = 8  # the earliest label in the far list when the bucket opened
LOST = 9  # whether a list had no room
BEYOND = 10  # whether an arrival does not fit into the labels of this epoch
AIM = 11  # the earliest arrival at a target
BASE = 12  # labels are seconds after this one
EPOCHS = 13
LIMIT = 14  # later arrivals are of no interest
SETTLED = 15  # labels before this one are final
OPEN = 16  # labels before this one are in the open bucket
ADVANCED = 17  # whether the last round opened a bucket


@dataclass(frozen=True)
class Shape:
    """What a kernel is compiled for: labels of 16 bits, profile words of 64, footpaths, the kind of answer."""

    narrow: bool
    wide: bool
    walking: bool
    answer: str


def list_room(vertices: int) -> int:
    """Entries of a list: more than there are vertices, since some are out of date."""
    return vertices + vertices // 4 + 256


def gathered_words(threads: int) -> int:
    """Words in which the warps of a block gather a round's work."""
    return GATHERED * threads


def shared_bytes(narrow: bool, vertices: int, threads: int) -> int:
    """Shared memory that a block needs."""
    entries = QUEUE * (1 if narrow else 2)
    return 4 * (CONTROL + entries + gathered_words(threads) + ((vertices + 1) // 2 if narrow else 0))


def scratch_words(narrow: bool, vertices: int, room: int) -> int:
    """Device memory that a block needs, in words of 4 bytes, with lists of `room` entries."""
    return vertices + LISTS * room * (1 if narrow else 2)
