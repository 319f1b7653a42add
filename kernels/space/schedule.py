"""How a statement is computed.

Every method returns a new schedule or raises `ScheduleError`, which names the loop and the rule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

from .names import check_name
from .relations import (
    CUDA,
    NONE,
    RACES,
    Fuse,
    Loops,
    Pos,
    Precompute,
    Race,
    ScheduleError,
    Split,
    children,
    parents,
)
from .statement import MIN_PLUS, Access, Name, Op, leaves, names, parse
from .time_levels import Progression


@dataclass(frozen=True, repr=False)
class Schedule(Loops):
    """Loops from the outermost in, and the transformations that make others of them."""

    def split(self, loop: str, outer: str, inner: str, factor: int) -> Schedule:
        """`loop` becomes `outer` over blocks of `factor` iterations, and `inner` over those of a block."""
        return self._split(loop, Split(loop, outer, inner, factor), f'.split("{loop}", "{outer}", "{inner}", {factor})')

    def divide(self, loop: str, outer: str, inner: str, parts: int) -> Schedule:
        """`loop` becomes `outer` over `parts` blocks of equal size, and `inner` over those of a block."""
        made = Split(loop, outer, inner, parts, divide=True)
        return self._split(loop, made, f'.divide("{loop}", "{outer}", "{inner}", {parts})')

    def _split(self, loop: str, made: Split, step: str) -> Schedule:
        rule = "divide" if made.divide else "split"
        self._free(loop, rule)
        if type(made.factor) is not int or not 1 <= made.factor < 2**31:
            raise ScheduleError(f"{rule} of {loop} by {made.factor}: it must be at least 1, whole and below 2**31")
        for index in self.roots(loop):
            found = self.iterator(index)
            if found and isinstance(self.formats[found[0]].levels[found[1]], Progression) and not self.position(loop):
                raise ScheduleError(f"{rule} of {loop}: terms of a progression have no blocks; take pos first")
        return self._replace((loop,), made, step)

    def fuse(self, outer: str, inner: str, fused: str) -> Schedule:
        """Two loops, one directly inside the other, become one; through compressed levels `pos` must follow."""
        for loop in (outer, inner):
            self._known(loop, "fuse")
            self._untouched(loop, "fuse")
        if self.loops.index(inner) != self.loops.index(outer) + 1:
            raise ScheduleError(f"fuse of {outer} and {inner}: {inner} is not directly inside {outer}")
        if set(self.roots(outer)) & set(self.roots(inner)):
            raise ScheduleError(f"fuse of {outer} and {inner}: both come from {self.roots(outer)[0]}")
        for tensor, number in filter(None, map(self.iterator, self.roots(inner))):
            if not self.formats[tensor].levels[number].adjoining:
                raise ScheduleError(f"fuse of {outer} and {inner}: slices of {tensor} lie apart")
        if self._walks(inner) or self._walks(outer):
            whole = all(isinstance(self.maker(loop), Fuse | None) for loop in (outer, inner))
            if not whole or self.position(outer) or self.position(inner):
                raise ScheduleError(
                    f"fuse of {outer} and {inner}: through a compressed level only whole loops fuse, before any split"
                )
        elif self.position(inner):
            raise ScheduleError(f"fuse of {outer} and {inner}: how far {inner} goes changes with the loops outside it")
        return self._replace((outer, inner), Fuse(outer, inner, fused), f'.fuse("{outer}", "{inner}", "{fused}")')

    def pos(self, loop: str, position: str, tensor: str) -> Schedule:
        """From coordinates to the positions at which `tensor` stores them."""
        self._known(loop, "pos")
        self._untouched(loop, "pos")
        if self.position(loop):
            raise ScheduleError(f"pos of {loop}: it runs over positions already")
        if not isinstance(self.maker(loop), Fuse | None):
            raise ScheduleError(f"pos of {loop}: split positions instead, after pos")
        if tensor not in self.formats:
            raise ScheduleError(f"pos of {loop}: {tensor} is no sparse operand")
        roots = self.roots(loop)
        stored = [self.level_index(tensor, level) for level in range(len(self.formats[tensor].levels))]
        start = stored.index(roots[0]) if roots[0] in stored else 0
        if tuple(stored[start : start + len(roots)]) != roots:
            raise ScheduleError(f"pos of {loop}: {tensor} has no levels {' > '.join(roots)}")
        last = self.iterator(roots[-1])
        if last != (tensor, start + len(roots) - 1):
            who = f"is walked through {last[0]}" if last else "is not compressed"
            raise ScheduleError(f"pos of {loop}: {roots[-1]} {who}")
        return self._replace((loop,), Pos(loop, position, tensor), f'.pos("{loop}", "{position}", "{tensor}")')

    def coord(self, position: str, loop: str) -> Schedule:
        """Back from positions to coordinates: undoes `pos`."""
        self._free(position, "coord")
        made = self.maker(position)
        if not isinstance(made, Pos):
            raise ScheduleError(f"coord of {position}: it does not come from pos directly")
        if made.parent != loop:
            raise ScheduleError(f"coord of {position}: its coordinates are those of {made.parent}, not {loop}")
        loops = tuple(loop if old == position else old for old in self.loops)
        left = tuple(relation for relation in self.relations if relation != made)
        return self._next(f'.coord("{position}", "{loop}")', loops=loops, relations=left)

    def reorder(self, *order: str) -> Schedule:
        """The named loops take the places that they hold in this order."""
        if set(order) & set(self.firsts):
            raise ScheduleError(f"reorder across first({', '.join(self.firsts)}): what it finds depends on its order")
        for loop in order:
            self._free(loop, "reorder")
        if len(set(order)) < len(order):
            raise ScheduleError(f"reorder of {', '.join(order)}: a loop is named twice")
        places, named = sorted(self.loops.index(loop) for loop in order), iter(order)
        loops = tuple(next(named) if place in places else loop for place, loop in enumerate(self.loops))
        return self._next(f".reorder({', '.join(map(_quote, order))})", loops=loops).ordered()

    def bound(self, loop: str, extent: int) -> Schedule:
        """The dimension of an index is `extent`; checked when the kernel is called."""
        self._known(loop, "bound")
        self._untouched(loop, "bound")
        if self.maker(loop) or self.iterator(loop):
            raise ScheduleError(f"bound of {loop}: only a dense index of the statement has a fixed extent")
        if extent < 0:
            raise ScheduleError(f"bound of {loop} by {extent}: an extent is not negative")
        return self._next(f'.bound("{loop}", {extent})', bounds=(*self.bounds, (loop, extent)))

    def precompute(self, product: str, index: str, workspace: str) -> Schedule:
        """Sum `product`, a part of the expression, into a workspace over `index` before the rest is multiplied."""
        self._known(index, "precompute")
        self._untouched(index, "precompute")
        rule = f"precompute of {product}"
        if self.workspace:
            raise ScheduleError(f"{rule}: there is a workspace already")
        factors = parse(f"w[{index}] = {product}", self.statement.semiring).products[0]
        self._new(workspace, rule)
        rest = [node for node in self.statement.products[0] if node not in factors]
        if len(rest) + len(factors) != len(self.statement.products[0]) or not rest:
            raise ScheduleError(f"{rule}: it is no part of {self.statement.text}")
        if self.iterator(index) or self.maker(index):
            raise ScheduleError(f"{rule}: {index} is not a whole dense loop")
        made = Precompute(factors, index, workspace)
        step = f'.precompute("{product}", "{index}", "{workspace}")'
        found = self._next(step, workspace=made)
        summed = found.producers()
        outside = set(self.statement.output.indices).union(*(names(node) for node in rest))
        if not summed or any(set(self.roots(loop)) & outside for loop in summed if loop != index):
            raise ScheduleError(f"{rule}: the innermost loops are not {index} and those that only it sums over")
        return found

    def first(self, *loops: str) -> Schedule:
        """Of an ordered loop (or of several, nested) take the first coordinate that the conditions allow."""
        for loop in loops:
            self._free(loop, "first")
        if self.loops[-len(loops) :] != loops:
            raise ScheduleError(f"first({', '.join(loops)}): these are not the innermost loops, in order")
        found = [self.iterator(loop) for loop in loops]  # a dense loop goes through a dimension in order
        ordered = all(not f or self.formats[f[0]].levels[f[1]].ordered for f in found)
        if not ordered or not any(found) or any(self.maker(loop) for loop in loops):
            raise ScheduleError(f"first({', '.join(loops)}): every loop must walk an ordered level")
        if self.statement.semiring.sum != "min":
            raise ScheduleError(f"first({', '.join(loops)}): only the sum of {MIN_PLUS.name} keeps the first alone")
        seen = [n for node in self.statement.products[0] for n in leaves(node)]
        plain = [node for node in self.statement.products[0] if node == Name(loops[-1])]
        uses = [n for n in seen if set(loops) & (set(n.indices) if isinstance(n, Access) else {str(n)})]
        if len(plain) != 1 or len(uses) != 1:
            raise ScheduleError(f"first({', '.join(loops)}): the expression must grow with {loops[-1]} alone")
        if self._many(loops[-1]):
            self._one_lower_bound(loops[-1])
        return self._next(f".first({', '.join(map(_quote, loops))})", firsts=loops)

    def scan(self, loop: str) -> Schedule:
        """Test conditions on a loop at each coordinate, from the first one on, instead of seeking."""
        self._known(loop, "scan")
        self._untouched(loop, "scan")
        if not self.iterator(loop) or self.maker(loop):
            raise ScheduleError(f"scan of {loop}: it walks no level")
        return self._next(f'.scan("{loop}")', scanned=(*self.scanned, loop))

    def _many(self, loop: str) -> bool:
        """Whether it walks progressions, of many coordinates each."""
        found = self.iterator(loop)
        return bool(found) and isinstance(self.formats[found[0]].levels[found[1]], Progression)

    def _one_lower_bound(self, index: str) -> None:
        """Raise where the first term at or after a key may not be the first that the conditions allow."""
        lower = 0
        for node in self.statement.where:
            found = self.at_least(node)
            if isinstance(node, Op) and index in names(node):
                lower += bool(found and found[1] == ">=")
                if not found or found[0] != index or found[1] == ">" or lower > 1:
                    raise ScheduleError(f"first of {index}: {node} is not the one condition {index} >= key")

    def unroll(self, loop: str, by: int = 0) -> Schedule:
        """Write out the iterations of a loop whose extent is a constant, or of any loop `by` at a time."""
        self._known(loop, "unroll")
        several = by and loop in self.firsts and self._many(loop)  # all progressions are looked at, in any order
        if not several:
            self._untouched(loop, "unroll")
        if type(by) is not int or by < 0 or by == 1:
            raise ScheduleError(f"unroll of {loop} by {by}: it must be at least 2, and whole")
        fixed = by or self.constant(loop)
        if (
            not several
            and not self.position(loop)
            and any(self.carrier(root) == loop and self.iterator(root) for root in self.roots(loop))
        ):
            raise ScheduleError(
                f"unroll of {loop}: how much a level stores is no constant; unroll positions, after pos"
            )
        if fixed is None:
            raise ScheduleError(f"unroll of {loop}: its extent is no constant (split or bound it, or say by how many)")
        # Loops stand inside each other, so do their copies: thousands would take Numba many minutes to compile.
        copies = fixed * prod(count or self.constant(other) or 1 for other, count in self.unrolled)
        if copies > 64:
            raise ScheduleError(f"unroll of {loop}: {copies} copies are too many (at most 64, of all loops together)")
        step = f'.unroll("{loop}", {by})' if by else f'.unroll("{loop}")'
        return self._next(step, unrolled=(*self.unrolled, (loop, by)))

    def parallelize(self, loop: str, onto: str, race: Race | str = NONE) -> Schedule:
        """Run the iterations of a loop on `threads`, as a `vector`, or on CUDA's block, warp, lane or thread."""
        race = Race(race) if isinstance(race, str) else race
        self._known(loop, "parallelize")
        self._untouched(loop, "parallelize")
        if onto not in RACES:
            raise ScheduleError(f"parallelize of {loop}: {onto!r} is none of {', '.join(RACES)}")
        if any(onto == other for _, other, _ in self.tags):
            raise ScheduleError(f"parallelize of {loop}: another loop runs on {onto} already")
        if self.tags and self.cuda != (onto in CUDA):
            raise ScheduleError(f"parallelize of {loop}: {onto} and {self.tags[0][1]} are of different machines")
        if onto in ("warp", "lane", "thread"):
            beside = {"thread"} if onto != "thread" else {"warp", "lane"}
            if other := next((other for _, other, _ in self.tags if other in beside), None):
                raise ScheduleError(f"parallelize of {loop}: {onto} and {other} are the same threads of a block")
        if loop in self.firsts:
            raise ScheduleError(f"parallelize of {loop}: first takes its iterations in order")
        if onto in ("threads", "block") and self.loops[0] != loop:
            raise ScheduleError(f"parallelize of {loop}: {onto} is for the outermost loop, {self.loops[0]}")
        if onto == "vector" and self.loops[-1] != loop:
            raise ScheduleError(f"parallelize of {loop}: a vector runs the innermost loop, {self.loops[-1]}")
        if race.kind != "none" and race.kind not in RACES[onto]:
            raise ScheduleError(f"parallelize of {loop}: {race.kind} is not for {onto} ({', '.join(RACES[onto])})")
        if self.shared(loop) and race.kind == "none":
            raise ScheduleError(
                f"parallelize of {loop}: its iterations add to the same entries of {self.statement.output}; "
                f"name a race strategy ({', '.join(RACES[onto])})"
            )
        if not self.shared(loop):
            race = NONE
        if race.kind == "private" and self.statement.output.tensor in self.statement.operands:
            raise ScheduleError(
                f"parallelize of {loop}: {self.statement.output} is read, private copies would be empty"
            )
        if race.kind == "shuffle" and set(self.roots(loop)) & set(self.statement.output.indices):
            raise ScheduleError(f"parallelize of {loop}: shuffle adds up lanes of one entry; the output follows {loop}")
        if race.kind in ("segments", "staged"):
            self._by_position(loop, race.kind)
        hint = f', "{race.kind}"' if race.kind not in ("none", "shuffle") else ""
        hint = f", shuffle({race.width})" if race.kind == "shuffle" else hint
        return self._next(f'.parallelize("{loop}", "{onto}"{hint})', tags=(*self.tags, (loop, onto, race)))

    def _by_position(self, loop: str, race: str) -> None:
        """Raise unless neighbouring positions lie on neighbouring threads, and their rows are sorted."""
        position, made = self.position(loop), self.maker(loop)
        rows = set(self.roots(loop)) & set(self.statement.output.indices)
        last = position is not None and self.leaves(position.position)[-1] == loop
        widest = 32 if race == "segments" else 4096
        width = isinstance(made, Split) and not made.divide and made.factor <= widest
        if race == "segments":
            width = width and isinstance(made, Split) and made.factor == widest
        inside = self.loops[self.loops.index(loop) + 1 :]
        own = position and all(self.position(inner) == position and self.written(inner) == 0 for inner in inside)
        if not last or not width or not own or rows != set(self.roots(loop)[:1]):
            size = "32" if race == "segments" else "at most 4096"
            raise ScheduleError(
                f"parallelize of {loop}: {race} is for the innermost loop, {size} positions of sorted rows"
            )
        if self.statement.where or len(self.sparse) > 1 or (race == "segments" and self.statement.semiring.sum != "+"):
            raise ScheduleError(f"parallelize of {loop}: {race} is for sums without conditions, of one sparse tensor")

    def ordered(self) -> Schedule:
        """Itself, unless a level would be walked before the position of its parent is known."""
        for index in self.statement.indices:
            found = self.iterator(index)
            if not found:
                continue
            tensor, level = found
            position = self._own_position(index)
            own = self.roots(position.position) if position else (index,)
            above = [self.level_index(tensor, upper) for upper in range(level)]
            needed = [leaf for root in above if root not in own for leaf in self.leaves(root)]
            walking = self.leaves(position.position) if position else (self.carrier(index),)
            if not position:
                needed += [leaf for leaf in self.leaves(index) if leaf not in walking]
            for inner in walking:
                for outer in needed:
                    if self.loops.index(inner) < self.loops.index(outer):
                        raise ScheduleError(
                            f"reorder puts {inner} outside {outer}, but the level of {index} in {tensor} "
                            f"is reached through {outer}"
                        )
        return self

    def complete(self) -> Schedule:
        """Itself, unless a fused loop still waits for `pos`."""
        for loop in self.loops:
            self._whole(loop)
        return self.ordered()

    def _whole(self, loop: str) -> None:
        made = self.maker(loop)
        if isinstance(made, Fuse) and self._walks(loop):
            tensor = next(found[0] for root in self.roots(loop) if (found := self.iterator(root)))
            raise ScheduleError(
                f'{loop} fuses compressed levels of {tensor}: pos("{loop}", ..., "{tensor}") comes next'
            )

    def _known(self, loop: str, rule: str) -> None:
        if loop not in self.loops:
            raise ScheduleError(f"{rule} of {loop}: the loops are {', '.join(self.loops)}")

    def _untouched(self, loop: str, rule: str) -> None:
        if tag := self.tag(loop):
            raise ScheduleError(f"{rule} of {loop}: it runs on {tag[0]} already; parallelize last")
        if self.written(loop) is not None:
            raise ScheduleError(f"{rule} of {loop}: it is unrolled already; unroll last")
        if loop in self.firsts and rule != "first":
            raise ScheduleError(f"{rule} of {loop}: first takes its iterations in order")
        if self.workspace and loop in self.producers() and rule not in ("parallelize", "unroll"):
            raise ScheduleError(f"{rule} of {loop}: it fills the workspace already; precompute after it")

    def _free(self, loop: str, rule: str) -> None:
        self._known(loop, rule)
        self._untouched(loop, rule)
        self._whole(loop)

    def _replace(self, old: tuple[str, ...], made: Any, step: str) -> Schedule:
        """`old` loops give way to the children of a relation."""
        new = children(made)
        for name in new:
            if new.count(name) > 1:
                raise ScheduleError(f"{step[1:]}: {name} is taken")
            self._new(name, step[1:])
        place = self.loops.index(old[0])
        loops = self.loops[:place] + new + self.loops[place + len(old) :]
        return self._next(step, loops=loops, relations=(*self.relations, made))

    def _new(self, name: str, rule: str) -> None:
        statement, out = self.statement, self.statement.output.tensor
        taken = {*statement.indices, *statement.operands, *statement.scalars, out, f"{out}_val"}
        taken |= {name for relation in self.relations for name in (*parents(relation), *children(relation))}
        if name in taken or (self.workspace and name == self.workspace.workspace):
            raise ScheduleError(f"{rule}: {name} is taken")
        check_name(name, statement)

    def _next(self, step: str, **changes: Any) -> Schedule:
        return replace(self, before=self, step=step, **changes)


def check_schedule(given: Any) -> None:
    if not isinstance(given, Schedule):
        raise TypeError(f"{given!r} is {type(given).__name__}, not a schedule: make one with schedule(text, ...)")


def _quote(name: str) -> str:
    return f'"{name}"'
