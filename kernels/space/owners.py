"""Positions of fused levels: the owners of a position are searched where a run begins, then walked."""

from __future__ import annotations

from .nest import Guard, Line, Loop, Node, Put
from .relations import Pos, Split
from .sums import Sums
from .time_levels import Progression


class Owners(Sums):
    def guard(self, condition: str) -> None:
        self.guarded = True
        made = Guard("if", condition)
        self.body.append(made)
        self.body = made.body

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
        first, last, stride = level.terms(at, p)
        if root in self.s.firsts:  # a GPU loads all three at once
            names = f"{p}_first", f"{p}_last", f"{p}_stride"
            self.body += [Line(*one) for one in zip(names, (first, last, stride), strict=True)]
            first, last, stride = names
        begin = f"term({first}, {stride}, {lower})" if lower else first
        if root in self.s.firsts:
            self.body.append(Line(root, begin))
            inside: Node = Guard("if", f"{root} <= {last}")
        else:
            inside = Loop(root, begin, f"{last} + 1", stride)
        self.body.append(inside)
        self.body = inside.body
        self.known.add(root)

    def narrow(self, loop: str) -> None:
        """Where the positions of a CUDA block lie, which a launch before has found: its threads search only there."""
        for p in self.positions():
            leaves = self.s.leaves(p.position)
            if loop not in leaves or leaves[-1] == loop:
                continue
            made = self.s.maker(loop)
            direct = isinstance(made, Split) and made.parent == p.position and loop == made.outer and not made.divide
            if not isinstance(made, Split) or not direct or not self.searched(p):
                continue
            for number, _ in self.covered(p)[1:]:
                if not self.level(p.tensor, number).searched:
                    return
            q = f"min({self.start_position(p)}, {self.span(p)[1]} - 1)"
            for number, _ in reversed(self.covered(p)[1:]):
                level, at = self.level(p.tensor, number), self.names(p.tensor, number)
                name = self.position_name(p.tensor, number - 1)
                owner = level.owner(at, q, *self.edges(p, number - 1))
                self.starts += [Line(name, owner), Put(f"{name}_starts[{loop}]", name)]
                low, high = f"{name}_starts[{loop}]", f"{name}_starts[{loop} + 1] + 1"
                self.body += [Line(f"{name}_low", low), Line(f"{name}_high", high)]
                self.low_high[name], q = (f"{name}_low", f"{name}_high"), name

    def position_name(self, tensor: str, number: int) -> str:
        """The name of a position; at a dense outermost level it is the coordinate."""
        whole_level = number == 0 and self.level(tensor, 0).full
        return self.s.level_index(tensor, 0) if whole_level else f"p{tensor}{number}"

    def owner_lines(self, p: Pos, q: str, search: bool, rows: bool = False) -> None:
        """Positions of all levels above position `q` of the last one, found by search or by walking on.

        On the way a row's sum is handed over where the row ends, unless the loop is one over rows.
        """
        row = self.row_level(p) if self.flushed == p and not rows else None
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

    def open_rows(self, loop: str, p: Pos) -> None:
        """The loops over the rows of a block, and over the positions of a row."""
        begin, following, stop, end = (f"{p.position}_{part}" for part in ("first", "next", "stop", "row"))
        (last, index), whole = self.covered(p)[-1], loop == p.position
        self.body += [Line(begin, self.start_position(p)), Put(following, begin)]
        self.body.append(Line(stop, self.span(p)[1] if whole else f"{begin} + {self.extent(loop)}"))
        rows = Guard("while", f"{following} < {stop}")
        self.body.append(rows)
        self.body = rows.body
        self.owner_lines(p, following, search=False, rows=True)
        self.row_lines(p)
        after = self.below(p.tensor, last, f"{self.position_name(p.tensor, last - 1)} + 1")
        by = self.s.written(loop) or 0
        inside = Loop(p.position, following, end, unroll=by, part=bool(by), walked=self.bottom(p.tensor, last))
        self.sum_body = self.body
        self.body += [Line(end, f"min({stop}, {after})"), Put("acc", "zero"), inside]
        self.body = inside.body
        self.at[p.tensor, last] = p.position
        self.body.append(Line(index, self.coordinate(p, last, index)))
        self.known |= {loop, p.position, p.parent, *self.s.roots(p.position)}
