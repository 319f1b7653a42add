"""What is added where: values, updates of the output, sums of rows and of blocks."""

from __future__ import annotations

from collections.abc import Iterable

from .extents import Extents
from .levels import factor
from .nest import Guard, Line, Node, Put, Update
from .relations import NONE, Pos, Race, ScheduleError
from .schedule import Schedule
from .statement import Access, Name, Op, leaves, render
from .statement import Node as Value
from .time_levels import Progression


class Sums(Extents):
    def __init__(self, schedule: Schedule, active: str = "") -> None:
        super().__init__(schedule, active)
        self.flushed: Pos | None = None  # the position loop along which the sum is handed over row by row
        self.kept = 0  # leading dimensions of the output that a carried row stands for
        self.summed = self.place_of_sum()

    def by_rows(self, loop: str) -> bool:
        """Whether a loop that hands over rows becomes one over rows, and one over the positions of each."""
        p = self.flushed
        if p is None or self.s.written(loop) == 0 or self.s.leaves(p.position)[-1] != loop:
            return False
        place, last = self.s.loops.index(loop), self.covered(p)[-1][0]
        level = self.level(p.tensor, last)
        rows = self.row_level(p) == last - 1 and level.searched and not isinstance(level, Progression)
        return rows and self.runs.get((place, place + 1)) == p

    def place_of_sum(self) -> int:
        """The loop before which a sum starts; the number of loops where every product goes to the output at once."""
        s, place = self.s, len(self.s.loops)
        if s.workspace:
            return place
        while place and not set(s.roots(s.loops[place - 1])) & self.out:
            tag = s.tag(s.loops[place - 1])
            if tag and tag[1].kind != "shuffle" and tag[0] != "vector":
                break
            place -= 1
        for (first, last), p in self.runs.items():
            covered = set(s.roots(p.position))
            mixed = not covered <= self.out and all(set(s.roots(loop)) <= covered for loop in s.loops[first:last])
            if last == place and first < last and mixed and self.row_level(p) is not None:
                self.flushed = p
                return first
        return place if place < len(s.loops) else len(s.loops)

    def row_level(self, p: Pos) -> int | None:
        """The last level of the row that a sum along `p` belongs to: rows are the leading levels, or there is none.

        A row ends where the next level's positions are walked past; if nothing is walked, where a coordinate changes.
        """
        covered = self.covered(p)
        inside = [root in self.out for _, root in covered]
        count = inside.index(False)
        if not count or any(inside[count:]):
            return None
        after = self.level(p.tensor, covered[count][0])
        ends = after.searched or not (after.full or self.searched(p))
        return covered[count - 1][0] if ends else None

    def leaf(self, node: Value) -> str:
        """The text of a value."""
        if not isinstance(node, Access):
            return str(node)
        if node in self.values:
            return self.values[node]
        if self.active and node.tensor in (self.active, self.st.output.tensor):
            return self.fresh(node)
        if node.tensor in self.s.formats:
            last = len(self.s.formats[node.tensor].levels) - 1
            return f"{node.tensor}_val[{self.at[self.holder(node.tensor), last]}]"
        return str(node)

    def fresh(self, node: Access) -> str:
        """In rounds: whether an entry fell in the one before; or an entry of the output, read once: others lower it."""
        (at,) = node.indices
        if node.tensor == self.active:
            return f"fresh({self.active}_now, {at}) == turn"
        name = self.values[node] = f"{node.tensor}_{at}"
        self.body.append(Line(name, f"fresh({node.tensor}, {at})"))
        return name

    def holder(self, tensor: str) -> str:
        """The operand whose positions those of `tensor` are."""
        return dict(self.s.along).get(tensor, tensor)

    def text(self, node: Value) -> str:
        return self.texts([node])[0]

    def texts(self, nodes: Iterable[Value]) -> list[str]:
        """Texts that belong to one expression: two unsigned indices would wrap around in a difference."""
        nodes = list(nodes)
        found = {leaf.name for node in nodes for leaf in leaves(node) if isinstance(leaf, Name)}
        unsigned = {name for name in found if self.unsigned(name)}

        def leaf(one: Value) -> str:
            return f"int64({one})" if len(unsigned) > 1 and str(one) in unsigned else self.leaf(one)

        return [render(node, leaf) for node in nodes]

    def unsigned(self, name: str) -> bool:
        """Whether a name is an index, and not one of time, which has a sign."""
        found = self.s.iterator(name) if name in self.st.indices else None
        timed = found is not None and isinstance(self.level(*found), Progression)
        return name in self.st.indices and not timed

    def product(self, nodes: Iterable[Value]) -> str:
        nodes = list(nodes)
        texts = zip(nodes, self.texts(nodes), strict=True)
        parts = [factor(text) if isinstance(node, Op) else text for node, text in texts]
        return f" {self.st.semiring.product} ".join(parts)

    def target(self) -> tuple[str, tuple[str, ...]]:
        """The output's array, and where in it the entry lies."""
        output = self.st.output
        if not self.s.pattern:
            return output.tensor, output.indices or ("0",)
        form = self.s.formats[self.s.pattern]
        stored = [self.s.level_index(self.s.pattern, number) for number in range(len(form.levels))]
        count = sum(index in self.out for index in stored)
        rest = tuple(index for index in output.indices if index not in stored)
        return f"{output.tensor}_val", (self.at[self.s.pattern, count - 1], *rest)

    def races(self) -> Race:
        kinds = {race.kind: race for _, _, race in self.s.tags}
        return kinds.get("segments") or kinds.get("carry") or kinds.get("atomic") or NONE

    def update(self, value: str, race: Race) -> Update:
        array, at = self.target()
        made = Update(f"{array}[{', '.join(at)}]", value, race, array, at)
        if race.kind == "segments":
            lane = self.s.loops[-1]
            made.row = next(index for index in self.s.roots(lane) if index in self.out)
            made.count = self.extent(lane)
        if self.active:
            made.seen, made.mark = self.leaf(self.st.output), f"{self.active}_next[{at[0]}]"
        return made

    def whole(self) -> bool:
        """Whether the sums that begin here are all that is added to an output, one for each entry."""
        outside = self.s.loops[: self.summed]
        dense = not any(self.s.iterator(root) or any(map(self.s.position, self.s.leaves(root))) for root in self.out)
        dense = dense and all(set(self.s.roots(loop)) <= self.out for loop in outside)
        private = any(race.kind == "private" and onto != "vector" for _, onto, race in self.s.tags)
        fresh = not (self.s.pattern or self.st.accumulate or self.guarded or self.flushed or private)
        return fresh and dense and self.races() == NONE

    def alone(self, value: str) -> Node:
        """The sum of an entry that nothing else is added to."""
        made = self.update(value, NONE)
        return made if self.st.accumulate else Put(made.target, value)

    def hand_over(self, last: str = "") -> list[Node]:
        """Add the sum of a row that ends to the output; the first and last of a block are kept aside if carried.

        `last` is the condition under which it is the last one.
        """
        race = self.races()
        if race.kind == "atomic" and last not in ("", "True"):
            p = self.flushed.position if self.flushed else ""
            edge = f"{p}_next == {p}_first or {last}"
            return [Guard("if", edge, [self.update("acc", race)], [self.alone("acc")])]
        if race.kind != "carry":
            return [self.update("acc", race)]
        _, at = self.target()
        block, rows, rest = self.s.tags[0][0], at[: self.kept], at[self.kept :]
        first = " and ".join(f"{row} == {row}_first" for row in rows)
        head, tail = (f"aside[{', '.join((f'2 * {block}{side}', *rest))}]" for side in ("", " + 1"))
        marks = [Put(f"aside_row[2 * {block} + 1, {n}]", row) for n, row in enumerate(rows)]
        end: list[Node] = [Update(tail, "acc"), *marks]
        inside: list[Node] = [self.update("acc", NONE)]
        if last != "True":
            end = [Guard("if", last, end, inside)] if last else inside
        return [Guard("if", first, [Update(head, "acc")], end)]

    def keep_first_row(self, p: Pos) -> None:
        """Remember the row in which a block begins, where rows at the edges of blocks are carried."""
        if self.races().kind != "carry":
            return
        block, leaves = self.s.tags[0][0], self.s.leaves(p.position)
        first, last = next(run for run, other in self.runs.items() if other == p)
        _, at = self.target()
        levels = [index for _, index in self.covered(p)]
        lead = [index in levels or (self.s.pattern is not None and place == 0) for place, index in enumerate(at)]
        self.kept = sum(lead)
        if set(leaves) - {block} != set(self.s.loops[first:last]) or not all(lead[: self.kept]) or block not in leaves:
            raise ScheduleError(
                f"carry of {block}: inside it only {' > '.join(leaves[1:])}, in this order, may walk {p.tensor}, and "
                f"its rows must be the first indices of {self.st.output}"
            )
        for place, row in enumerate(at[: self.kept]):
            self.body += [Line(f"{row}_first", row), Put(f"aside_row[2 * {block}, {place}]", row)]
