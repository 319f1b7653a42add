"""A loop nest as Python that Numba compiles for CUDA.

Every parallel loop strides by what runs it, so that the text is right for any launch.
"""

from __future__ import annotations

from .cpu import CpuText, range_text
from .nest import Combine, Loop, Update

# For each target: which iteration is one's own, and how many run side by side.
_IDS = {
    "block": ("cuda.blockIdx.x", "cuda.gridDim.x"),
    "thread": ("cuda.threadIdx.x", "cuda.blockDim.x"),
    "warp": ("cuda.threadIdx.x // LANES", "cuda.blockDim.x // LANES"),
    "lane": ("cuda.threadIdx.x % LANES", "LANES"),
}


class GpuText(CpuText):
    def index(self, value: str) -> str:
        return value

    def loop(self, loop: Loop) -> str:
        if loop.onto not in _IDS:
            return f"for {loop.name} in {range_text(loop.begin, loop.end, loop.step)}:"
        mine, side_by_side = _IDS[loop.onto]
        begin = mine if loop.begin == "0" else f"{loop.begin} + {mine}"
        return f"for {loop.name} in range({begin}, {loop.end}, {side_by_side}):"

    def sync(self) -> str:
        return "cuda.syncthreads()"

    def update(self, update: Update) -> list[str]:
        if update.race.kind != "segments":
            return super().update(update)
        at = update.at[0] if len(update.at) == 1 else f"({', '.join(update.at)})"
        return [f"segment_add({update.array}, {at}, {update.row}, {update.value}, {update.count})"]

    def atomic(self, update: Update) -> str:
        at = update.at[0] if len(update.at) == 1 else f"({', '.join(update.at)})"
        how = "add" if self.semiring.sum == "+" else "min"
        return f"cuda.atomic.{how}({update.array}, {at}, {update.value})"

    def combine(self, node: Combine) -> list[str]:
        how = {"+": "add", "min": "min", "|": "or"}[self.semiring.sum]
        return [
            f"{node.name} = row_{how}({node.name}, {node.width})",
            f"if {node.lane} == 0:",
            *self.lines(node.body),
        ]


class RoundsText(GpuText):
    """The nest of a round."""

    def update(self, update: Update) -> list[str]:
        if not update.mark:
            return super().update(update)
        falls = f"{update.value} < {update.seen} and {update.value} < {self.atomic(update)}"
        return [f"if {falls}:", f"    {update.mark} = turn + 1", "    fell = True"]
