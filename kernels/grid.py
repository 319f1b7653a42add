"""What all blocks of a grid do together: read what others write, and wait for each other.

In the CUDA simulator blocks run one after the other: there such a grid is one block.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import cuda, int32, types, uint32

from .warp import SIMULATED, device

CAME, FELL = 2**16 - 1, 2**16  # of what blocks tell: how many came, and in how many a label fell
LATEST, TOLD = 3, 4  # of the words in which a grid tells, and how many they are: see `any_fell`


def _instruction(instruction: str, given: bool = False) -> Any:
    """A PTX instruction that names order and scope, on an entry of an array of 32 or 64 bits; `given`: with a value."""
    from numba.cuda import cgutils  # the simulator lacks both
    from numba.cuda.extending import intrinsic

    def generate(context, builder, signature, args):
        array, index = signature.args[:2]
        at = context.cast(builder, args[1], index, types.intp)
        held = context.make_array(array)(context, builder, args[0])
        pointer = cgutils.get_item_pointer(context, builder, array, held, [at], wraparound=False)
        bits = array.dtype.bitwidth
        word, letter = ir.IntType(bits), {32: "r", 64: "l"}[bits]
        values = [context.cast(builder, args[2], signature.args[2], array.dtype)] if given else []
        asm = ir.InlineAsm(
            ir.FunctionType(word, [pointer.type, *(word for _ in values)]),
            f"{instruction}{bits} $0, [$1]{', $2' if given else ''};",
            f"={letter},l{f',{letter}' if given else ''},~{{memory}}",
            side_effect=True,
        )
        found = builder.call(asm, [pointer, *values])
        return builder.bitcast(found, context.get_value_type(array.dtype))

    @intrinsic
    def load(typing, array, at):
        return array.dtype(array, at), generate

    @intrinsic
    def change(typing, array, at, value):
        return array.dtype(array, at, value), generate

    return change if given else load


def _on_entries() -> tuple[Any, Any, Any]:
    """Device functions: a load as of `fresh`, one that comes before all that follows it, and an addition that also
    comes after all that precedes it.
    """
    if SIMULATED:
        return device(_plain_load), device(_plain_load), device(_plain_add)
    load = _instruction("ld.relaxed.gpu.global.b")
    acquire = _instruction("ld.acquire.gpu.global.b")
    add = _instruction("atom.add.acq_rel.gpu.global.u", given=True)
    return (
        device(lambda array, at: load(array, at)),
        device(lambda array, at: acquire(array, at)),
        device(lambda array, at, value: add(array, at, value)),
    )


def _plain_load(array, at):
    return array[at]


def _plain_add(array, at, value):
    return cuda.atomic.add(array, at, value)


_load, _acquire, _add = _on_entries()


@device
def fresh(array, at):
    """An entry (32 or 64 bits) that other threads of the grid may write: not from a cache of this one's own."""
    return _load(array, at)


@device
def tell(told, turn, fell):
    """Leave `turn` in `told[LATEST]` where `fell` holds in a thread of the block."""
    if cuda.syncthreads_or(int32(1) if fell else int32(0)) and cuda.threadIdx.x == 0:
        told[LATEST] = turn


@device
def any_fell(told, turn, fell):
    """Whether `fell` holds in any thread of the grid, when all threads have come; all blocks must be resident.

    `turn` counts the calls from 1. `told` is int32[4], zero at first: `told[turn % 3]` counts the blocks that came, and
    from bit 16 on those in which it holds. When all have come nobody looks any more at the counter of the call before:
    it is cleared for the next but one. `told[LATEST]` is left alone.
    """
    here = cuda.syncthreads_or(int32(1) if fell else int32(0))
    come = int32(0)
    if cuda.threadIdx.x == 0:
        now = uint32(uint32(turn) % uint32(3))
        mine = int32(FELL + 1) if here else int32(1)
        come = int32(_add(told, now, mine) + mine)
        while (come & CAME) < cuda.gridDim.x:
            come = _acquire(told, now)
        if cuda.blockIdx.x == 0:
            told[uint32(uint32(turn + 2) % uint32(3))] = 0
    return cuda.syncthreads_or(int32(come >> 16)) != 0
