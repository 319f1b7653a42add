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
    unroll: int = 0  # iterations that are written out
    part: bool = False  # so many at a time, a remainder staying a loop; else all
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
    """Leave the innermost loop; `early`: what is left of it would change nothing."""

    early: bool = False


@dataclass
class Sync:
    """Wait for all threads of the block."""


@dataclass
class Combine:
    """Add up `name` over the `width` lanes of a row, this one being `lane`; `body` is for the first of them."""

    name: str
    width: str
    lane: str
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
    """The copies of the body, side by side; a remainder that is shorter stays a loop."""
    name, count = loop.name, loop.unroll
    if not loop.part:
        whole = _copies(loop.body, name, [str(number) for number in range(count)], add)
        if loop.end == str(count):
            return whole
        return [Guard("if", f"{loop.end} == {count}", whole, [replace(loop, unroll=0)])]
    names = [name, *(f"{name}_{number}" for number in range(1, count))]
    numbers: list[Node] = [Line(other, f"{name} + {number}") for number, other in enumerate(names) if number]
    lines = [Line(f"{name}_{part}", edge) for part, edge in (("begin", loop.begin), ("end", loop.end))]
    lines = [line for line in lines if not re.fullmatch(r"\w+", line.value)]
    begin, end = (
        f"{name}_{part}" if Line(f"{name}_{part}", edge) in lines else edge
        for part, edge in (("begin", loop.begin), ("end", loop.end))
    )
    rest = f"{begin} + ({end} - {begin}) // {count} * {count}" if begin != "0" else f"{end} // {count} * {count}"
    whole = numbers + _copies(loop.body, name, names, add)
    main = replace(loop, begin=begin, end=f"{end} - {count - 1}", step=str(count), unroll=0, walked=False, body=whole)
    return [*lines, main, replace(loop, begin=rest, end=end, unroll=0, walked=False)]


def _copies(body: list[Node], name: str, names: list[str], add: Callable[[str, str], str]) -> list[Node]:
    """Iterations, `name` being each of `names`. Side by side where none reads what another one writes."""
    own = _following(body, name)
    marked = {node.target for node in walk(body) if isinstance(node, Put) and node.value == "True"}  # by any of them
    local = {node.name for node in walk(body) if isinstance(node, Line | Loop)} | _set_first(body) - marked
    copies = [{word: f"{word}_{n}" for word in local & own} | {name: fresh} for n, fresh in enumerate(names)]
    puts = {node.target for node in walk(body) if isinstance(node, Put) and node.target.isidentifier()} - local - marked
    written = {node.target for node in walk(body) if isinstance(node, Put | Update)} - local
    read = {word for node in walk(body) if not _asks(node) for text in _reads(node) for word in words(text)}
    clash = {target.partition("[")[0] for target in written if "[" in target or target in own} & read
    if puts & own or clash or Stop() in walk(body):
        return [renamed(node, copy) for copy in copies for node in body]
    return _side_by_side(body, copies, own, add)


def _side_by_side(
    body: list[Node], copies: list[dict[str, str]], own: set[str], add: Callable[[str, str], str]
) -> list[Node]:
    """Every line once for each iteration, or once where it is the same for all (`own` names differ)."""
    found: list[Node] = []
    for node in body:
        if _asks(node):
            found.append(renamed(node, copies[0]))  # one of so many iterations asks
        elif not own & {word for text in _all(node) for word in words(text)}:
            found.append(node)
        elif isinstance(node, Loop | Guard | Combine) and not own & {
            word for text in _head(node) for word in words(text)
        }:
            node = replace(node, body=_side_by_side(node.body, copies, own, add))
            if isinstance(node, Guard):
                node = replace(node, other=_side_by_side(node.other, copies, own, add))
            found.append(node)
        else:
            several = [renamed(node, copy) for copy in copies]
            found += _summed(several, add)
    return found


def _asks(node: Node) -> bool:
    """Whether the rest of a loop can be left out."""
    return isinstance(node, Guard) and Stop(early=True) in node.body


def _summed(several: list[Node], add: Callable[[str, str], str]) -> list[Node]:
    """Updates of one entry as one."""
    first = several[0]
    if not isinstance(first, Update) or any(isinstance(one, Update) and one.target != first.target for one in several):
        return several
    value = first.value
    for one in several[1:]:
        assert isinstance(one, Update)
        value = add(value, one.value)
    return [replace(first, value=value)]


def _following(body: list[Node], name: str) -> set[str]:
    """`name`, and all names whose values follow from it, or are set where it decides."""
    found, before = {name}, set[str]()
    while found != before:
        before = set(found)
        for node in walk(body):
            if not found & {word for text in _reads(node) for word in words(text)}:
                continue
            for one in walk([node]):
                if isinstance(one, Line | Loop):
                    found.add(one.name)
                elif isinstance(one, Put | Update) and one.target.isidentifier():
                    found.add(one.target)
    return found


def _set_first(body: list[Node]) -> set[str]:
    """Names that are set before anything reads them."""
    found, read = set[str](), set[str]()
    for node in walk(body):
        if isinstance(node, Put) and node.target.isidentifier() and node.target not in read:
            found.add(node.target)
        read |= {word for text in _reads(node) for word in words(text)}
        read |= {node.target} if isinstance(node, Update) else set()
    return found


def _head(node: Node) -> Iterator[str]:
    match node:
        case Loop():
            yield from (node.name, node.begin, node.end, node.step)
        case Guard():
            yield node.condition
        case Combine():
            yield from (node.name, node.width, node.lane)


def _reads(node: Node) -> Iterator[str]:
    """What a node itself reads, without those inside."""
    match node:
        case Line():
            yield node.value
        case Put(target, value) | Update(target, value):
            yield from (value, target.partition("[")[2])
        case Loop():
            yield from (node.begin, node.end, node.step)
        case _:
            yield from _head(node)


def _all(node: Node) -> Iterator[str]:
    """All texts of a node and those inside, with the names that they set."""
    for one in walk([node]):
        yield from _head(one)
        yield from _reads(one)
        if isinstance(one, Line):
            yield one.name
        elif isinstance(one, Put | Update):
            yield one.target


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
            edges = {part: text(getattr(node, part)) for part in ("begin", "end", "step")}
            return replace(node, name=text(node.name), **edges, body=inside(node.body))
        case Guard():
            return replace(node, condition=text(node.condition), body=inside(node.body), other=inside(node.other))
        case Combine():
            return replace(node, name=text(node.name), body=inside(node.body))
        case _:
            return node
