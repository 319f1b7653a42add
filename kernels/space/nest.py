"""The loop nest that a schedule is lowered to: what `cpu.py` and `gpu.py` write down."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from .relations import NONE, Race


@dataclass
class Line:
    """An assignment; `index` tells that the value is an index of the statement, which is never negative."""

    name: str
    value: str
    index: bool = False


@dataclass
class Update:
    """`target = target (+) value`, agreed on with others by `race`; `array` and `at` are the target's parts.

    For segments: the `row` that the target belongs to, and `count`, how many lanes take part. In rounds: what was
    `seen` in the target, and the `mark` that tells the next round that it fell.
    """

    target: str
    value: str
    race: Race = NONE
    array: str = ""
    at: tuple[str, ...] = ()
    row: str = ""
    count: str = ""
    seen: str = ""
    mark: str = ""


@dataclass
class Put:
    """`target = value`, in an array or in a name that outlives an iteration."""

    target: str
    value: str


@dataclass
class Loop:
    """`name` from `begin` up to `end`; `onto` runs it."""

    name: str
    begin: str
    end: str
    step: str = "1"
    onto: str = ""
    race: Race = NONE
    unroll: int = 0
    walked: bool = False  # over stored positions that nothing is computed from
    body: list[Node] = field(default_factory=list)


@dataclass
class Guard:
    """`if` or `while` a condition holds; `other` where it does not."""

    word: str
    condition: str
    body: list[Node] = field(default_factory=list)
    other: list[Node] = field(default_factory=list)


@dataclass
class Stop:
    """Leave the innermost loop."""


@dataclass
class Sync:
    """Wait for all threads of the block."""


@dataclass
class Combine:
    """Add up `name` over the lanes of a row; `body` is for the first of them."""

    name: str
    width: int
    body: list[Node] = field(default_factory=list)


Node = Line | Update | Put | Loop | Guard | Stop | Sync | Combine


def walk(nodes: list[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        if isinstance(node, Loop | Guard | Combine):
            yield from walk(node.body)
        if isinstance(node, Guard):
            yield from walk(node.other)


def texts(nodes: list[Node]) -> Iterator[str]:
    """All expressions of a nest, for finding the names that it reads."""
    for node in walk(nodes):
        if isinstance(node, Line):
            yield node.value
        elif isinstance(node, Update | Put):
            yield from (node.target, node.value)
            yield from (node.row, node.count, node.seen) if isinstance(node, Update) else ()
        elif isinstance(node, Loop):
            yield from (node.begin, node.end, node.step)
        elif isinstance(node, Guard):
            yield node.condition


def words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", text))


def without_unused(nodes: list[Node]) -> list[Node]:
    """The nest without assignments that nothing reads."""
    while True:
        read = set[str]().union(*map(words, texts(nodes)), {n.name for n in walk(nodes) if isinstance(n, Combine)})
        unused = {node.name for node in walk(nodes) if isinstance(node, Line) and node.name not in read}
        if not unused:
            return nodes
        nodes = _filtered(nodes, lambda node, unused=unused: not (isinstance(node, Line) and node.name in unused))


def _filtered(nodes: list[Node], keep: Callable[[Node], bool]) -> list[Node]:
    found: list[Node] = []
    for node in filter(keep, nodes):
        if isinstance(node, Guard):
            node = replace(node, body=_filtered(node.body, keep), other=_filtered(node.other, keep))
        elif isinstance(node, Loop | Combine):
            node = replace(node, body=_filtered(node.body, keep))
        found.append(node)
    return found


def unrolled(nodes: list[Node], add: Callable[[str, str], str]) -> list[Node]:
    """The nest with the iterations of loops that ask for it written out; `add` is the text of a sum."""
    found: list[Node] = []
    for node in nodes:
        if isinstance(node, Guard):
            node = replace(node, body=unrolled(node.body, add), other=unrolled(node.other, add))
        elif isinstance(node, Loop | Combine):
            node = replace(node, body=unrolled(node.body, add))
        if isinstance(node, Loop) and node.unroll:
            found += _written_out(node, add)
        else:
            found.append(node)
    return found


def _written_out(loop: Loop, add: Callable[[str, str], str]) -> list[Node]:
    """The copies one after the other, or jammed; a remainder that is shorter stays a loop."""
    local = {node.name for node in loop.body if isinstance(node, Line)}
    copies = [
        [renamed(node, {name: f"{name}_{number}" for name in local} | {loop.name: str(number)}) for node in loop.body]
        for number in range(loop.unroll)
    ]
    whole = copies[0]
    for copy in copies[1:]:
        whole = _jammed(whole, copy, add)
    if loop.end == str(loop.unroll):
        return whole
    return [Guard("if", f"{loop.end} == {loop.unroll}", whole, [replace(loop, unroll=0)])]


def _jammed(one: list[Node], other: list[Node], add: Callable[[str, str], str]) -> list[Node]:
    """Two copies of a body as one: updates of one target merge, and so do loops that hold nothing else."""
    if one and other and all(isinstance(node, Line) for node in (*one[:-1], *other[:-1])):
        a, b, lines = one[-1], other[-1], [*one[:-1], *other[:-1]]
        if isinstance(a, Update) and isinstance(b, Update) and a.target == b.target:
            return [*lines, replace(a, value=add(a.value, b.value))]
        if isinstance(a, Loop) and isinstance(b, Loop) and (a.begin, a.end) == (b.begin, b.end) and _plain(a):
            return [*lines, replace(a, body=_jammed(a.body, b.body, add))]
    return [*one, *other]


def _plain(loop: Loop) -> bool:
    """Whether a loop holds one update, or one such loop."""
    inside = loop.body[0]
    return len(loop.body) == 1 and (isinstance(inside, Update) or (isinstance(inside, Loop) and _plain(inside)))


def renamed(node: Node, fresh: dict[str, str]) -> Node:
    """A copy under other names."""

    def text(old: str) -> str:
        return re.sub(r"[A-Za-z_]\w*", lambda word: fresh.get(word[0], word[0]), old)

    def inside(nodes: list[Node]) -> list[Node]:
        return [renamed(one, fresh) for one in nodes]

    match node:
        case Line():
            return replace(node, name=text(node.name), value=text(node.value))
        case Update():
            at = tuple(map(text, node.at))
            seen, mark = text(node.seen), text(node.mark)
            return replace(node, target=text(node.target), value=text(node.value), at=at, seen=seen, mark=mark)
        case Put(target, value):
            return Put(text(target), text(value))
        case Loop():
            return replace(
                node, name=text(node.name), begin=text(node.begin), end=text(node.end), body=inside(node.body)
            )
        case Guard():
            return replace(node, condition=text(node.condition), body=inside(node.body), other=inside(node.other))
        case Combine():
            return replace(node, name=text(node.name), body=inside(node.body))
        case _:
            return node
