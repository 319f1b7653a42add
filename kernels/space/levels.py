"""Levels of a sparse hierarchy: what each one answers about its positions, as text of a kernel and by walking.

A position q of one level owns the positions [first(q), stop(q)) of the next; above all levels there is one
position, 0. Texts name arrays through `at`: `at("pos")` is `A_pos1` for level 1 of tensor A.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

Names = Callable[[str], str]
Arrays = dict[str, Any]


def factor(text: str) -> str:
    """A text that can be multiplied."""
    return text if re.fullmatch(r"\w+(\[[^\[\]]*\])?", text) else f"({text})"


@dataclass(frozen=True)
class Level:
    """What is common; `Dense`, `Compressed` and others say the rest."""

    ordered: bool = True
    unique: bool = True

    full: ClassVar[bool] = False
    searched: ClassVar[bool] = False  # the parent of a position is found by search, then by walking on
    adjoining: ClassVar[bool] = True  # the positions below q end where those below q + 1 begin
    arrays: ClassVar[tuple[str, ...]] = ()

    def first(self, at: Names, q: str) -> str:
        """First position below position `q` of the parent."""
        raise NotImplementedError

    def stop(self, at: Names, q: str) -> str:
        """Where the positions below position `q` of the parent end."""
        return self.first(at, "1" if q == "0" else f"{q} + 1")

    def coord(self, at: Names, p: str) -> str:
        """Coordinate at position `p`."""
        return f"{at('crd')}[{p}]"

    def owner(self, at: Names, p: str, low: str, high: str) -> str:
        """The parent, in [low, high), of position `p`."""
        return p

    def seek(self, at: Names, low: str, high: str, key: str, after: bool = False) -> str:
        """First position in [low, high) whose coordinate is at or after `key` (or only after it), else `high`."""
        return f"{'upper' if after else 'lower'}({at('crd')}, {low}, {high}, {key})"

    def walk(self, data: Arrays, q: int) -> Iterator[tuple[int, int]]:
        """(position, coordinate) below position `q` of the parent."""
        raise NotImplementedError


@dataclass(frozen=True)
class Dense(Level):
    """Every coordinate of a dimension: position `q * n + coordinate`."""

    full: ClassVar[bool] = True
    arrays: ClassVar[tuple[str, ...]] = ("n",)

    def first(self, at: Names, q: str) -> str:
        return "0" if q == "0" else at("n") if q == "1" else f"{factor(q)} * {at('n')}"

    def coord(self, at: Names, p: str) -> str:
        return f"{factor(p)} % {at('n')}"

    def owner(self, at: Names, p: str, low: str, high: str) -> str:
        return f"{factor(p)} // {at('n')}"

    def walk(self, data: Arrays, q: int) -> Iterator[tuple[int, int]]:
        return ((q * data["n"] + c, c) for c in range(data["n"]))


@dataclass(frozen=True)
class Compressed(Level):
    """The coordinates that are there: `crd[pos[q] : pos[q + 1]]`."""

    searched: ClassVar[bool] = True
    arrays: ClassVar[tuple[str, ...]] = ("pos", "crd")

    def first(self, at: Names, q: str) -> str:
        return f"{at('pos')}[{q}]"

    def owner(self, at: Names, p: str, low: str, high: str) -> str:
        return f"upper({at('pos')}, {low}, {high}, {p}) - 1"

    def walk(self, data: Arrays, q: int) -> Iterator[tuple[int, int]]:
        return ((p, int(data["crd"][p])) for p in range(int(data["pos"][q]), int(data["pos"][q + 1])))


@dataclass(frozen=True)
class Singleton(Level):
    """One coordinate for each position of the parent, as in COO."""

    arrays: ClassVar[tuple[str, ...]] = ("crd",)

    def first(self, at: Names, q: str) -> str:
        return q

    def walk(self, data: Arrays, q: int) -> Iterator[tuple[int, int]]:
        yield q, int(data["crd"][q])


@dataclass(frozen=True)
class Numbered(Level):
    """The position of the parent as a coordinate: entries that are known by their place."""

    def first(self, at: Names, q: str) -> str:
        return q

    def coord(self, at: Names, p: str) -> str:
        return p

    def walk(self, data: Arrays, q: int) -> Iterator[tuple[int, int]]:
        yield q, q


@dataclass(frozen=True)
class Run:
    """Positions [low, high) of a level that are in use; `equal[n]`: n + 1 has the coordinates of n, from `low` on."""

    low: int
    high: int
    equal: Any


def check(level: Level, data: Arrays, parents: int, size: int, above: Run | None, what: str) -> Run:
    """Raise unless the arrays of a level are sound; `above` is the parent level where it repeats coordinates."""
    if not level.adjoining:
        low, high = _check_slices(data["pos"], data["end"], parents, len(data["crd"]), what)
    elif "pos" in level.arrays:
        low, high = _check_offsets(data["pos"], parents, len(data[level.arrays[1]]), what)
    else:
        low, high = (above.low, above.high) if above else (0, parents)
    if "start" in level.arrays:
        start = data["start"][low:high]
        if bool((late := _of_one_parent(data["pos"], low, high) & (start[1:] < start[:-1])).any()):
            p = int(late.argmax()) + low + 1
            raise ValueError(f"{what}: the progression at position {p} begins before the one at {p - 1}; sort them")
    if "crd" not in level.arrays:
        return Run(low, high, None)
    crd = data["crd"]
    if crd.dtype.kind not in "iu" or crd.dtype == np.uint64 or not crd.dtype.isnative:
        raise ValueError(f"{what}: coordinates are uint32, narrower, or int64, not {crd.dtype}")
    used = crd[low:high]
    module = array_module(crd)
    if len(used) < high - low or (len(used) and (int(used.max()) >= size or int(used.min()) < 0)):
        raise ValueError(f"{what}: a coordinate is missing or outside of a dimension of {size}")
    if not level.adjoining:
        return Run(low, high, module.zeros(max(high - low - 1, 0), bool))
    if "pos" in level.arrays:
        same = _of_one_parent(data["pos"], low, high)
    else:
        same = module.full(max(high - low - 1, 0), above.equal if above else False)
    equal = same & (used[1:] == used[:-1])
    wrong = same & (used[1:] < used[:-1])
    if level.unique:
        wrong |= equal
    if bool(wrong.any()):
        p = int(module.flatnonzero(wrong)[0]) + low + 1
        fault = "repeats" if int(crd[p]) == int(crd[p - 1]) else "stands after a greater one"
        raise ValueError(
            f"{what}: coordinate {int(crd[p])} at position {p} {fault}; canonical=True sorts and sums duplicates"
        )
    return Run(low, high, equal)


def _check_offsets(pos: Any, parents: int, stored: int, what: str) -> tuple[int, int]:
    if pos.dtype not in (np.int32, np.int64):
        raise ValueError(f"{what}: offsets are int32 or int64, not {pos.dtype}")
    if len(pos) != parents + 1 or bool((pos[1:] < pos[:-1]).any()) or int(pos[0]) < 0 or int(pos[-1]) > stored:
        raise ValueError(f"{what}: pos must hold {parents + 1} ascending offsets into {stored} positions")
    return int(pos[0]), int(pos[-1])


def _check_slices(pos: Any, end: Any, parents: int, stored: int, what: str) -> tuple[int, int]:
    if pos.dtype not in (np.int32, np.int64) or end.dtype != pos.dtype:
        raise ValueError(f"{what}: pos and end are int32 or int64, not {pos.dtype} and {end.dtype}")
    sound = len(pos) == len(end) == parents and not bool((end < pos).any())
    if not sound or (parents and (int(pos.min()) < 0 or int(end.max()) > stored)):
        raise ValueError(f"{what}: pos and end must bound {parents} slices of {stored} positions")
    return 0, stored


def _of_one_parent(pos: Any, low: int, high: int) -> Any:
    """For each position of [low, high) but the first, whether it has the parent of the one before."""
    same = array_module(pos).ones(max(high - low - 1, 0), bool)
    same[pos[(pos > low) & (pos < high)].astype(np.int64) - low - 1] = False
    return same


def on_device(array: Any) -> bool:
    """Whether an array lies on a GPU."""
    return hasattr(array, "__cuda_array_interface__")


def array_module(array: Any) -> Any:
    """NumPy, or CuPy for its arrays."""
    if isinstance(array, np.ndarray):
        return np
    import cupy  # pyright: ignore[reportMissingImports]

    return cupy
