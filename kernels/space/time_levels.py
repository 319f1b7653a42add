"""Levels of time: a window of ticks, sought or known as slices, and progressions of departures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from .levels import Arrays, Compressed, Level, Names


@dataclass(frozen=True)
class Window(Compressed):
    """Ticks of a row in order of time; a condition such as `t0 <= w < t1` becomes a seek at both ends."""


@dataclass(frozen=True)
class Slices(Level):
    """One slice a row, that of a window of ticks whose ends are known: `crd[pos[q] : end[q]]`, in any order.

    Slices of neighbouring rows lie apart, so that rows are not fused with what hangs below them.
    """

    ordered: bool = False
    unique: bool = False

    adjoining: ClassVar[bool] = False
    arrays: ClassVar[tuple[str, ...]] = ("pos", "end", "crd")

    def first(self, at: Names, q: str) -> str:
        return f"{at('pos')}[{q}]"

    def stop(self, at: Names, q: str) -> str:
        return f"{at('end')}[{q}]"

    def walk(self, data: Arrays, q: int) -> Iterator[tuple[int, int]]:
        return ((p, int(data["crd"][p])) for p in range(int(data["pos"][q]), int(data["end"][q])))


@dataclass(frozen=True)
class Progression(Compressed):
    """Arithmetic progressions: position p stands for the coordinates start, start + step, ..., end.

    A term at or after a key is found by arithmetic. Terms of neighbouring positions may interleave, those of
    neighbouring parents may not.
    """

    arrays: ClassVar[tuple[str, ...]] = ("pos", "start", "end", "step")

    def coord(self, at: Names, p: str) -> str:
        raise NotImplementedError("a progression has many coordinates at a position")

    def terms(self, at: Names, p: str) -> tuple[str, str, str]:
        """First and last term of `p`, and its stride."""
        return f"{at('start')}[{p}]", f"{at('end')}[{p}]", f"{at('step')}[{p}]"

    def walk(self, data: Arrays, q: int) -> Iterator[tuple[int, int]]:
        for p in range(int(data["pos"][q]), int(data["pos"][q + 1])):
            for term in range(int(data["start"][p]), int(data["end"][p]) + 1, int(data["step"][p])):
                yield p, term
