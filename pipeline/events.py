"""Columns of any kind to events: nodes numbered, times and values checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ..storage.errors import HeadwayError

MOST = 2**32 - 1  # nodes or events
COMPACT = 4  # ids that lie at most so many times as wide as there are events are looked up in a table
INSERT = ("+", "+1", "1", "true", "insert", "add", "a")
DELETE = ("-", "-1", "0", "false", "delete", "remove", "d")
Nodes = int | Sequence[Any] | np.ndarray | pa.Array | None


@dataclass(frozen=True)
class Events:
    """Events as they came: `source`, `target` uint32, `time` int64, `value` float64 or None, `insert` bool (or a
    deletion) or None, all [events]; `ids` of the nodes, ascending unless they were given."""

    source: np.ndarray
    target: np.ndarray
    time: np.ndarray
    value: np.ndarray | None
    insert: np.ndarray | None
    ids: pa.Array


@dataclass(frozen=True)
class Column:
    """A column and what it is called."""

    name: str
    values: pa.Array


def column(name: str, values: Any) -> Column:
    """From NumPy, pandas, cuDF, Arrow, lists. Raises `HeadwayError` for what is no column."""
    try:
        if isinstance(values, pa.ChunkedArray):
            found = values
        elif hasattr(values, "to_arrow"):  # cuDF
            found = values.to_arrow()
        elif isinstance(values, pd.Series | pd.Index):
            found = pa.Array.from_pandas(values)
        elif isinstance(values, pa.Array):
            found = values
        elif isinstance(values, list | tuple):
            found = _listed(values)
        else:
            found = pa.array(np.asarray(values))
        found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise HeadwayError(f"{name}: {' '.join(str(error).split())}; give one column of integers or text") from None
    return Column(name, found)


def _listed(values: list | tuple) -> pa.Array:
    try:
        return pa.array(values)
    except OverflowError:  # Arrow tries int64 alone, and NumPy makes floats of such lists
        return pa.array(values, pa.uint64())


def events_of(columns: dict[str, Column], where: Callable[[int], str], nodes: Nodes = None) -> Events:
    """`columns` has `src`, `dst`, `time` and perhaps `value` and `op`; `where` words a row (from 0) for messages.

    `nodes`: how many there are, numbered 0 to nodes - 1; or their ids, in this order; or None: those that occur.
    Raises `HeadwayError` naming the first row that is wrong.
    """
    lengths = {name: len(held.values) for name, held in columns.items()}
    if len(set(lengths.values())) > 1:
        words = ", ".join(f"{columns[name].name} {length:,}" for name, length in lengths.items())
        raise HeadwayError(f"columns of different lengths ({words}); give one value an event")
    if lengths["time"] > MOST:
        raise HeadwayError(f"{lengths['time']:,} events, {MOST:,} is the most; split them")
    for held in columns.values():
        if held.values.null_count and not pa.types.is_null(held.values.type):
            row = int(pc.index(pc.is_null(held.values), True).as_py())
            raise HeadwayError(f"{where(row)}: {held.name} is missing; fill it in, or leave the row out")
    source, target, ids = _relabelled(columns["src"], columns["dst"], where, nodes)
    time = _times(columns["time"], where)
    value = _values(columns["value"], where) if "value" in columns else None
    insert = _inserts(columns["op"], where) if "op" in columns else None
    return Events(source, target, time, value, insert, ids)


def _refuse(bad: np.ndarray, held: Column, where: Callable[[int], str], words: str) -> None:
    if bad.any():
        row = int(bad.argmax())
        raise HeadwayError(f"{where(row)}: {held.name} {held.values[row].as_py()!r} {words}")


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _plain(values: pa.Array) -> np.ndarray:
    return values.to_numpy(zero_copy_only=False)


def _times(held: Column, where: Callable[[int], str]) -> np.ndarray:
    values = held.values
    kind = values.type
    if not len(values):
        return np.empty(0, np.int64)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        seconds = values.cast(pa.timestamp("s"), safe=False)
        fractions = pc.not_equal(seconds.cast(pa.timestamp("ns")), values.cast(pa.timestamp("ns")))
        _refuse(_plain(fractions), held, where, "has fractions of a second; write integers")
        return _plain(seconds.cast(pa.int64()))
    if _is_text(kind):
        good = _plain(pc.match_substring_regex(values, r"^\s*[+-]?[0-9]{1,18}\s*$"))
        _refuse(~good, held, where, "is no integer; write times as integers")
        return _plain(pc.utf8_trim_whitespace(values).cast(pa.int64()))
    if pa.types.is_floating(kind):
        number = _plain(values)
        with np.errstate(invalid="ignore"):
            _refuse(~((np.abs(number) < 2**53) & (number == np.floor(number))), held, where, "is no integer")
        return number.astype(np.int64)
    if not pa.types.is_integer(kind):
        raise HeadwayError(f"column {held.name} is {kind}; write times as integers")
    number = _plain(values)
    if kind == pa.uint64():
        _refuse(number >= np.uint64(2**63), held, where, "is above 2**63; subtract an offset")
    return number.astype(np.int64)


def _values(held: Column, where: Callable[[int], str]) -> np.ndarray:
    kind = held.values.type
    if not len(held.values):
        return np.empty(0)
    if _is_text(kind):
        number = pd.to_numeric(pd.Series(_plain(held.values)), errors="coerce").to_numpy(np.float64)
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        number = _plain(held.values).astype(np.float64)
    else:
        raise HeadwayError(f"column {held.name} is {kind}; write values as numbers")
    _refuse(~np.isfinite(number), held, where, "is no finite number")
    return number


def _inserts(held: Column, where: Callable[[int], str]) -> np.ndarray:
    if not len(held.values):
        return np.empty(0, np.bool_)
    kinds = held.values.dictionary_encode() if not pa.types.is_dictionary(held.values.type) else held.values
    words = [str(word).strip().lower() for word in kinds.dictionary.to_pylist()]
    codes = _plain(kinds.indices)
    known = np.array([word in (*INSERT, *DELETE) for word in words])
    _refuse(~known[codes], held, where, "is neither an insertion (+, 1, insert, add) nor a deletion (-, -1, delete)")
    return np.array([word in INSERT for word in words])[codes]


def _relabelled(
    source: Column, target: Column, where: Callable[[int], str], nodes: Nodes
) -> tuple[np.ndarray, np.ndarray, pa.Array]:
    sides = [_ids(held) for held in (source, target)]
    given = None
    if nodes is not None:
        given = pa.array(np.arange(nodes)) if isinstance(nodes, int | np.integer) else _ids(column("nodes", nodes))
        given = _text(given) if _is_text(given.type) else given
        if given.null_count or len(pc.unique(given)) < len(given):
            raise HeadwayError("nodes: an id is missing or repeated; give each once")
    kinds = [side.type for side in sides if len(side)] + ([given.type] if given is not None and len(given) else [])
    texts = {_is_text(_value_type(kind)) for kind in kinds}
    if len(texts) > 1:
        words = f"ids in {source.name}, {target.name} or nodes"
        raise HeadwayError(f"{words}: some columns are text, others integers; write them alike")
    if True in texts:
        rows, ids = _named(sides, given)
    else:
        rows, ids = _numbered(_numbers(sides, source, target), given, isinstance(nodes, int | np.integer))
    if len(ids) > MOST:
        raise HeadwayError(f"{len(ids):,} nodes, {MOST:,} is the most")
    if given is not None:
        outside = f"is not in 0..{len(ids) - 1}" if isinstance(nodes, int | np.integer) else "is none of the nodes"
        bad = [row < 0 for row in rows]
        first = [int(mask.argmax()) if mask.any() else len(mask) for mask in bad]
        which = int(first[1] < first[0])
        _refuse(bad[which], (source, target)[which], where, f"{outside}; mend it, or give more nodes")
    return rows[0].astype(np.uint32), rows[1].astype(np.uint32), ids


def _named(sides: list[pa.Array], given: pa.Array | None) -> tuple[list[np.ndarray], pa.Array]:
    """Rows in the ids (-1 for what they lack) of text."""
    encoded = [side if pa.types.is_dictionary(side.type) else _text(side).dictionary_encode() for side in sides]
    codes = [_plain(side.indices).astype(np.int64) for side in encoded]
    names = [_text(side.dictionary) for side in encoded]
    ids = given
    if ids is None:  # those in use: a dictionary may hold others
        used = [name.take(pa.array(np.flatnonzero(np.bincount(code)))) for name, code in zip(names, codes, strict=True)]
        ids = pc.unique(pa.concat_arrays(used))
        ids = ids.take(pc.array_sort_indices(ids))
    rows = [_plain(pc.fill_null(pc.index_in(name, value_set=ids), -1)) for name in names]
    return [row[code] if len(code) else code for row, code in zip(rows, codes, strict=True)], ids


def _numbered(sides: list[np.ndarray], given: pa.Array | None, counted: bool) -> tuple[list[np.ndarray], pa.Array]:
    """Rows in the ids (-1 for what they lack) of integers; `counted`: the ids are 0, 1, ..."""
    if given is not None and counted:
        return [np.where((side >= 0) & (side < len(given)), side, -1) for side in sides], given
    if given is not None:
        known = _plain(given)
        known = known.astype(sides[0].dtype) if len(known) == 0 or int(known.max()) < 2**63 else known
        rows = [pd.Index(known).get_indexer(pd.Index(side)) for side in sides]
        return rows, given
    total = sum(map(len, sides))
    if not total:
        return [np.empty(0, np.int64)] * 2, pa.array(np.empty(0, np.int64))
    low = min(int(side.min()) for side in sides if len(side))
    high = max(int(side.max()) for side in sides if len(side))
    if high - low < COMPACT * total:
        present = np.zeros(high - low + 1, np.bool_)
        places = [side - side.dtype.type(low) for side in sides]
        for place in places:
            present[place] = True
        row = np.cumsum(present, dtype=np.int64) - 1
        ids = np.flatnonzero(present).astype(sides[0].dtype) + sides[0].dtype.type(low)
        return [row[place] for place in places], pa.array(ids)
    codes, held = pd.factorize(np.concatenate(sides), sort=True)
    return [codes[: len(sides[0])], codes[len(sides[0]) :]], pa.array(np.asarray(held))


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _text(values: pa.Array) -> pa.Array:
    return values.cast(pa.string()) if values.type != pa.string() else values


def _ids(held: Column) -> pa.Array:
    """Integers, text or a dictionary of text."""
    values = held.values
    kind = _value_type(values.type)
    if pa.types.is_dictionary(values.type) and not _is_text(kind):
        values = values.dictionary_decode()
    if len(values) and not (_is_text(kind) or pa.types.is_integer(kind)):
        raise HeadwayError(f"column {held.name} is {kind}; ids of nodes are integers or text")
    return values


def _numbers(sides: list[pa.Array], source: Column, target: Column) -> list[np.ndarray]:
    """Both int64, or both uint64 where one passes 2**63."""
    found = [_plain(side) if len(side) else np.empty(0, np.int64) for side in sides]
    if any(number.dtype == np.uint64 and len(number) and number.max() >= 2**63 for number in found):
        if any(number.dtype != np.uint64 and len(number) and number.min() < 0 for number in found):
            raise HeadwayError(f"ids in {source.name}, {target.name}: one is above 2**63, another negative")
        return [number.astype(np.uint64) for number in found]
    return [number.astype(np.int64) for number in found]
