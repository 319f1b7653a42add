"""Positions of fused levels: the owners of a position are searched where a run begins, then walked."""

from __future__ import annotations

from .nest import Guard, Line, Loop, Node, Put, Sync, Update
from .relations import NONE, Pos, Race, ScheduleError, Split
from .sums import Sums
from .time_levels import Progression


class Owners(Sums):
    def guard(self, condition: str) -> None:
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
        begin, end, step = level.terms(at, p, lower)
        if root in self.s.firsts:
            self.body.append(Line(root, begin))
            inside: Node = Guard("if", f"{root} < {end}")
        else:
            inside = Loop(root, begin, end, step)
        self.body.append(inside)
        self.body = inside.body
        self.known.add(root)

    def narrow(self, loop: str) -> None:
        """Where the positions of a CUDA block lie: its threads search only there. Whole warps find it together."""
        together = any(onto in ("thread", "warp") for _, onto, _ in self.s.tags)
        search = "upper_together" if together else "upper"
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
                first = level.owner(at, q_first, low, high, search)
                last = level.owner(at, q_last, f"{name}_low", high, search)
                self.body += [Line(f"{name}_low", first), Line(f"{name}_high", last.removesuffix(" - 1"))]
                self.low_high[name] = f"{name}_low", f"{name}_high"
                q_first, q_last = f"{name}_low", f"{name}_high - 1"

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
        following, stop, end = (f"{p.position}_{part}" for part in ("next", "stop", "row"))
        (last, index), whole = self.covered(p)[-1], loop == p.position
        self.body.append(Put(following, self.start_position(p)))
        self.body.append(Line(stop, self.span(p)[1] if whole else f"{following} + {self.extent(loop)}"))
        rows = Guard("while", f"{following} < {stop}")
        self.body.append(rows)
        self.body = rows.body
        self.owner_lines(p, following, search=False, rows=True)
        self.row_lines(p)
        after = self.below(p.tensor, last, f"{self.position_name(p.tensor, last - 1)} + 1")
        inside = Loop(p.position, following, end, walked=self.bottom(p.tensor, last))
        self.sum_body = self.body
        self.body += [Line(end, f"min({stop}, {after})"), Put("acc", "zero"), inside]
        self.body = inside.body
        self.at[p.tensor, last] = p.position
        self.body.append(Line(index, self.coordinate(p, last, index)))
        self.known |= {loop, p.position, p.parent, *self.s.roots(p.position)}

    def stage(self, loop: str, p: Pos) -> None:
        """Products of a block in shared memory; then rows to threads, of which only the first and last are shared."""
        (last, index), made = self.covered(p)[-1], self.s.maker(loop)
        row = self.position_name(p.tensor, last - 1)
        reads = {i for access in self.s.read() if access.tensor != p.tensor for i in access.indices}
        if self.row_level(p) != last - 1 or row not in self.low_high or reads & self.out or not isinstance(made, Split):
            raise ScheduleError(
                f"staged {loop}: the rows are those of the level above {index}, their block is a loop over blocks of "
                f"{p.position}, and only {p.tensor} may depend on them"
            )
        begin, stop = f"{p.position}_first", f"{p.position}_stop"
        self.setup.append(Line("staged", f"cuda.shared.array({made.factor}, dtype)"))
        self.body += [Line(begin, self.start_position(p)), Line(stop, f"{begin} + {self.extent(loop)}")]
        outside, products = self.body, Loop(loop, "0", f"{stop} - {begin}", onto="thread")
        self.body = products.body
        self.body.append(Line(p.position, f"{begin} + {loop}"))
        self.at[p.tensor, last] = p.position
        self.body.append(Line(index, self.coordinate(p, last, index)))
        self.known |= {loop, p.position, p.parent, index}
        self.body.append(Put(f"staged[{loop}]", self.product(self.st.products[0])))
        rows = Loop(row, *self.low_high[row], onto="thread")
        outside += [products, Sync(), rows, Sync()]
        self.body = rows.body
        self.at[p.tensor, last - 1] = row
        self.row_lines(p)
        ends = [self.below(p.tensor, last, edge) for edge in (row, f"{row} + 1")]
        inside = Loop(f"{p.position}_at", f"max({ends[0]}, {begin}) - {begin}", f"min({ends[1]}, {stop}) - {begin}")
        inside.body.append(Update("acc", f"staged[{p.position}_at]"))
        low, high = self.low_high[row]
        shared, own = self.update("acc", Race("atomic")), self.update("acc", NONE)
        self.body += [Put("acc", "zero"), inside]
        self.body.append(Guard("if", f"{row} == {low} or {row} == {high} - 1", [shared], [own]))
