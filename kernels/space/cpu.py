"""A loop nest as Python that Numba compiles for CPU threads."""

from __future__ import annotations

from .nest import Combine, Guard, Line, Loop, Node, Put, Stop, Sync, Update
from .statement import Semiring


class CpuText:
    """`lines` writes a nest; `gpu.py` differs in loops, atomics and sums over lanes."""

    def __init__(self, semiring: Semiring) -> None:
        self.semiring = semiring

    def lines(self, nodes: list[Node], depth: int = 1) -> list[str]:
        found: list[str] = []
        for node in nodes:
            match node:
                case Line(name, value, True):
                    found.append(f"{name} = {self.index(value)}")
                case Line(name, value) | Put(name, value):
                    step = value.removeprefix(f"{name} + ")
                    found.append(f"{name} = {value}" if step == value else f"{name} += {step}")
                case Update():
                    found += self.update(node)
                case Loop():
                    found += self.whole_loop(node)
                case Guard(word, condition, body, other):
                    found += [f"{word} {condition}:", *self.lines(body)]
                    while len(other) == 1 and isinstance(one := other[0], Guard) and one.word == "if":
                        found += [f"elif {one.condition}:", *self.lines(one.body)]
                        other = one.other
                    if other:
                        found += ["else:", *self.lines(other)]
                case Stop():
                    found.append("break")
                case Sync():
                    found.append(self.sync())
                case Combine():
                    found += self.combine(node)
        return ["    " + line for line in found]

    def index(self, value: str) -> str:
        """An index without a sign: Numba asks of signed ones whether they count from the end."""
        return f"uint32({value})"

    def whole_loop(self, loop: Loop) -> list[str]:
        return [self.loop(loop), *self.lines(loop.body)]

    def loop(self, loop: Loop) -> str:
        if loop.onto == "threads":
            return f"for {loop.name} in range(first, last):"
        if loop.walked:
            return f"for {loop.name} in range(uint64({loop.begin}), uint64({loop.end})):"
        return f"for {loop.name} in {range_text(loop.begin, loop.end, loop.step)}:"

    def update(self, update: Update) -> list[str]:
        if update.race.kind != "atomic":
            return [self.plain(update)]
        if self.semiring.sum == "|":
            return [f"if {update.value}:", f"    {update.target} = True"]
        if self.semiring.sum == "min":
            return [f"if {update.value} < {update.target}:", f"    {self.atomic(update)}"]
        return [self.atomic(update)]

    def plain(self, update: Update) -> str:
        if self.semiring.sum == "+":
            return f"{update.target} += {update.value}"
        return f"{update.target} = {self.semiring.add(update.target, update.value)}"

    def atomic(self, update: Update) -> str:
        comma = "," if len(update.at) == 1 else ""
        how = "add" if self.semiring.sum == "+" else "min"
        return f"atomic_{how}({update.array}, ({', '.join(update.at)}{comma}), {update.value})"

    def sync(self) -> str:
        raise NotImplementedError("blocks are CUDA's")

    def combine(self, node: Combine) -> list[str]:
        raise NotImplementedError("lanes are CUDA's")


def range_text(begin: str, end: str, step: str = "1") -> str:
    if step != "1":
        return f"range({begin}, {end}, {step})"
    return f"range({end})" if begin == "0" else f"range({begin}, {end})"
