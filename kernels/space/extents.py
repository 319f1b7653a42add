"""How far loops go: names, bounds and extents as text, of what is known where a loop opens."""

from __future__ import annotations

from .levels import factor
from .nest import Line, Node
from .relations import Fuse, Pos, Split
from .schedule import Schedule
from .statement import Access


def minus(end: str, begin: str) -> str:
    return end if begin == "0" else f"{end} - {factor(begin)}"


class Extents:
    """The state of a lowering: loops that are open, what is known inside them, and where text is being added.

    `active` names the operand that tells what fell in the round before, where a statement is repeated in rounds.
    """

    def __init__(self, schedule: Schedule, active: str = "") -> None:
        self.s = schedule
        self.active = active
        self.st = schedule.statement
        self.out = set(self.st.output.indices)
        self.body: list[Node] = []
        self.setup: list[Node] = []
        self.sum_body = self.body  # where the sum starts
        self.sum_values: dict[Access, str] = {}  # what is loaded there
        self.known: set[str] = set()
        self.at: dict[tuple[str, int], str] = {}  # position at (tensor, level)
        self.span_of: dict[str, tuple[str, str]] = {}  # begin and end of a position loop
        self.values: dict[Access, str] = {}  # loaded once, used inside
        self.sizes: dict[str, str] = {}  # local names by what they stand for
        self.used: set[int] = set()  # conditions that hold here
        self.low_high: dict[str, tuple[str, str]] = {}  # where a block's positions lie
        self.starts: list[Node] = []  # what finds where each block begins
        self.guarded = False  # a condition stands around what follows
        self.complete = False  # every entry of the output is written, once
        self.parallel = "1"
        self.depth = 0
        self.walking: set[str] = set()  # positions whose owners are walked, not searched
        self.stops: list[list[Node]] = []  # bodies of loops that end once something is found
        self.last: list[Node] = []  # and of the innermost of them
        self.runs = {self.run_of(p): p for p in self.positions()}

    def names(self, tensor: str, level: int):
        index = self.s.level_index(tensor, level)
        return lambda part: self.size(index) if part == "n" else f"{tensor}_{part}{level}"

    def size(self, index: str) -> str:
        return str(dict(self.s.bounds).get(index, f"n_{index}"))

    def level(self, tensor: str, number: int):
        return self.s.formats[tensor].levels[number]

    def below(self, tensor: str, number: int, q: str) -> str:
        """First position of a level below position `q` of the level above."""
        return self.level(tensor, number).first(self.names(tensor, number), q)

    def segment(self, tensor: str, number: int) -> tuple[str, str]:
        """Begin and end of a level's positions below the position of its parent."""
        q = self.at[tensor, number - 1] if number else "0"
        return self.below(tensor, number, q), self.level(tensor, number).stop(self.names(tensor, number), q)

    def bottom(self, tensor: str, number: int) -> bool:
        return number == len(self.s.formats[tensor].levels) - 1

    def positions(self) -> list[Pos]:
        return [relation for relation in self.s.relations if isinstance(relation, Pos)]

    def covered(self, p: Pos) -> list[tuple[int, str]]:
        """The levels that a position loop runs over, with their indices."""
        roots = self.s.roots(p.position)
        _, last = self.s.iterator([*roots][-1]) or ("", 0)
        return list(zip(range(last - len(roots) + 1, last + 1), roots, strict=True))

    def searched(self, p: Pos) -> bool:
        return any(self.level(p.tensor, number).searched for number, _ in self.covered(p)[1:])

    def run_of(self, p: Pos) -> tuple[int, int]:
        """The loops [first, last) over which positions only grow, so that owners are searched once, then walked."""
        leaves = self.s.leaves(p.position)
        last = max(self.s.loops.index(leaf) for leaf in leaves)
        tag = self.s.tag(self.s.loops[last])
        if tag and tag[0] != "vector":
            return last + 1, last + 1
        first = last
        while first:
            before = self.s.loops[first - 1]
            tag = self.s.tag(before)
            if before not in leaves or self.s.loops[first - 1 : last + 1] != leaves[first - last - 2 :]:
                break
            if tag and tag[0] != "vector":
                break
            first -= 1
        return first, last + 1

    def extent(self, loop: str) -> str:
        """How many iterations a loop has where it stands."""
        made = self.s.maker(loop)
        match made:
            case None:
                return self.size(loop)
            case Fuse():
                return f"{factor(self.extent(made.outer))} * {factor(self.extent(made.inner))}"
            case Pos():
                begin, end = self.span(made)
                return minus(end, begin)
            case Split():
                count, block = self.named(f"{made.parent}_size", self.extent(made.parent)), self.block_of(made)
                if loop == made.inner:
                    if made.outer not in self.known:
                        return block
                    return f"min({block}, {count} - {made.outer} * {block})"
                if made.inner in self.known:
                    return f"({count} - {made.inner} + {block} - 1) // {block}"
                if block.isdigit():
                    return f"({count} + {int(block) - 1}) // {block}" if block != "1" else count
                return f"({count} + {block} - 1) // {block}"

    def block_of(self, made: Split) -> str:
        """Iterations of a block; those of a divide follow from the extent."""
        if not made.divide:
            return str(made.factor)
        block = f"max(1, ({self.extent(made.parent)} + {made.factor - 1}) // {made.factor})"
        return self.named(f"{made.outer}_block", block)

    def named(self, name: str, value: str) -> str:
        """A local name for a minimum or maximum that several texts need."""
        if not value.startswith(("min(", "max(")):
            return value
        if value not in self.sizes:
            while name in self.sizes.values():
                name += "_"
            self.sizes[value] = name
            (self.body if self.known else self.setup).append(Line(name, value))
        return self.sizes[value]

    def span(self, p: Pos) -> tuple[str, str]:
        """Begin and end of a position loop, in local names where they depend on loops outside."""
        if p.position in self.span_of:
            return self.span_of[p.position]
        begin, end = self.edges(p, self.covered(p)[-1][0])
        begin_name, end_name = f"{p.position}_begin", f"{p.position}_end"
        target = self.setup if not self.known else self.body
        target += [Line(begin_name, begin), Line(end_name, end)]
        self.span_of[p.position] = begin_name, end_name
        return self.span_of[p.position]

    def edges(self, p: Pos, level: int) -> tuple[str, str]:
        """Begin and end of the positions of a level that a position loop covers."""
        first = self.covered(p)[0][0]
        begin, end = self.segment(p.tensor, first)
        for number in range(first + 1, level + 1):
            begin, end = (self.below(p.tensor, number, edge) for edge in (begin, end))
        return begin, end

    def start(self, loop: str) -> str:
        """The least value that a loop can take now."""
        if loop in self.known:
            return loop
        used = self.s.user(loop)
        if isinstance(used, Fuse) and loop == used.outer and (fused := self.start(used.fused)) != "0":
            return f"{factor(fused)} // {factor(self.extent(used.inner))}"
        if not isinstance(used, Split):
            return "0"
        outer, inner = self.start(used.outer), self.start(used.inner)
        blocks = "0" if outer == "0" else f"{outer} * {self.block_of(used)}"
        return " + ".join(part for part in (blocks, inner) if part != "0") or "0"

    def start_position(self, p: Pos) -> str:
        begin, _ = self.span(p)
        if p.position in self.known:
            return p.position
        offset = self.start(p.position)
        return begin if offset == "0" else f"{begin} + {offset}"
