"""From a schedule to a loop nest.

Loops open from the outermost in. After each one, everything that has become known is written down: indices recovered
from split loops, positions and coordinates of levels, conditions, values. Below the loops stands one update of the
output, or of a sum that is added to the output once no deeper loop can change the entry.
"""

from __future__ import annotations

from dataclasses import dataclass

from .levels import factor
from .nest import Combine, Guard, Line, Loop, Node, Put, Stop, Update, unrolled, without_unused
from .schedule import NONE, Fuse, Pos, Race, Schedule, ScheduleError, Split
from .statement import Access, Name, accesses, names, render
from .time_levels import Progression


@dataclass
class Nest:
    """A lowered schedule. `parallel` is how many iterations the loop has that threads or blocks share."""

    body: list[Node]
    setup: list[Node]
    parallel: str
    kept: int  # leading dimensions of the output that a carried row stands for; 0 where nothing is carried


def lower(schedule: Schedule) -> Nest:
    """The nest of a complete schedule."""
    return _Lowering(schedule.complete()).run()


def minus(end: str, begin: str) -> str:
    return end if begin == "0" else f"{end} - {factor(begin)}"


class _Lowering:
    def __init__(self, schedule: Schedule) -> None:
        self.s = schedule
        self.st = schedule.statement
        self.out = set(self.st.output.indices)
        self.body: list[Node] = []
        self.setup: list[Node] = []
        self.known: set[str] = set()
        self.at: dict[tuple[str, int], str] = {}  # position at (tensor, level)
        self.span_of: dict[str, tuple[str, str]] = {}  # begin and end of a position loop
        self.values: dict[Access, str] = {}  # loaded once, used inside
        self.sizes: dict[str, str] = {}  # local names by what they stand for
        self.used: set[int] = set()  # conditions that hold here
        self.low_high: dict[str, tuple[str, str]] = {}  # where a block's positions lie
        self.parallel = "1"
        self.kept = 0
        self.depth = 0
        self.walking: set[str] = set()  # positions whose owners are walked, not searched
        self.flushed: Pos | None = None  # the position loop along which the sum is handed over row by row
        self.stops: list[list[Node]] = []  # bodies of loops that end once something is found
        self.runs = {self.run_of(p): p for p in self.positions()}
        self.summed = self.place_of_sum()

    # Names

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

    # Structure

    def positions(self) -> list[Pos]:
        return [relation for relation in self.s.relations if isinstance(relation, Pos)]

    def covered(self, p: Pos) -> list[tuple[int, str]]:
        """The levels that a position loop runs over, with their indices."""
        roots = self.s.roots(p.position)
        _, last = self.s.iterator([*roots][-1]) or ("", 0)
        return list(zip(range(last - len(roots) + 1, last + 1), roots, strict=True))

    def run_of(self, p: Pos) -> tuple[int, int]:
        """The loops [first, last) over which positions only grow, so that owners are searched once, then walked."""
        leaves = self.s.leaves(p.position)
        last = max(self.s.loops.index(leaf) for leaf in leaves)
        tag = self.s.tag(self.s.loops[last])
        first = last + 1
        while first and not ((t := self.s.tag(self.s.loops[first - 1])) and t[0] != "vector"):
            run = self.s.loops[first - 1 : last + 1]
            if len(run) > 1 and run != leaves[-len(run) :]:
                break
            if run[0] not in leaves:
                break
            first -= 1
        return (first, last + 1) if not tag or tag[0] == "vector" else (last + 1, last + 1)

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

    # Extents

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
        q = self.at[p.tensor, first - 1] if first else "0"
        begin, end = q, "1" if q == "0" else f"{q} + 1"
        for number in range(first, level + 1):
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

    # The walk down the loops

    def run(self) -> Nest:
        top = self.body
        producers = self.s.producers()
        self.settle()
        for depth, loop in enumerate(self.s.loops):
            self.depth = depth
            if producers and loop == producers[0]:
                self.open_workspace(producers)
                return self.finish(top)
            self.before(depth)
            self.open(loop)
        self.depth = len(self.s.loops)
        self.before(self.depth)
        self.store()
        return self.finish(top)

    def finish(self, top: list[Node]) -> Nest:
        body = unrolled(top, self.st.semiring.add)
        used = without_unused([*self.setup, *body])
        setup = [node for node in used if any(node is line for line in self.setup)]
        return Nest([node for node in used if node not in setup], setup, self.parallel, self.kept)

    def before(self, depth: int) -> None:
        """What stands before a loop: the search of a run's owners, a sum at zero."""
        for (first, last), p in self.runs.items():
            if first == depth and first < last:
                self.search(p)
        if depth == self.summed and depth < len(self.s.loops):
            self.body.append(Line("acc", "zero"))
            self.sum_body = self.body

    def open(self, loop: str) -> None:
        tag = self.s.tag(loop)
        onto, race = tag or ("", NONE)
        unroll = 0
        if loop in self.s.unrolled:
            made = self.s.maker(loop)
            unroll = made.factor if isinstance(made, Split) else int(self.size(loop))
        root = next(iter(self.s.roots(loop)))
        found = self.s.iterator(root)
        if found and not self.s.position(loop) and self.s.carrier(root) == loop:
            begin, end, name = *self.stored_span(root, *found), f"p{found[0]}{found[1]}"
            self.at[found] = name
        elif isinstance(made := self.s.maker(loop), Pos):
            begin, end = self.span(made) if tag else self.edges(made, self.covered(made)[-1][0])
            name = loop
        else:
            begin, end, name = "0", self.extent(loop), loop
        if onto in ("threads", "block"):
            if begin != "0":
                raise ScheduleError(f"parallelize of {loop}: it walks positions; take pos, then split it")
            self.parallel = end
        if len(self.s.firsts) > 1 and loop == self.s.firsts[0]:
            self.body.append(Put("found", "False"))
        made = Loop(name, begin, end, onto=onto, race=race, unroll=unroll)
        if loop in self.s.firsts[:-1]:
            self.stops.append(made.body)
        self.body.append(made)
        self.body = made.body
        self.known.add(loop)
        if found and not self.s.position(loop) and self.s.carrier(root) == loop:
            made.walked = self.bottom(*found)
            self.arrive(root, *found)
        if onto == "block":
            self.narrow(loop)
        self.settle()

    def bottom(self, tensor: str, number: int) -> bool:
        return number == len(self.s.formats[tensor].levels) - 1

    def stored_span(self, root: str, tensor: str, number: int) -> tuple[str, str]:
        """The stored coordinates of an index that its tile and the conditions allow."""
        level, at = self.level(tensor, number), self.names(tensor, number)
        q = self.at[tensor, number - 1] if number else "0"
        begin, end = (self.below(tensor, number, edge) for edge in (q, "1" if q == "0" else f"{q} + 1"))
        cuts: list[tuple[str, str]] = []
        used = self.s.user(root)
        if used is not None:
            cuts = [(">=", self.start(root)), ("<", f"{self.start(root)} + {self.tile(root)}")]
        if level.ordered and not isinstance(level, Progression):
            for place, node in enumerate(self.st.where):
                found = self.s.at_least(node)
                if found and found[0] == root and names(found[2]) - set(self.st.scalars) <= self.known:
                    cuts.append((found[1], self.text(found[2])))
                    self.used.add(place)
        for symbol, key in cuts:
            key = f"{key} + 1" if symbol in ("<=", ">") else key
            cut = level.seek(at, begin, end, key)
            name = f"p{tensor}{number}_{'begin' if symbol in ('>', '>=') else 'end'}"
            place = self.body if self.known else self.setup
            while any(isinstance(node, Line) and node.name == name for node in place):
                name += "_"
            place.append(Line(name, cut))
            begin, end = (name, end) if symbol in (">", ">=") else (begin, name)
        return begin, end

    def tile(self, root: str) -> str:
        """Coordinates in a tile of an index whose level is walked."""
        used = self.s.user(root)
        carrier = self.s.carrier(root)
        if isinstance(used, Split) and used.inner == carrier:
            return self.block_of(used)
        return self.extent(carrier)

    def arrive(self, root: str, tensor: str, number: int) -> None:
        """The coordinate at a position that was walked to."""
        level, at, p = self.level(tensor, number), self.names(tensor, number), self.at[tensor, number]
        if not isinstance(level, Progression):
            self.body.append(Line(root, level.coord(at, p)))
            self.known.add(root)
            return
        lower = None
        for place, node in enumerate(self.st.where):
            found = self.s.at_least(node)
            if found and found[0] == root and found[1] == ">=" and lower is None:
                lower = self.text(found[2])
                self.used.add(place)
        begin, end, step = level.terms(at, p, lower)
        if root in self.s.firsts:
            self.body.append(Line(root, begin))
            inside: Node = Guard("if", f"{root} < {end}")
        else:
            inside = Loop(root, begin, end, step)
        self.body.append(inside)
        self.body = inside.body
        self.known.add(root)

    def settle(self) -> None:
        """Write down what follows from the loops that are open."""
        while any([self.recover(), self.locate()]):
            pass
        for place, node in enumerate(self.st.where):
            if place not in self.used and names(node) - set(self.st.scalars) <= self.known:
                self.used.add(place)
                if not (isinstance(node, Access) and node.tensor in self.s.formats):
                    self.guard(render(node, self.leaf))
        if self.depth < len(self.s.loops) - 1:
            self.load()

    def recover(self) -> bool:
        for relation in self.s.relations:
            match relation:
                case Split(parent, outer, inner):
                    if {outer, inner} <= self.known and parent not in self.known:
                        made = self.s.maker(parent)
                        begin = f"{self.span(made)[0]} + " if isinstance(made, Pos) else ""
                        value = f"{begin}{outer} * {self.block_of(relation)} + {inner}"
                        self.body.append(Line(parent, value, index=made is None))
                        self.known.add(parent)
                        return True
                case Fuse(outer, inner, fused):
                    if fused in self.known and inner not in self.known and not isinstance(self.s.user(fused), Pos):
                        count = factor(self.extent(inner))
                        made = self.s.maker(outer)
                        begin = f"{self.span(made)[0]} + " if isinstance(made, Pos) else ""
                        self.body += [Line(outer, f"{begin}{fused} // {count}"), Line(inner, f"{fused} % {count}")]
                        for line in self.body[-2:]:
                            line.index = self.s.maker(line.name) is None
                        self.known |= {outer, inner}
                        return True
                case Pos(parent, position):
                    if position in self.known and parent not in self.known:
                        self.known.add(parent)
                        self.descend(relation)
                        return True
        return False

    def locate(self) -> bool:
        """Positions of operands at coordinates that are known."""
        for tensor, form in self.s.sparse:
            for number, level in enumerate(form.levels):
                index = self.s.level_index(tensor, number)
                if (tensor, number) in self.at or index not in self.known:
                    continue
                if number and not ((tensor, number - 1) in self.at and self.s.level_index(tensor, number - 1) in self.known):
                    break
                q, at, name = self.at.get((tensor, number - 1), "0"), self.names(tensor, number), f"p{tensor}{number}"
                if level.full:
                    first = self.below(tensor, number, q)
                    if first != "0":
                        self.body.append(Line(name, f"{first} + {index}"))
                    self.at[tensor, number] = index if first == "0" else name
                    return True
                if not level.ordered or not level.unique or isinstance(level, Progression):
                    raise ScheduleError(f"{tensor} cannot be searched for {index}: its level is not ordered and unique")
                begin, end = (self.below(tensor, number, edge) for edge in (q, "1" if q == "0" else f"{q} + 1"))
                self.body += [Line(name, level.seek(at, begin, end, index))]
                self.guard(f"{name} < {end} and {level.coord(at, name)} == {index}")
                self.at[tensor, number] = name
                return True
        return False

    def guard(self, condition: str) -> None:
        made = Guard("if", condition)
        self.body.append(made)
        self.body = made.body

    def load(self) -> None:
        """Values that inner loops use again."""
        reads = [a for node in self.st.products[0] for a in accesses(node)]
        for access in dict.fromkeys(reads):
            ready = set(access.indices) <= self.known and access.indices
            if access.tensor in self.s.formats:
                form = self.s.formats[access.tensor]
                ready = ready and (access.tensor, len(form.levels) - 1) in self.at
            if ready and access not in self.values:
                name = f"{access.tensor}_{''.join(access.indices)}"
                self.body.append(Line(name, self.leaf(access)))
                self.values[access] = name

    # Positions of fused levels

    def narrow(self, loop: str) -> None:
        """Where the positions of a CUDA block lie: its threads search only there."""
        for p in self.positions():
            leaves = self.s.leaves(p.position)
            if loop not in leaves or leaves[-1] == loop:
                continue
            made = self.s.maker(loop)
            direct = isinstance(made, Split) and made.parent == p.position and loop == made.outer and not made.divide
            if not isinstance(made, Split) or not direct or not self.searched(p):
                continue
            size = made.factor
            for number, _ in self.covered(p)[1:]:
                if not self.level(p.tensor, number).searched:
                    return
            q_first, q_last = self.start_position(p), f"min({self.start_position(p)} + {size}, {self.span(p)[1]}) - 1"
            for number, _ in reversed(self.covered(p)[1:]):
                level, at = self.level(p.tensor, number), self.names(p.tensor, number)
                low, high = self.edges(p, number - 1)
                name = self.position_name(p.tensor, number - 1)
                first = level.owner(at, q_first, low, high)
                last = level.owner(at, q_last, f"{name}_low", high)
                self.body += [Line(f"{name}_low", first), Line(f"{name}_high", last.removesuffix(" - 1"))]
                self.low_high[name] = f"{name}_low", f"{name}_high"
                q_first, q_last = f"{name}_low", f"{name}_high - 1"

    def searched(self, p: Pos) -> bool:
        return any(self.level(p.tensor, number).searched for number, _ in self.covered(p)[1:])

    def position_name(self, tensor: str, number: int) -> str:
        """The name of a position; at a dense outermost level it is the coordinate."""
        whole_level = number == 0 and self.level(tensor, 0).full
        return self.s.level_index(tensor, 0) if whole_level else f"p{tensor}{number}"

    def owner_lines(self, p: Pos, q: str, search: bool) -> None:
        """Positions of all levels above position `q` of the last one, found by search or by walking on."""
        row = self.row_level(p) if self.flushed == p else None
        body = self.body
        for number, _ in reversed(self.covered(p)[1:]):
            level, at = self.level(p.tensor, number), self.names(p.tensor, number)
            name = self.position_name(p.tensor, number - 1)
            if level.searched and not search:
                passed = f"{q} >= {self.below(p.tensor, number, f'{name} + 1')}"
                on = Guard("while", passed, [Put(name, f"{name} + 1")])
                if number - 1 == row:
                    # A row ends here: its sum is handed over. What is above can only change together with it.
                    end = Guard("if", passed, [*self.hand_over(), Put("acc", "zero"), on])
                    self.body.append(end)
                    self.body = end.body
                else:
                    self.body.append(on)
                q = name
            else:
                low, high = self.low_high.get(name) or self.edges(p, number - 1)
                value = level.owner(at, q, low, high)
                if value != q:
                    self.body.append(Line(name, value))
                    q = name
            self.at[p.tensor, number - 1] = q
        if row is not None and self.body is not body:
            self.row_lines(p)
        self.body = body

    def row_lines(self, p: Pos) -> None:
        """Coordinates of the row that a sum belongs to."""
        for number, index in self.covered(p):
            if number <= (self.row_level(p) or 0):
                value = self.coordinate(p, number, index)
                if value != index:
                    self.body.append(Put(index, value))

    def coordinate(self, p: Pos, number: int, index: str) -> str:
        level, q = self.level(p.tensor, number), self.at[p.tensor, number]
        return q if level.full and number == 0 else level.coord(self.names(p.tensor, number), q)

    def search(self, p: Pos) -> None:
        """Owners at the start of a run, by search."""
        self.walking.add(p.position)
        q = self.start_position(p)
        first, last = next(run for run, other in self.runs.items() if other == p)
        leaves = self.s.leaves(p.position)
        outside = tuple(loop for loop in self.s.loops[:first] if loop in leaves)
        blocks = outside and outside + self.s.loops[first:last] == leaves  # a block of an outer loop is never empty
        if self.flushed == p and not blocks:
            self.guard(f"{q} < {self.span(p)[1]}")
        self.at[p.tensor, self.covered(p)[-1][0]] = q
        self.owner_lines(p, q, search=True)
        if self.flushed == p:
            self.row_lines(p)
            self.keep_first_row(p)

    def descend(self, p: Pos) -> None:
        """From a position to the owners and coordinates of all its levels."""
        covered, walked = self.covered(p), p.position in self.walking
        self.at[p.tensor, covered[-1][0]] = p.position
        flushed = walked and self.flushed == p
        row = self.row_level(p) if flushed else None
        self.owner_lines(p, p.position, search=not walked)
        if row is not None and not self.searched(p):
            rows = {index: self.coordinate(p, number, index) for number, index in covered if number <= row}
            changed = " or ".join(f"{value} != {index}" for index, value in rows.items())
            end: list[Node] = [*self.hand_over(), Put("acc", "zero")]
            self.body.append(Guard("if", changed, [*end, *(Put(index, value) for index, value in rows.items())]))
        for number, index in covered:
            if row is not None and number <= row:
                continue
            if isinstance(self.level(p.tensor, number), Progression):
                self.arrive(index, p.tensor, number)
            elif (value := self.coordinate(p, number, index)) != index:
                self.body.append(Line(index, value))
        self.known |= {index for _, index in covered}

    # What is added where

    def leaf(self, node) -> str:
        """The text of a value."""
        if not isinstance(node, Access):
            return str(node)
        if node in self.values:
            return self.values[node]
        if node.tensor in self.s.formats:
            last = len(self.s.formats[node.tensor].levels) - 1
            return f"{node.tensor}_val[{self.at[node.tensor, last]}]"
        return str(node)

    def text(self, node) -> str:
        return render(node, self.leaf)

    def product(self, factors) -> str:
        parts = [
            factor(self.text(node)) if not isinstance(node, Access | Name) else self.text(node) for node in factors
        ]
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
        return made

    def store(self) -> None:
        """The product, and what happens to the sum after its loops."""
        if self.summed == len(self.s.loops):
            race = self.races()
            if race.kind == "carry":
                raise ScheduleError(
                    f"{race.kind} of {self.s.tags[0][0]}: the sum of a row must end inside the block; put the position "
                    f"loop innermost, with the rows of {self.st.output} the leading levels"
                )
            self.body.append(self.update(self.product(self.st.products[0]), race))
            self.stop_at_first()
            return
        self.body.append(Update("acc", self.product(self.st.products[0])))
        self.stop_at_first()
        self.body = self.sum_body
        width = next((race.width for _, _, race in self.s.tags if race.kind == "shuffle"), 0)
        if self.flushed:
            self.body += self.hand_over(last=True)
        elif width:
            self.body.append(Combine("acc", width, [self.update("acc", self.races())]))
        else:
            if self.races().kind == "carry":
                raise ScheduleError(
                    f"carry of {self.s.tags[0][0]}: no row spans two blocks; leave the race out or split pos"
                )
            self.body.append(self.update("acc", self.races()))

    def stop_at_first(self) -> None:
        """Leave the loops of `first` after the innermost group that found something."""
        firsts = self.s.firsts
        last = self.s.iterator(firsts[-1]) if firsts else None
        if last and not isinstance(self.level(*last), Progression):
            self.body.append(Stop())
        if len(firsts) > 1:
            self.body.insert(len(self.body) - isinstance(self.body[-1], Stop), Put("found", "True"))
            for body in self.stops:
                body.append(Guard("if", "found", [Stop()]))

    def hand_over(self, last: bool = False) -> list[Node]:
        """Add the sum of a row that ends to the output; the first and last of a block are kept aside if carried."""
        race = self.races()
        if race.kind != "carry":
            return [self.update("acc", race)]
        _, at = self.target()
        block, rest = self.s.tags[0][0], at[self.kept :]
        rows = at[: self.kept]
        first = " and ".join(f"{row} == {row}_first" for row in rows)
        aside = [", ".join((f"2 * {block}{side}", *rest)) for side in ("", " + 1")]
        head = Update(f"aside[{aside[0]}]", "acc")
        if not last:
            return [Guard("if", first, [head], [self.update("acc", NONE)])]
        marks: list[Node] = [Put(f"aside_row[2 * {block} + 1, {n}]", row) for n, row in enumerate(rows)]
        return [Guard("if", first, [head], [Update(f"aside[{aside[1]}]", "acc"), *marks])]

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

    # Workspace

    def open_workspace(self, producers: tuple[str, ...]) -> None:
        """Fill the workspace, then multiply it by the rest."""
        made = self.s.workspace
        assert made
        w, index, count = made.workspace, made.index, self.size(made.index)
        if self.races().kind == "carry":
            raise ScheduleError(f"precompute into {w}: rows of a workspace are not carried; take atomic or private")
        if self.s.cuda and not count.isdigit():
            raise ScheduleError(f"precompute over {index} on CUDA: bound({index}) must say how large the workspace is")
        if taken := next((loop for loop in producers if self.s.tag(loop)), None):
            raise ScheduleError(f"precompute into {w}: {taken} fills it and cannot run on {self.s.tag(taken)[0]}")
        self.setup.append(Line(w, f"cuda.local.array({count}, dtype)" if self.s.cuda else f"empty({count}, dtype)"))
        outside, state = self.body, (set(self.known), dict(self.at), dict(self.values))
        clear = Loop(index, "0", count, body=[Put(f"{w}[{index}]", "zero")])
        self.body.append(clear)
        for loop in producers:
            self.depth = self.s.loops.index(loop)
            self.before(self.depth)
            self.open(loop)
        self.body.append(Update(f"{w}[{index}]", self.product(made.factors)))
        self.known, self.at, self.values = state
        self.known.add(index)
        rest = [node for node in self.st.products[0] if node not in made.factors]
        self.body = outside
        last = Loop(index, "0", count)
        self.body.append(last)
        self.body = last.body
        self.locate()
        value = f"{w}[{index}] {self.st.semiring.product} {self.product(rest)}"
        self.body.append(self.update(value, self.races()))
