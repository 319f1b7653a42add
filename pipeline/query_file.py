"""Files of queries, read in parts of fixed size, and what is wrong with each query."""

from __future__ import annotations

import csv
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..storage.errors import HeadwayError
from ..storage.store import Store
from .ahead import prefetched, run_ahead
from .blocks import NotUtf8Error, read_blocks, trimmed
from .ids import Ids
from .times import parse_departures

PART = 65_536
CHECKERS = 2  # threads that look parts through
COLUMNS = ("query_id", "origin", "departure", "destination")
ERRORS = pa.schema([("query_id", pa.int64()), ("error", pa.string())])


@dataclass(frozen=True)
class Queries:
    """Good queries of one part: `query_id` int64, `origin` and `destination` rows of places int32,
    `departure` int32 seconds, all [queries]. `destination` is -1 where none was asked for."""

    query_id: np.ndarray
    origin: np.ndarray
    destination: np.ndarray
    departure: np.ndarray

    def __len__(self) -> int:
        return len(self.query_id)

    def take(self, which: np.ndarray | slice) -> Queries:
        """Some of them."""
        return Queries(self.query_id[which], self.origin[which], self.destination[which], self.departure[which])


@dataclass(frozen=True)
class QueryFile:
    """A file that was looked through once: how many `rows`, and `repeated`, those whose query_id came before
    (int64, from 0). `header_rows` is what people count before the first."""

    path: Path
    header_rows: int
    rows: int
    repeated: np.ndarray

    def parts(self, store: Store, destinations: bool) -> Generator[tuple[Queries, pa.Table]]:
        """Good queries and the errors (`query_id`, `error`) of each 65,536 rows, in order."""
        ids = _known(store)

        def look(numbered: tuple[int, pa.Table]) -> tuple[Queries, pa.Table]:
            number, table = numbered
            return _check(table, number * PART, self, ids, store.timetable.horizon, destinations)

        with prefetched(_parts(self.path, destinations), 1) as tables:
            yield from run_ahead(look, enumerate(tables), CHECKERS)


def open_queries(path: Path, destinations: bool) -> QueryFile:
    """Look a file through: its columns, how many rows, which ids repeat.

    Raises `HeadwayError` for a file that is no readable CSV or Parquet table of queries.
    """
    rows, ascending, last = 0, True, None
    for table in _tables(path, destinations):
        known = _ids(table, rows).drop_null().to_numpy()
        ascending = (
            ascending and bool((np.diff(known) > 0).all()) and (last is None or not len(known) or known[0] > last)
        )
        last = known[-1] if len(known) else last
        rows += len(table)
    repeated = np.empty(0, np.int64) if ascending else _repeated(path, destinations)
    return QueryFile(path, 0 if _is_parquet(path) else 1, rows, repeated)


def _repeated(path: Path, destinations: bool) -> np.ndarray:
    """Rows whose query_id came before (int64). All ids are held at once, which ascending ones don't need."""
    rows = 0
    seen: list[np.ndarray] = []
    for table in _tables(path, destinations):
        ids = _ids(table, rows)
        seen.append(np.stack([ids.drop_null().to_numpy(), rows + np.flatnonzero(ids.is_valid())]))
        rows += len(table)
    known, where = np.concatenate(seen, axis=1)
    del seen
    order = np.argsort(known, kind="stable")  # of equal ids, the first comes first
    known = known[order]
    return np.sort(where[order[1:][known[1:] == known[:-1]]])


def checked(table: pa.Table, source: str, store: Store, destinations: bool) -> tuple[Queries, pa.Table]:
    """Good queries and errors, as of a part, of a table from elsewhere; `source` names it in messages.

    Raises `HeadwayError` for a missing column and one of another type.
    """
    file = QueryFile(Path(source), 0, len(table), np.empty(0, np.int64))
    _require(file.path, table.column_names, _needed(destinations))
    plain = _plain(file.path, table.select([name for name in COLUMNS if name in table.column_names]))
    ids = _known(store)
    return _check(plain, 0, file, ids, store.timetable.horizon, destinations)


def _known(store: Store) -> Ids:
    """Stops and stations, which queries name."""
    return Ids.of(pa.array(store.timetable.places.table["id"].combine_chunks(), pa.string()))


def _needed(destinations: bool) -> tuple[str, ...]:
    return ("origin", "departure", "destination") if destinations else ("origin", "departure")


def _parts(path: Path, destinations: bool) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    held = 0
    for table in _tables(path, destinations):
        waiting.append(table)
        held += len(table)
        while held >= PART:
            whole = pa.concat_tables(waiting)
            yield whole.slice(0, PART)
            waiting = [whole.slice(PART)]
            held -= PART
    if held:
        yield pa.concat_tables(waiting)


def _tables(path: Path, destinations: bool) -> Iterator[pa.Table]:
    """The query columns that the file has, piece by piece."""
    try:
        yield from (_parquet if _is_parquet(path) else _csv)(path, _needed(destinations))
    except (OSError, pa.ArrowException) as error:
        cause = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise HeadwayError(f"{path}: {cause}; give a CSV or Parquet file of queries") from None


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(4) == b"PAR1"


def _parquet(path: Path, needed: tuple[str, ...]) -> Iterator[pa.Table]:
    with pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        _require(path, names, needed)
        columns = [name for name in COLUMNS if name in names]
        for batch in file.iter_batches(PART, columns=columns):
            yield _plain(path, pa.table(batch).select(columns))


def _plain(path: Path, table: pa.Table) -> pa.Table:
    """Query columns as numbers or text. Raises `HeadwayError` for other types."""
    for place, name in enumerate(table.column_names):
        kind = table.schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)
        if not text and name in ("origin", "destination"):
            raise HeadwayError(f"{path}: column {name} is {kind}; ids are text: write it as text")
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        if not (text or number or (pa.types.is_time(kind) and name == "departure")):
            raise HeadwayError(f"{path}: column {name} is {kind}; write it as integers or text")
        if text or pa.types.is_time(kind):
            table = table.set_column(place, name, table[name].cast(pa.string()))
        elif pa.types.is_unsigned_integer(kind) and kind.bit_width == 64:
            # What int64 can't hold is no query_id and no second; text is read as such.
            table = table.set_column(place, name, table[name].cast(pa.string()))
        elif pa.types.is_float16(kind):
            table = table.set_column(place, name, table[name].cast(pa.float32()))
    return table


def _csv(path: Path, needed: tuple[str, ...]) -> Iterator[pa.Table]:
    try:
        with path.open("rb") as stream:
            empty = True
            for block in read_blocks(stream, str(path)):
                empty = False
                _require(path, list(block.header), needed)
                columns = [name for name in COLUMNS if name in block.header]
                table = block.parse(dict.fromkeys(columns, pa.string()))
                yield pa.table([trimmed(table[name]) for name in columns], names=columns)
    except NotUtf8Error:
        raise HeadwayError(f"{path}: not UTF-8; save it as UTF-8") from None
    if empty:
        names = next(csv.reader(path.read_text(encoding="utf-8-sig").split("\n"), skipinitialspace=True), [])
        _require(path, [name.strip() for name in names], needed)


def _require(path: Path, names: list[str], needed: tuple[str, ...]) -> None:
    twice = [name for name in COLUMNS if names.count(name) > 1]
    if twice:
        raise HeadwayError(f"{path}: row 1: two columns are named {twice[0]}; keep one")
    missing = [name for name in needed if name not in names]
    if missing:
        raise HeadwayError(f"{path}: row 1: no column {missing[0]} (it has {', '.join(names)}); add it")


def _ids(table: pa.Table, first: int) -> pa.Array:
    """int64[rows], null where there is none or no integer; row numbers without such a column."""
    if "query_id" not in table.column_names:
        return pa.array(np.arange(first, first + len(table)))
    column = table["query_id"].combine_chunks()
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    texts = pc.fill_null(column.cast(pa.string()), "")
    # 19 digits are compared as text with 2**63 - 1.
    long = pc.and_(pc.match_substring_regex(texts, r"^[0-9]{19}$"), pc.less_equal(texts, str(2**63 - 1)))
    good = pc.or_(pc.match_substring_regex(texts, r"^-?[0-9]{1,18}(\.0)?$"), long)
    whole = pc.replace_substring(pc.if_else(good, texts, "0"), ".0", "")
    return pc.if_else(good, whole.cast(pa.int64()), pa.scalar(None, pa.int64()))


def _seconds(table: pa.Table) -> np.ndarray:
    column = table["departure"].combine_chunks()
    if pa.types.is_integer(column.type):
        wide = pc.fill_null(column.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
        return np.where((wide >= 0) & (wide < 2**31), wide, -1).astype(np.int32)
    if pa.types.is_floating(column.type):
        number = pc.fill_null(column, -1).to_numpy(zero_copy_only=False)
        return np.where((number >= 0) & (number < 2**31) & (number == np.floor(number)), number, -1).astype(np.int32)
    return parse_departures(column)


def _check(
    table: pa.Table, first: int, file: QueryFile, ids: Ids, horizon: int, destinations: bool
) -> tuple[Queries, pa.Table]:
    query_id = _ids(table, first)
    departure = _seconds(table)
    rows = first + np.arange(len(table))
    origin = ids.find(table["origin"])
    destination = np.full(len(table), -1, np.int32)
    problems: list[tuple[np.ndarray, str | None, str]] = [
        (~query_id.is_valid().to_numpy(zero_copy_only=False), None, "the query_id is null or no integer"),
        (np.isin(rows, file.repeated), None, "the query_id is repeated"),
        (origin < 0, "origin", "unknown origin {!r}"),
    ]
    if destinations:
        destination = ids.find(table["destination"])
        problems.append((destination < 0, "destination", "unknown destination {!r}"))
    problems.append((departure < 0, "departure", "malformed departure {!r}"))
    problems.append((departure >= horizon, "departure", f"departure {{}} is outside [0, {horizon})"))
    bad = np.zeros(len(table), np.bool_)
    found: dict[int, str] = {}
    for mask, column, words in problems:
        for row in np.flatnonzero(mask & ~bad):
            value = table[column][int(row)].as_py() if column else None
            found[int(row)] = f"row {first + row + 1 + file.header_rows}: " + words.format(value)
        bad |= mask
    order = sorted(found)
    errors = pa.table([query_id.take(pa.array(order, pa.int64())), [found[row] for row in order]], schema=ERRORS)
    good = np.flatnonzero(~bad)
    return Queries(query_id.fill_null(0).to_numpy()[good], origin[good], destination[good], departure[good]), errors
