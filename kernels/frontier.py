"""The frontier of a search by a block of threads: labels that fall, the near and the far set, queues of two rounds.

Sets are bits in one array, near ones in its first `words`, far ones in as many that follow. A queue holds what is in
the near set and was not taken yet; the round at work reads one of two and fills the other. `turn` (0 to 5) tells
which, and which of three counters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from numba import cuda, int32, uint32, uint64

from . import block, device_labels, warp
from .block import BASE, BEYOND, COUNT, EPOCH, EPOCHS, LEFT, LIMIT, NOBODY, OPEN, SETTLED
from .device_labels import NEVER
from .warp import WIDTH, device


class Frontier(NamedTuple):
    """Device functions."""

    second_of: Callable
    may_lower: Callable
    relax: Callable
    push: Callable
    put: Callable
    next_counter: Callable
    refill: Callable
    advance: Callable
    clear: Callable
    next_epoch: Callable


def make(narrow: bool) -> Frontier:
    """Functions for labels in shared memory (`narrow`) or in device memory."""
    unknown, get, lower, load = device_labels.make(narrow)
    queue = block.QUEUE

    @device
    def kept(vertices, v):
        """Where in device memory the label of an earlier epoch is."""
        return uint64(uint64(cuda.blockIdx.x) * uint64(vertices) + uint64(v))

    @device
    def second_of(labels, scratch, vertices, control, v):
        """A label as a second of the store's clock, or `NEVER`."""
        label = get(labels, v)
        if label == unknown:
            return int32(NEVER)
        if narrow and label == 0 and control[EPOCHS]:
            return int32(scratch[kept(vertices, v)])
        return int32(int32(control[BASE]) + label)

    @device
    def may_lower(labels, control, v, second):
        """Whether an arrival at v at that second, or later, can be an improvement, or one beyond this epoch."""
        label = get(labels, v)
        return second <= int32(control[LIMIT]) and (
            max(int32(second - int32(control[BASE])), int32(0)) < label or label == unknown
        )

    @device
    def relax(labels, sets, words, control, v, reached):
        """A vertex is reached at a second: lower its label and put it into a set.

        Whether it must be queued: its bucket is open, and it was not in the near set.
        """
        if reached > int32(control[LIMIT]):
            return False
        label = int32(reached - int32(control[BASE]))
        if label >= unknown:
            control[BEYOND] = uint32(1)
            return False
        if not lower(labels, v, label):
            return False
        near = label < int32(control[OPEN])
        bit = uint32(uint32(1) << uint32(v & uint32(31)))
        w = uint32(uint32(v >> uint32(5)) + (uint32(0) if near else words))
        return uint32(cuda.atomic.or_(sets, w, bit) & bit) == uint32(0) and near

    @device
    def push(queues, control, turn, votes, fresh, v):
        """Queue for the next round the vertices of a warp's lanes that are `fresh`, as `votes` says.

        What finds no room stays in its set.
        """
        if votes:
            at = int32(0)
            if uint32(cuda.threadIdx.x % WIDTH) == uint32(0):
                at = int32(cuda.atomic.add(control, next_counter(turn), uint32(cuda.popc(votes))))
            at = uint32(warp.pick(at, 0) + warp.before(votes))
            if fresh and at < uint32(queue):
                queues[uint32(next_queue(turn) + at)] = v

    @device
    def put(queues, control, counter, begin, v):
        """Queue one vertex, in code that the lanes of a warp don't run together."""
        at = uint32(cuda.atomic.add(control, counter, uint32(1)))
        if at < uint32(queue):
            queues[uint32(begin + at)] = v

    @device
    def next_counter(turn):
        """Where a round counts what it queues; turns are 0 to 5, for three counters and two queues."""
        return uint32(uint32(COUNT) + uint32(turn + uint32(1)) % uint32(3))

    @device
    def next_queue(turn):
        return uint32(0) if turn & uint32(1) else uint32(queue)

    @device
    def refill(sets, queues, control, counter, begin, size, words):
        """Queue the near set, after more was pushed than a queue takes."""
        w = uint32(cuda.threadIdx.x)
        while w < words:
            bits = load(sets, w)
            while bits:
                put(queues, control, counter, begin, uint32((w << uint32(5)) + uint32(cuda.ffs(bits) - 1)))
                bits = uint32(bits & uint32(bits - uint32(1)))
            w = uint32(w + size)

    @device
    def advance(labels, sets, queues, control, turn, size, words):
        """Queue the vertices of the far set whose bucket has opened; LEFT becomes the earliest label of the others."""
        settled_until, open_until = int32(control[SETTLED]), int32(control[OPEN])
        least = int32(NEVER)
        counter, begin = next_counter(turn), next_queue(turn)
        w = uint32(cuda.threadIdx.x)
        while w < words:
            left = load(sets, uint32(words + w))
            if left:
                stay, near = left, uint32(0)
                while left:
                    b = uint32(cuda.ffs(left) - 1)
                    left = uint32(left & uint32(left - uint32(1)))
                    v = uint32((w << uint32(5)) + b)
                    label = get(labels, v)
                    if label >= open_until:
                        least = min(least, label)
                    else:
                        one = uint32(uint32(1) << b)
                        stay = uint32(stay ^ one)
                        if label >= settled_until:  # else it was lowered, and relaxed, within the last bucket
                            near = uint32(near | one)
                            put(queues, control, counter, begin, v)
                sets[uint32(words + w)] = stay
                if near:
                    sets[w] = near
            w = uint32(w + size)
        if least != NEVER:
            cuda.atomic.min(control, uint32(counter + uint32(LEFT - COUNT)), uint32(least))

    @device
    def clear(labels, sets, size, label_words, words):
        """No label, nobody waits."""
        i = uint32(cuda.threadIdx.x)
        while i < label_words:
            labels[i] = NOBODY if narrow else uint32(NEVER)
            i = uint32(i + size)
        i = uint32(cuda.threadIdx.x)
        while i < uint32(words + words):
            sets[i] = uint32(0)
            i = uint32(i + size)

    @device
    def next_epoch(labels, scratch, sets, control, size, label_words, words, vertices):
        """Keep what is settled as seconds, and let all of it wait to be relaxed again from a later base."""
        base, epochs = int32(control[BASE]), control[EPOCHS]
        w = uint32(cuda.threadIdx.x)
        while w < words:
            found = uint32(0)
            for b in range(32):
                v = uint32((w << uint32(5)) + uint32(b))
                if v < vertices:
                    label = get(labels, v)
                    if label != unknown:
                        if label or not epochs:
                            scratch[kept(vertices, v)] = uint32(base + label)
                        found = uint32(found | uint32(uint32(1) << uint32(b)))
            sets[w] = found
            sets[uint32(words + w)] = uint32(0)
            w = uint32(w + size)
        cuda.syncthreads()
        i = uint32(cuda.threadIdx.x)
        while i < label_words:
            pair = labels[i]
            low = uint32(0xFFFF) if uint32(pair & uint32(0xFFFF)) == uint32(0xFFFF) else uint32(0)
            high = uint32(0xFFFF0000) if uint32(pair >> uint32(16)) == uint32(0xFFFF) else uint32(0)
            labels[i] = uint32(low | high)
            i = uint32(i + size)
        if cuda.threadIdx.x == 0:
            control[BASE] = uint32(base + EPOCH)
            control[EPOCHS] = uint32(epochs + uint32(1))
            control[BEYOND] = uint32(0)
            control[SETTLED] = uint32(0)

    return Frontier(second_of, may_lower, relax, push, put, next_counter, refill, advance, clear, next_epoch)
