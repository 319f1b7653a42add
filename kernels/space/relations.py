"""What loops stand for: how they came from the indices of a statement, and what runs them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from .statement import Access, Name, Node, Op, Statement, accesses, lossy, names
from .tensors import FORMAT_NAMES, Format


class ScheduleError(ValueError):
    """A transformation that would change what is computed, or that cannot be compiled."""


@dataclass(frozen=True)
class Split:
    """`parent = outer * factor + inner`; a divide makes `factor` parts, so that the factor follows from the extent."""

    parent: str
    outer: str
    inner: str
    factor: int
    divide: bool = False


@dataclass(frozen=True)
class Fuse:
    outer: str
    inner: str
    fused: str


@dataclass(frozen=True)
class Pos:
    """`position` runs over the positions at which `tensor` stores the coordinates of `parent`."""

    parent: str
    position: str
    tensor: str


@dataclass(frozen=True)
class Precompute:
    """`factors` are summed into `workspace` over all loops inside, but for `index`; then the rest of the product."""

    factors: tuple[Node, ...]
    index: str
    workspace: str


@dataclass(frozen=True)
class Race:
    """How several that add to one entry of the output agree.

    none            nobody does
    carry           a thread keeps the first and the last row of each block aside; they are added afterwards
    private         each thread (or vector lane) adds to its own copy; the copies are added afterwards
    atomic          entries that others may add to are added to atomically
    shuffle(width)  the lanes of a row pass sums among themselves; the first one adds
    staged          the threads of a block keep their products in shared memory, then add up a row each
    segments        32 neighbouring positions lie on the lanes of a warp; the last lane of each row among them adds
    """

    kind: str = "none"
    width: int = 32


NONE, CARRY, PRIVATE, ATOMIC = (Race(kind) for kind in ("none", "carry", "private", "atomic"))


def shuffle(width: int = 32) -> Race:
    """`Race` of that name. Raises `ScheduleError` for a width that a warp is not divided into."""
    if width not in (2, 4, 8, 16, 32):
        raise ScheduleError(f"shuffle({width}): a row has 2, 4, 8, 16 or 32 lanes")
    return Race("shuffle", width)


CUDA = ("block", "warp", "lane", "thread")
RACES = {
    "threads": ("carry", "private", "atomic"),
    "vector": ("private",),
    "block": ("atomic",),
    "warp": ("atomic",),
    "thread": ("atomic", "staged"),
    "lane": ("atomic", "shuffle", "segments"),
}


@dataclass(frozen=True)
class Loops:
    """Loops from the outermost in.

    `sparse`: formats of the sparse operands; `pattern`: the one the output follows; `along`: operands that hold values
    for the positions of another one's levels.
    """

    statement: Statement
    sparse: tuple[tuple[str, Format], ...]
    pattern: str | None
    loops: tuple[str, ...]
    relations: tuple[Split | Fuse | Pos, ...] = ()
    tags: tuple[tuple[str, str, Race], ...] = ()
    unrolled: tuple[tuple[str, int], ...] = ()  # by how many at a time; 0: all
    bounds: tuple[tuple[str, int], ...] = ()
    firsts: tuple[str, ...] = ()
    scanned: tuple[str, ...] = ()
    workspace: Precompute | None = None
    along: tuple[tuple[str, str], ...] = ()
    before: Self | None = field(default=None, compare=False)  # what the last step was applied to
    step: str = field(default="", compare=False)

    @property
    def formats(self) -> dict[str, Format]:
        return dict(self.sparse)

    @property
    def cuda(self) -> bool:
        return any(onto in CUDA for _, onto, _ in self.tags)

    @property
    def origin(self) -> Loops:
        return self.before.origin if self.before else self

    @property
    def code(self) -> str:
        """Python that makes the schedule again."""
        rings = {"min": ", semiring=MIN_PLUS", "|": ", semiring=OR_AND"}
        ring = "" if self.statement.accumulate else rings.get(self.statement.semiring.sum, "")
        pattern = f', pattern="{self.pattern}"' if self.pattern else ""
        along = f", along={dict(self.along)}" if self.along else ""
        formats = [f", {name}={FORMAT_NAMES.get(form, form)}" for name, form in self.sparse]
        steps, now = [], self
        while now.before:
            steps.append(now.step)
            now = now.before
        return "".join([f'schedule("{self.statement.text}"{ring}{pattern}{along}{"".join(formats)})', *reversed(steps)])

    def __repr__(self) -> str:
        return self.code

    def maker(self, loop: str) -> Split | Fuse | Pos | None:
        """The relation that a loop comes from."""
        for relation in self.relations:
            if loop in children(relation):
                return relation
        return None

    def user(self, loop: str) -> Split | Fuse | Pos | None:
        """The relation that consumed a loop."""
        return next((relation for relation in self.relations if loop in parents(relation)), None)

    def roots(self, loop: str) -> tuple[str, ...]:
        """The statement's indices that a loop runs over."""
        made = self.maker(loop)
        return (loop,) if made is None else tuple(root for parent in parents(made) for root in self.roots(parent))

    def leaves(self, loop: str) -> tuple[str, ...]:
        """The loops that `loop` was turned into."""
        used = self.user(loop)
        return (loop,) if used is None else tuple(leaf for child in children(used) for leaf in self.leaves(child))

    def position(self, loop: str) -> Pos | None:
        """The step into position space above a loop."""
        made = self.maker(loop)
        if made is None or isinstance(made, Pos):
            return made
        return next((found for parent in parents(made) if (found := self.position(parent))), None)

    def _own_position(self, index: str) -> Pos | None:
        """The step into position space below an index, before any split."""
        used = self.user(index)
        while isinstance(used, Fuse):
            used = self.user(used.fused)
        return used if isinstance(used, Pos) else None

    def carrier(self, index: str) -> str:
        """The loop that visits the stored coordinates of `index`: after splits the innermost."""
        used = self.user(index)
        return self.carrier(used.inner) if isinstance(used, Split) else index

    def access(self, tensor: str) -> Access:
        return next(a for a in self.read() if a.tensor == tensor)

    def read(self) -> list[Access]:
        return [a for node in factors(self.statement) for a in accesses(node)]

    def level_index(self, tensor: str, level: int) -> str:
        """The index whose coordinates a level stores."""
        return self.access(tensor).indices[self.formats[tensor].modes[level]]

    def iterator(self, index: str) -> tuple[str, int] | None:
        """The level that a loop over `index` walks; None for a loop over the whole dimension."""
        order = self.origin.loops
        for tensor, form in self.sparse:
            if tensor in dict(self.along):
                continue
            for number, level in enumerate(form.levels):
                if self.level_index(tensor, number) == index and not level.full:
                    above = [self.level_index(tensor, upper) for upper in range(number)]
                    if all(order.index(a) < order.index(index) for a in above):
                        return tensor, number
        return None

    def _walks(self, loop: str) -> bool:
        """Whether a loop in coordinate space runs over a level that does not store all coordinates."""
        return not self.position(loop) and any(self.iterator(root) for root in self.roots(loop))

    def shared(self, loop: str) -> bool:
        """Whether two iterations of a loop may add to one entry of the output."""
        found = [self.iterator(root) for root in self.roots(loop)]
        repeats = [f for f in found if f and not self.formats[f[0]].levels[f[1]].unique]
        whole = bool(found) and found[-1] is not None and self.formats[found[-1][0]].levels[found[-1][1]].unique
        if repeats and not (len(found) > 1 and whole):
            return True
        return not set(self.roots(loop)) <= set(self.statement.output.indices)

    def tag(self, loop: str) -> tuple[str, Race] | None:
        """What runs a loop, and its race strategy."""
        return next(((onto, race) for name, onto, race in self.tags if name == loop), None)

    def written(self, loop: str) -> int | None:
        """By how many iterations at a time a loop is written out, 0 for all; None for a loop that stays one."""
        return dict(self.unrolled).get(loop)

    def constant(self, loop: str) -> int | None:
        """How many iterations a loop has at most, where that is known."""
        made = self.maker(loop)
        if made is None:
            return dict(self.bounds).get(loop)
        if not isinstance(made, Split) or made.divide:
            return None
        if loop == made.inner:
            return made.factor
        whole = self.constant(made.parent)
        return whole and -(-whole // made.factor)

    def at_least(self, node: Node) -> tuple[str, str, Node] | None:
        """(index, comparison, key) of a condition that compares an index with what does not depend on it."""
        if not isinstance(node, Op) or node.symbol not in ("<", "<=", ">", ">="):
            return None
        turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
        for side, symbol, key in ((node.left, node.symbol, node.right), (node.right, turned[node.symbol], node.left)):
            if isinstance(side, Name) and side.name in self.statement.indices and side.name not in names(key):
                return side.name, symbol, key
        return None

    def producers(self) -> tuple[str, ...]:
        """The loops that fill the workspace: the innermost ones, from the first that the rest does not know."""
        if not self.workspace:
            return ()
        rest = [node for node in self.statement.products[0] if node not in self.workspace.factors]
        known = set(self.statement.output.indices).union(*(names(node) for node in rest)) - {self.workspace.index}
        outer = [place for place, loop in enumerate(self.loops) if set(self.roots(loop)) & known]
        inner = self.loops[max(outer, default=-1) + 1 :]
        return inner if self.workspace.index in inner and len(inner) > 1 else ()


def children(relation: Any) -> tuple[str, ...]:
    if isinstance(relation, Split):
        return relation.outer, relation.inner
    return (relation.fused,) if isinstance(relation, Fuse) else (relation.position,)


def parents(relation: Any) -> tuple[str, ...]:
    return (relation.outer, relation.inner) if isinstance(relation, Fuse) else (relation.parent,)


def check_missing(statement: Statement, formats: dict[str, Format]) -> None:
    """Raise where an entry that a sparse tensor does not store is not the zero of the semiring."""
    for product in statement.products:
        if sum_ := lossy(product, statement.semiring, formats):
            raise ScheduleError(f"{statement.text}: inside of another operator {sum_} lacks entries; compute it first")
        for access in (a for node in product for a in accesses(node) if a.tensor in formats):
            full = [level.full for level in formats[access.tensor].levels]
            if statement.semiring.sum == "min" and any(full[full.index(False) :]):
                raise ScheduleError(
                    f"{access}: under {statement.semiring.name} the zeros that a dense level below a sparse one stores "
                    f"are values; repack it with to()"
                )


def factors(statement: Statement) -> tuple[Node, ...]:
    """What is multiplied, and the conditions."""
    return (*statement.products[0], *statement.where)
