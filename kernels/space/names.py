"""Names that loops and operands can have: those that the text of a kernel leaves free."""

from __future__ import annotations

import re
from keyword import iskeyword

from .relations import ScheduleError
from .statement import Statement

_RESERVED = {
    "LANES", "acc", "aside", "aside_row", "atomic_add", "atomic_min", "cuda", "dtype", "empty", "first",
    "found", "int64", "lane", "lanes", "lanes_of", "last", "lower", "min", "place", "range", "row_add", "row_min",
    "row_or", "segment_add", "shift", "staged", "starts", "term", "uint32", "uint64", "upper",
    "whole", "zero",
}  # fmt: skip


def check_name(name: str, statement: Statement) -> None:
    """Raise where the text of a kernel would use a name for two things."""
    made = any(re.fullmatch(rf"(p{tensor}\d.*|{tensor}_.*|n_.*)", name) for tensor in statement.operands)
    made = made or re.fullmatch(
        r".*_(at|begin|block|end|first|high|last|limit|low|next|row|size|starts|stop|stride|\d+)", name
    )
    if not (name.isidentifier() and name.isascii()) or iskeyword(name) or name in _RESERVED or made:
        raise ScheduleError(f"{name} cannot be a name here: kernels use it, or it is no plain identifier")
