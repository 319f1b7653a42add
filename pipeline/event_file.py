"""Files of events: Parquet, CSV, and text with blanks between the fields, gzipped or not."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..storage.errors import HeadwayError
from .ahead import run_ahead
from .blocks import Block, NotUtf8Error, read_blocks, trimmed
from .events import Column

WHOLE = r"^(0|-?[1-9][0-9]*)$"  # other digits, such as 007, are text
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")
BLANKS = re.compile(rb"[ \t]+")
EDGES = re.compile(rb"^[ \t]+|[ \t]+(?=\r?$)", re.MULTILINE)
IDS = pa.dictionary(pa.int32(), pa.string())
PLAIN = ("src", "dst", "time", "value")


@dataclass(frozen=True)
class Names:
    """What the columns of events are called; None: as the fields here, `value` and `op` only where asked for, except
    that a column called value is taken."""

    src: str | None = None
    dst: str | None = None
    time: str | None = None
    value: str | None = None
    op: str | None = None

    def found(self, held: list[str], file: str) -> dict[str, str]:
        """Labels of the columns in `held` by field. Raises `HeadwayError` for one that is missing or there twice."""
        labels = {name: getattr(self, name) or name for name in ("src", "dst", "time")}
        if self.value is not None or "value" in held:
            labels["value"] = self.value or "value"
        if self.op is not None:
            labels["op"] = self.op
        for name, label in labels.items():
            if label not in held:
                way_out = f"name it with --{name}" if getattr(self, name) is None else "check its name"
                raise HeadwayError(f"{file}: row 1: no column {label} (it has {', '.join(held)}); {way_out}")
            if held.count(label) > 1:
                raise HeadwayError(f"{file}: row 1: two columns are named {label}; keep one")
        return labels


def read_events(
    path: Path, names: Names, threads: int, announce: Callable[[str], None] = lambda step: None
) -> tuple[dict[str, Column], Callable[[int], str]]:
    """Columns by field, and what words a row of them in messages.

    Text without a header has its columns in the order src, dst, time, value. Raises `HeadwayError` for what is no
    table of events.
    """
    announce(f"read {path.name}")
    try:
        with path.open("rb") as stream:
            parquet = stream.read(4) == b"PAR1"
        found, before = _parquet(path, names) if parquet else _text(path, names, threads)
    except NotUtf8Error:
        raise HeadwayError(f"{path}: not UTF-8; save it as UTF-8") from None
    except (OSError, pa.ArrowException) as error:
        cause = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise HeadwayError(f"{path}: {cause}; give a Parquet or CSV file of events") from None
    return found, lambda row: f"{path}: row {row + 1 + before}"


def _parquet(path: Path, names: Names) -> tuple[dict[str, Column], int]:
    with pq.ParquetFile(path) as file:
        labels = names.found(file.schema_arrow.names, str(path))
        table = file.read(columns=list(labels.values()))
    return {name: Column(label, table[label].combine_chunks()) for name, label in labels.items()}, 0


def _text(path: Path, names: Names, threads: int) -> tuple[dict[str, Column], int]:
    labels: dict[str, str] = {}
    before = 1
    tables: list[pa.Table] = []
    with _opened(path) as stream:
        blocks = _fields(read_blocks(stream, str(path)))
        first = next(blocks, None)
        if first is None:
            first = Block(str(path), tuple(_header_alone(path)), b"", first=True)
        fields = [re.sub(r"#[0-9]+$", "", field) for field in first.header]  # repeated ones were told apart
        if fields and all(NUMBER.fullmatch(field) for field in fields):
            before = 0
            if len(fields) not in (3, 4):
                raise HeadwayError(f"{path}: row 1: {len(fields)} numbers and no header; give src, dst, time, value")
            data = ",".join(fields).encode() + b"\n" + first.data
            first = replace(first, header=PLAIN[: len(fields)], data=data)
        header = first.header
        labels = names.found(list(header), str(path))
        if not first.data:
            return {name: Column(label, pa.array([], pa.string())) for name, label in labels.items()}, before
        types = {label: IDS if name in ("src", "dst", "op") else pa.string() for name, label in labels.items()}

        def parse(block: Block) -> pa.Table:
            return replace(block, header=header).parse(types)

        def whole() -> Iterator[Block]:
            yield first
            yield from blocks

        tables.extend(run_ahead(parse, whole(), threads))
    table = pa.concat_tables(tables).unify_dictionaries()
    found = {}
    for name, label in labels.items():
        values = table[label].combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = pa.concat_arrays(values.chunks)
        found[name] = Column(label, _filled(values))
    return _integers(found), before


def _fields(blocks: Iterator[Block]) -> Iterator[Block]:
    """The same with commas, where blanks stand between the fields."""
    blanks = False
    for block in blocks:
        if block.first:
            blanks = len(block.header) == 1 and len(block.header[0].split()) > 1
        if blanks:
            data = BLANKS.sub(b",", EDGES.sub(b"", block.data))
            block = replace(block, header=tuple(block.header[0].split()), data=data)
        yield block


def _opened(path: Path) -> BinaryIO:
    with path.open("rb") as raw:
        zipped = raw.read(2) == b"\x1f\x8b"
    return cast(BinaryIO, gzip.open(path)) if zipped else path.open("rb")


def _header_alone(path: Path) -> list[str]:
    with _opened(path) as stream:
        line = stream.readline().decode("utf-8-sig", "replace").strip()
    return [name.strip() for name in (line.split(",") if "," in line else line.split())]


def _filled(values: pa.Array) -> pa.Array:
    """Without blanks around; empty fields are missing."""
    if pa.types.is_dictionary(values.type):
        names = trimmed(values.dictionary)
        names = pc.if_else(pc.equal(names, ""), pa.scalar(None, pa.string()), names)
        if names.null_count or not names.equals(values.dictionary):
            return names.take(values.indices).dictionary_encode()
        return values
    values = trimmed(values)
    return pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)


def _integers(found: dict[str, Column]) -> dict[str, Column]:
    """Ids as integers where all of them, of both columns, are."""
    sides = {name: found[name] for name in ("src", "dst")}
    for kind in (pa.int64(), pa.uint64()):
        try:
            numbers = {}
            for name, held in sides.items():
                names = held.values.dictionary
                if not pc.all(pc.match_substring_regex(names, WHOLE), min_count=0).as_py():
                    return found
                numbers[name] = Column(held.name, names.cast(kind).take(held.values.indices))
            return found | numbers
        except pa.ArrowInvalid:
            continue
    return found
