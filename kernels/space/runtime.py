"""What generated kernels call: searches, terms of progressions, atomics of CPU threads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..jit import njit
from ..levels import seek

lower: Any = seek.py_func


def upper(keys, low, high, key):
    """First position in [low, high) whose key is after `key`, else `high`; keys ascend."""
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low


def term(start, step, earliest):
    """First of start, start + step, ... at or after `earliest`."""
    if earliest <= start:
        return np.int64(start)
    return start + (np.int64(earliest) - start + step - 1) // step * step


def _read_modify_write(whole: str, real: str, unsigned: str) -> Any:
    """`array[at] = op(array[at], value)` in one step, which Numba has for CUDA only."""

    @intrinsic
    def update(typing, array, at, value):
        dtype = array.dtype

        def generate(context, builder, signature, args):
            cast = [
                context.cast(builder, index, kind, types.intp)
                for index, kind in zip(cgutils.unpack_tuple(builder, args[1]), signature.args[1], strict=True)
            ]
            held = context.make_array(array)(context, builder, args[0])
            place = cgutils.get_item_pointer(context, builder, array, held, cast, wraparound=False)
            given = context.cast(builder, args[2], signature.args[2], dtype)
            op = real if isinstance(dtype, types.Float) else whole if dtype.signed else unsigned
            builder.atomic_rmw(op, place, given, "monotonic")
            return context.get_dummy_value()

        return types.void(array, at, value), generate

    return update


atomic_add = _read_modify_write("add", "fadd", "add")
atomic_min = _read_modify_write("min", "fmin", "umin")


CPU = {
    "lower": njit(lower), "upper": njit(upper), "term": njit(term), "atomic_add": atomic_add, "atomic_min": atomic_min,
    "empty": np.empty, "int64": np.int64, "uint32": np.uint32, "uint64": np.uint64,
}  # fmt: skip
