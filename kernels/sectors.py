"""Edge profiles for a GPU: per time slot and edge one memory sector of departures, so that a lookup reads one.

A group is 32 bytes: the edge's first departures at or after the start of the slot, as words of `EdgeProfile`, ended
by all bits set where there are no more. As a rule they reach beyond the slot and a lookup needs nothing else.
Where they don't, the lookup goes on in the lists.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import cuda, int32, int64, types, uint32, uint64

from . import warp
from .warp import device

BYTES = 32  # a sector, the least that a GPU reads
STRIDE = 8  # words of a list that are read at once


def make(wide):
    """(lookup, fill, words of a group) for profile words of 64 bits if `wide`, else of 32."""
    word = uint64 if wide else uint32
    kind = np.uint64 if wide else np.uint32
    size = BYTES // kind(0).itemsize
    none = kind(~kind(0))
    first_of = _first_in_memory if warp.SIMULATED else _first_of(word, size)

    @device
    def in_lists(slot, list_slots, index, words, edges, key, second, e):
        """First word at or after `key`, which is `second` << shift, in the lists; `none` if there is none."""
        s = uint32(uint32(second) // slot)
        if s >= list_slots:
            return none
        g = uint64(uint64(s) * uint64(edges) + uint64(e))
        p, after = uint64(index[g]), uint64(index[g + uint64(1)])
        best = none
        while best == none and p < after:
            for k in range(STRIDE):
                found = words[min(uint64(p + uint64(k)), uint64(after - uint64(1)))]
                if found >= key:
                    best = min(best, found)
            p = uint64(p + uint64(STRIDE))
        return best

    @device
    def lookup(sectors, bits, slot, list_slots, index, words, edges, shift, second, e):
        """Earliest arrival (int32) over edge e for who is there at `second`; -1 if nothing leaves any more."""
        key = word(word(second) << shift)
        p = uint64((uint64(uint32(uint32(second) >> bits)) * uint64(edges) + uint64(e)) * uint64(size))
        best, last = first_of(sectors, p, key)
        if best == none and last != none:
            best = in_lists(slot, list_slots, index, words, edges, key, second, e)
        if best == none:
            return int32(-1)
        return int32(int32(best >> shift) + int32(best & word((word(1) << shift) - word(1))))

    @cuda.jit
    def fill(sectors, bits, slots, slot, list_slots, index, words, edges, shift, missed):
        """Fill `sectors` [slots * edges * size]; `missed[0]` (uint64) counts departures that have no room in theirs."""
        i = int64(cuda.grid(1))
        if i >= int64(slots) * int64(edges):
            return
        e = uint32(i % int64(edges))
        end = int64(i // int64(edges) + 1) << int64(bits)
        second = int64(end - (int64(1) << int64(bits)))
        over = 0
        k = 0
        while True:
            found = in_lists(slot, list_slots, index, words, edges, word(word(second) << shift), second, e)
            if k < size:
                sectors[i * size + k] = found
                k += 1
            elif found != none and int64(found >> shift) < end:
                over += 1
            if found == none or (k == size and int64(found >> shift) >= end):
                break
            second = int64(int64(found >> shift) + 1)
        while k < size:
            sectors[i * size + k] = none
            k += 1
        if over:
            cuda.atomic.add(missed, 0, uint64(over))

    return lookup, fill, size


def _first_in_memory(words, p, key):
    group = words[int(p) : int(p) + BYTES // words.itemsize]
    at = int(np.searchsorted(group, key))
    return (group[at] if at < len(group) else ~words.dtype.type(0)), group[-1]


def _first_of(word, size):
    """Device function (words, p, key) -> first of a sector's ascending words at or after the key, last word.

    The sector comes by two loads of 16 bytes, which no array access of Numba gives.
    """
    from numba.cuda.extending import intrinsic

    width = word.bitwidth
    names = {32: "=r", 64: "=l"}

    @intrinsic
    def first_of(typing, words, p, key):
        def generate(context, builder, signature, args):
            array = context.make_array(signature.args[0])(context, builder, args[0])
            number = ir.IntType(width)
            half = size // 2
            out = ", ".join(f"${k}" for k in range(half))
            load = ir.InlineAsm(
                ir.FunctionType(ir.LiteralStructType([number] * half), [number.as_pointer()]),
                f"ld.global.nc.v{half}.u{width} {{{out}}}, [${half}];",
                ",".join([names[width]] * half + ["l"]),
            )
            found = []
            for k in range(2):
                at = builder.add(args[1], ir.Constant(args[1].type, k * half))
                several = builder.call(load, [builder.gep(array.data, [at])])
                found += [builder.extract_value(several, k) for k in range(half)]
            # Halve what is left until one word is: the words ascend.
            some, last = found, found[-1]
            while len(some) > 1:
                half = len(some) // 2
                low = builder.icmp_unsigned(">=", some[half - 1], args[2])
                some = [builder.select(low, some[k], some[k + half]) for k in range(half)]
            none = ir.Constant(number, 2**width - 1)
            best = builder.select(builder.icmp_unsigned(">=", some[0], args[2]), some[0], none)
            return context.make_tuple(builder, signature.return_type, [best, last])

        return types.UniTuple(word, 2)(words, p, word), generate

    @device
    def call(words, p, key):
        return first_of(words, p, key)  # pyright: ignore[reportCallIssue]  # the typing context is Numba's

    return call
