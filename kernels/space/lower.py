"""From a schedule to a loop nest.

Loops open from the outermost in. After each one, everything that has become known is written down: indices recovered
from split loops, positions and coordinates of levels, conditions, values. Below the loops stands one update of the
output, or of a sum that is added to the output once no deeper loop can change the entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .levels import factor
from .nest import Combine, Guard, Line, Loop, Node, Put, Stop, Sync, Update, unrolled, without_unused
from .owners import Owners
from .relations import ATOMIC, NONE, Fuse, Pos, ScheduleError, Split
from .schedule import Schedule
from .statement import Access, accesses, names
from .time_levels import Progression


@dataclass
class Nest:
    """A lowered schedule.

    `parallel` is how many iterations the loop has that threads or blocks share; `starts` finds where each of them, and
    one more, begins: in arrays of that name. `whole` tells that every entry of the output is written, once.
    """

    body: list[Node]
    setup: list[Node]
    starts: list[Node]
    parallel: str
    whole: bool
    kept: int  # leading dimensions of the output that a carried row stands for; 0 where nothing is carried


def lower(schedule: Schedule, active: str = "") -> Nest:
    """The nest of a complete schedule; `active` as of `rounds.Rounds`."""
    return _Lowering(schedule.complete(), active).run()


class _Lowering(Owners):
    def run(self) -> Nest:
        top = self.body
        producers = self.s.producers()
        self.settle()
        for depth, loop in enumerate(self.s.loops):
            self.depth = depth
            if producers and loop == producers[0]:
                self.open_workspace(producers)
                return self.finish(top)
            tag, position = self.s.tag(loop), self.s.position(loop)
            if tag and position and tag[1].kind == "staged":
                self.stage(loop, position)
                return self.finish(top)
            self.before(depth)
            self.open(loop)
        self.depth = len(self.s.loops)
        self.before(self.depth)
        self.store()
        return self.finish(top)

    def finish(self, top: list[Node]) -> Nest:
        body = unrolled(top, self.st.semiring.add)
        used = without_unused([*self.setup, *body, *self.starts])
        places = {id(node): place for place in (self.setup, self.starts) for node in place}
        body, setup, starts = (
            [n for n in used if places.get(id(n), body) is own] for own in (body, self.setup, self.starts)
        )
        return Nest(body, setup, starts, self.parallel, self.complete, self.kept)

    def before(self, depth: int) -> None:
        """What stands before a loop: the search of a run's owners, a sum at zero."""
        for (first, last), p in self.runs.items():
            if first == depth and first < last:
                self.search(p)
        if depth == self.summed and depth < len(self.s.loops) and not self.by_rows(self.s.loops[depth]):
            self.body.append(Line("acc", self.bound()))
            self.sum_body, self.sum_values = self.body, dict(self.values)
            self.complete = self.whole()

    def open(self, loop: str) -> None:
        if self.flushed and self.by_rows(loop):
            self.open_rows(loop, self.flushed)
            self.settle()
            return
        tag = self.s.tag(loop)
        onto, race = tag or ("", NONE)
        by = self.s.written(loop)
        unroll, part = by or (self.s.constant(loop) or 0 if by == 0 else 0), bool(by)
        root = next(iter(self.s.roots(loop)))
        found = self.s.iterator(root)
        if found and not self.s.position(loop) and self.s.carrier(root) == loop:
            begin, end, name = *self.stored_span(root, *found), f"p{found[0]}{found[1]}"
            self.at[found] = name
        elif isinstance(made := self.s.maker(loop), Pos):
            begin, end = self.span(made) if tag or by else self.edges(made, self.covered(made)[-1][0])
            name = loop
        else:
            begin, end, name = *self.dense_span(loop), loop
        if onto in ("threads", "block"):
            if begin != "0":
                raise ScheduleError(f"parallelize of {loop}: it walks positions; take pos, then split it")
            self.parallel = end
        if len(self.s.firsts) > 1 and loop == self.s.firsts[0]:
            self.body.append(Put("found", "False"))
        made = Loop(name, begin, end, onto=onto, race=race, unroll=unroll, part=part)
        if loop in self.s.firsts[:-1]:
            self.stops.append(made.body)
        elif self.s.firsts:
            self.last = made.body
        self.body.append(made)
        self.body = made.body
        self.known.add(loop)
        if found and not self.s.position(loop) and self.s.carrier(root) == loop:
            made.walked = self.bottom(*found)
            self.arrive(root, *found)
        if onto == "block":
            self.narrow(loop)
        self.settle()

    def dense_span(self, loop: str) -> tuple[str, str]:
        """The iterations of a loop; of a whole dimension that `first` goes through those that the conditions allow.

        Beside progressions they compare whole numbers (see `arguments`); a fraction is no bound of a loop.
        """
        begin, end = "0", self.extent(loop)
        progressions = any(isinstance(level, Progression) for _, form in self.s.sparse for level in form.levels)
        if loop not in self.s.firsts or not progressions:
            return begin, end
        for symbol, key in self.cuts(loop):
            self.guarded = True
            key = f"{factor(key)} + 1" if symbol in ("<=", ">") else key
            if symbol in (">", ">="):
                begin = f"max({key}, {begin})"
            else:
                end = f"min({key}, {end})"
        return begin, end

    def cuts(self, root: str) -> Iterator[tuple[str, str]]:
        """Conditions that bound an index by what is known: comparisons and keys; they hold from here on."""
        for place, node in enumerate(self.st.where):
            found = self.s.at_least(node)
            ready = found and found[0] == root and names(found[2]) - set(self.st.scalars) <= self.known
            if found and ready and place not in self.used:
                self.used.add(place)
                yield found[1], self.text(found[2])

    def stored_span(self, root: str, tensor: str, number: int) -> tuple[str, str]:
        """The stored coordinates of an index that its tile and the conditions allow."""
        level, at = self.level(tensor, number), self.names(tensor, number)
        begin, end = self.segment(tensor, number)
        cuts: list[tuple[str, str]] = []
        used = self.s.user(root)
        if used is not None:
            cuts = [(">=", self.start(root)), ("<", f"{self.start(root)} + {self.tile(root)}")]
        if level.ordered and not isinstance(level, Progression) and root not in self.s.scanned:
            cuts += self.cuts(root)
        for symbol, key in cuts:
            cut = level.seek(at, begin, end, key, after=symbol in ("<=", ">"))
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

    def settle(self) -> None:
        """Write down what follows from the loops that are open."""
        while any([self.recover(), self.locate()]):
            pass
        compared: list[str] = []
        for place, node in enumerate(self.st.where):
            if place in self.used or not names(node) - set(self.st.scalars) <= self.known:
                continue
            self.used.add(place)
            if not isinstance(node, Access):
                compared.append(self.text(node))
            elif node.tensor not in self.s.formats:
                self.compare(compared)
                self.guard(self.text(node))
                if node.tensor == self.active:
                    self.load_output()
        self.compare(compared)
        if self.depth < len(self.s.loops) - 1:
            self.load()

    def compare(self, conditions: list[str]) -> None:
        """Guards. A GPU loads what all of them compare at once, where it would wait for one after the other."""
        if self.s.cuda and len(conditions) > 1:
            conditions[:] = [" & ".join(f"({condition})" for condition in conditions)]
        for condition in conditions:
            self.guard(condition)
        conditions.clear()

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
                        self.body.append(Line(outer, f"{begin}{fused} // {count}", index=made is None))
                        self.body.append(Line(inner, f"{fused} % {count}", index=self.s.maker(inner) is None))
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
            if tensor in dict(self.s.along):
                continue
            for number, level in enumerate(form.levels):
                index = self.s.level_index(tensor, number)
                if (tensor, number) in self.at or index not in self.known:
                    continue
                if number and not (
                    (tensor, number - 1) in self.at and self.s.level_index(tensor, number - 1) in self.known
                ):
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
                begin, end = self.segment(tensor, number)
                self.body += [Line(name, level.seek(at, begin, end, index))]
                self.guard(f"{name} < {end} and {level.coord(at, name)} == {index}")
                self.at[tensor, number] = name
                return True
        return False

    def load(self) -> None:
        """Values that inner loops use again."""
        reads = [a for node in self.st.products[0] for a in accesses(node)]
        for access in dict.fromkeys(reads):
            ready = set(access.indices) <= self.known and access.indices
            if access.tensor in self.s.formats:
                form = self.s.formats[access.tensor]
                ready = ready and (self.holder(access.tensor), len(form.levels) - 1) in self.at
            if ready and access not in self.values:
                name = f"{access.tensor}_{''.join(access.indices)}"
                self.body.append(Line(name, self.leaf(access)))
                self.values[access] = name

    def load_output(self) -> None:
        """In rounds: what conditions and the product read of the output, all at once."""
        for access in (a for node in (*self.st.where, *self.st.products[0]) for a in accesses(node)):
            if access.tensor == self.st.output.tensor and set(access.indices) <= self.known:
                self.leaf(access)

    def store(self) -> None:
        """The product, and what happens to the sum after its loops."""
        lane, width = next(((loop, race.width) for loop, _, race in self.s.tags if race.kind == "shuffle"), ("", 0))
        if lane and (self.flushed or self.s.loops.index(lane) < self.summed):
            raise ScheduleError(f"shuffle over {lane}: loops of the output or of rows that end stand inside it")
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
        product = self.product(self.st.products[0])
        self.body.append(Update("acc", product))
        self.stop_at_first(product)
        self.body, self.values = self.sum_body, self.sum_values
        if self.flushed and any(map(self.by_rows, self.s.loops)):
            p = self.flushed.position
            self.body += [*self.hand_over(f"{p}_row == {p}_stop"), Put(f"{p}_next", f"{p}_row")]
        elif self.flushed:
            self.body += self.hand_over("True")
        elif width:
            lane = "cuda.threadIdx.x % LANES"
            self.body.append(Combine("acc", "LANES", lane, [self.added("acc")]))
        else:
            if self.races().kind == "carry":
                raise ScheduleError(
                    f"carry of {self.s.tags[0][0]}: no row spans two blocks; leave the race out or split pos"
                )
            self.body.append(self.added("acc"))

    def added(self, value: str) -> Node:
        """The sum goes to the output."""
        return self.alone(value) if self.complete else self.update(value, self.races())

    def bound(self) -> str:
        """What a sum begins with: in rounds the entry that it is to lower, where that has been read."""
        return self.values.get(self.st.output, "zero") if self.active else "zero"

    def stop_at_first(self, product: str = "") -> None:
        """Leave the loops of `first` after the innermost group that found something.

        Progressions are left before one that begins too late to lower the sum: the following ones begin no earlier.
        """
        firsts = self.s.firsts
        loop = firsts[-1] if firsts else ""
        last = self.s.iterator(loop) if loop else None
        if last and not isinstance(self.level(*last), Progression):
            self.body.append(Stop())
        elif last and product:
            least = re.sub(rf"\b{loop}\b", f"{self.at[last]}_first", product)
            found: list[Node] = [Put("found", "True")] if len(firsts) > 1 else []
            term = next(n for n, node in enumerate(self.last) if isinstance(node, Line) and node.name == loop)
            self.last.insert(term, Guard("if", f"{least} >= acc", [*found, Stop(early=True)]))
        if len(firsts) > 1:
            self.body.insert(len(self.body) - isinstance(self.body[-1], Stop), Put("found", "True"))
            for body in self.stops:
                body.append(Guard("if", "found", [Stop()]))

    def open_workspace(self, producers: tuple[str, ...]) -> None:
        """Fill the workspace, then multiply it by the rest."""
        made = self.s.workspace
        assert made
        w, index, count = made.workspace, made.index, self.size(made.index)
        if self.races().kind == "carry":
            raise ScheduleError(f"precompute into {w}: rows of a workspace are not carried; take atomic or private")
        if self.s.cuda and not count.isdigit():
            raise ScheduleError(f"precompute over {index} on CUDA: bound({index}) must say how large the workspace is")
        if taken := next((tag for tag in self.s.tags if tag[0] in producers or tag[2].kind == "shuffle"), None):
            raise ScheduleError(f"precompute into {w}: {taken[0]} cannot run on {taken[1]}")
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

    def stage(self, loop: str, p: Pos) -> None:
        """Products of a block in shared memory; then rows to threads, or to several lanes where there are few.

        Only the first and the last row are shared with other blocks.
        """
        (last, index), made = self.covered(p)[-1], self.s.user(p.position)
        row = self.position_name(p.tensor, last - 1)
        reads = {i for access in self.s.read() if access.tensor != p.tensor for i in access.indices}
        if self.row_level(p) != last - 1 or row not in self.low_high or reads & self.out or not isinstance(made, Split):
            raise ScheduleError(
                f"staged {loop}: the rows are those of the level above {index}, their block is a loop over blocks of "
                f"{p.position}, and only {p.tensor} may depend on them"
            )
        begin, stop = f"{p.position}_first", f"{p.position}_stop"
        self.setup.append(Line("staged", f"cuda.shared.array({made.factor}, dtype)"))
        self.body += [Line(begin, self.start_position(p)), Line(stop, f"{begin} + {self.extent(made.inner)}")]
        outside, products = self.body, Loop(loop, "0", self.extent(loop), onto="thread")
        self.body = products.body
        self.at[p.tensor, last] = p.position
        self.known |= {loop, p.parent}
        self.settle()
        for inner in self.s.loops[self.depth + 1 :]:
            self.open(inner)
        self.body.append(Line(index, self.coordinate(p, last, index)))
        self.known.add(index)
        self.body.append(Put(f"staged[{made.inner}]", self.product(self.st.products[0])))
        low, high = self.low_high[row]
        rows = Loop(row, f"{low} + (cuda.threadIdx.x >> shift)", high, "cuda.blockDim.x >> shift")
        share = [Line("shift", f"lanes_of({high} - {low})"), Line("lanes", "1 << shift")]
        outside += [products, *share, Line("lane", "cuda.threadIdx.x & lanes - 1"), Sync(), rows, Sync()]
        self.body = rows.body
        self.at[p.tensor, last - 1] = row
        self.row_lines(p)
        ends = [self.below(p.tensor, last, edge) for edge in (row, f"{row} + 1")]
        mine = f"max({ends[0]}, {begin}) - {begin} + lane"
        inside = Loop(f"{p.position}_at", mine, f"min({ends[1]}, {stop}) - {begin}", "lanes")
        inside.body.append(Update("acc", f"staged[{p.position}_at]"))
        add = Guard("if", f"{row} == {low} or {row} == {high} - 1", [self.update("acc", ATOMIC)], [self.alone("acc")])
        self.body += [Put("acc", "zero"), inside, Combine("acc", "lanes", "lane", [add])]
