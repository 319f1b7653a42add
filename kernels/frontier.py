"""The frontier of a search by a block of threads: labels that fall, and the entries that wait to be relaxed.

Entries of the open time bucket are queued in a ring in shared memory: the round at work reads some and adds those of
the next; more than it holds go to a list in device memory. Later ones wait in a far list there, of which there are
two: when a bucket opens, one is read and what stays is written to the other, on the other `side`. Nothing is searched
for or taken out: an entry whose vertex was lowered since is passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from numba import cuda, int32, uint32

from . import block, device_labels, warp
from .block import BASE, BEYOND, EPOCH, EPOCHS, FAR, LEFT, LIMIT, LOST, OPEN, SETTLED
from .device_labels import NEVER
from .warp import device


class Frontier(NamedTuple):
    """Device functions."""

    get: Callable
    waiting_at: Callable
    second_of: Callable
    may_lower: Callable
    relax: Callable
    push: Callable
    advance: Callable
    clear: Callable
    collect: Callable
    next_epoch: Callable


def make(narrow: bool) -> Frontier:
    """Functions for labels in shared memory (`narrow`) or in device memory."""
    unknown, get, lower, store, load = device_labels.make(narrow)
    ring = uint32(block.QUEUE)

    @device
    def second_of(labels, kept, control, v):
        """A label as a second of the store's clock, or `NEVER`."""
        label = get(labels, v)
        if label == unknown:
            return int32(NEVER)
        if narrow and label == 0 and control[EPOCHS]:
            return int32(kept[v])
        return int32(int32(control[BASE]) + label)

    @device
    def may_lower(labels, control, v, second):
        """Whether an arrival at v at that second, or later, can be an improvement, or one beyond this epoch."""
        soonest = int32(second)
        if narrow:
            soonest = int32(min(max(int32(second - int32(control[BASE])), int32(0)), int32(unknown - 1)))
        return soonest < get(labels, v) and second <= int32(control[LIMIT])

    @device
    def relax(labels, control, v, reached):
        """A vertex of each lane is reached at a second, or never (-1): its label if that fell by it, else -1."""
        label = int32(reached - int32(control[BASE]))
        counts = uint32(reached) <= control[LIMIT]
        if counts and label >= unknown:
            control[BEYOND] = uint32(1)
            counts = False
        return label if lower(labels, v, label, counts) else int32(-1)

    @device
    def append(lists, room, control, which, at, v, label):
        """Write an entry to place `at` of a list, or say that one is lost."""
        if at < room:
            store(lists, uint32(at + which * room), v, label)
        else:
            control[LOST] = uint32(1)

    @device
    def push(queue, lists, room, control, counter, begin, free, side, v, label):
        """Lanes of a warp whose label is not -1 write their entries, for the next round if their bucket is open.

        The next round's entries have their `counter`, and `free` places in the queue from `begin` on; more than that
        go to a list.
        """
        near = label >= 0 and label < int32(control[OPEN])
        late = label >= 0 and not near
        at = warp.places(control, counter, uint32(uint32(FAR) + side), near, late)
        if near and at < free:
            at = uint32(begin + at)
            store(queue, uint32(at - ring) if at >= ring else at, v, label)
        elif label >= 0:
            append(
                lists, room, control, overflow(counter) if near else side, uint32(at - free) if near else at, v, label
            )

    @device
    def overflow(counter):
        """The list of what the queue has no room for, in the round with this counter."""
        return uint32(uint32(2) + uint32(counter & uint32(1)))

    @device
    def waiting_at(queue, lists, room, counter, begin, free, i):
        """Entry i of the round with this counter."""
        if i >= free:
            return load(lists, uint32(overflow(counter) * room + uint32(i - free)))
        i = uint32(begin + i)
        return load(queue, uint32(i - ring) if i >= ring else i)

    @device
    def advance(labels, queue, lists, room, control, counter, begin, free, side, size):
        """Queue the far entries of the other side whose bucket has opened; LEFT becomes the others' earliest label."""
        from_side = uint32(side ^ uint32(1))
        count = min(control[uint32(uint32(FAR) + from_side)], room)
        if cuda.threadIdx.x == 0:
            control[uint32(uint32(FAR) + side)] = uint32(0)
            control[LEFT] = uint32(NEVER)
        cuda.syncthreads()
        least = int32(NEVER)
        first = uint32(0)
        while first < count:
            i = uint32(first + uint32(cuda.threadIdx.x))
            v, label = uint32(0), int32(-1)
            if i < count:
                v, label = load(lists, uint32(i + from_side * room))
                if get(labels, v) != label:
                    label = int32(-1)
                elif label >= int32(control[OPEN]):
                    least = min(least, label)
            push(queue, lists, room, control, counter, begin, free, side, v, label)
            first = uint32(first + size)
        if least != NEVER:
            cuda.atomic.min(control, LEFT, uint32(least))

    @device
    def clear(labels, size, label_words):
        """No label."""
        i = uint32(cuda.threadIdx.x)
        while i < label_words:
            labels[i] = uint32(0xFFFFFFFF) if narrow else uint32(NEVER)
            i = uint32(i + size)

    @device
    def collect(labels, lists, room, control, side, size, vertices):
        """Fill the far list of a side anew, with all that may have to be relaxed."""
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            control[uint32(uint32(FAR) + side)] = uint32(0)
            control[LOST] = uint32(0)
        cuda.syncthreads()
        v = uint32(cuda.threadIdx.x)
        while v < vertices:
            label = get(labels, v)
            if label != unknown and label >= int32(control[SETTLED]):
                at = uint32(cuda.atomic.add(control, uint32(uint32(FAR) + side), uint32(1)))
                append(lists, room, control, side, at, v, label)
            v = uint32(v + size)
        cuda.syncthreads()

    @device
    def next_epoch(labels, kept, control, size, vertices):
        """Keep what is settled as seconds; from a later base all of it has the label 0."""
        base, epochs = int32(control[BASE]), control[EPOCHS]
        v = uint32(cuda.threadIdx.x)
        while v < vertices:
            label = get(labels, v)
            if label != unknown and (label or not epochs):
                kept[v] = uint32(base + label)
            v = uint32(v + size)
        cuda.syncthreads()
        i = uint32(cuda.threadIdx.x)
        while i < uint32(uint32(vertices + uint32(1)) >> uint32(1)):
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

    return Frontier(get, waiting_at, second_of, may_lower, relax, push, advance, clear, collect, next_epoch)
