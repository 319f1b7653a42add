"""Files of events: Parquet, CSV, and text with blanks between the fields, gzipped or not."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..kernels import text
from ..storage.errors import HeadwayError
from .ahead import run_ahead
from .blocks import Block, NotUtf8Error, read_blocks, text_buffers, trimmed
from .events import Column

WHOLE = r"^(0|-?[1-9][0-9]*)$"  # other digits, such as 007, are text
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")
BLANKS = re.compile(rb"[ \t]+")
EDGES = re.compile(rb"^[ \t]+|[ \t]+(?=\r?$)", re.MULTILINE)
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
    with _opened(path) as stream:
        blocks = _fields(read_blocks(stream, str(path)))
        first = next(blocks, None)
        if first is None:
            first = Block(str(path), tuple(_header_alone(path)), (b"",), first=True)
        fields = [re.sub(r"#[0-9]+$", "", field) for field in first.header]  # repeated ones were told apart
        if fields and all(NUMBER.fullmatch(field) for field in fields):
            before = 0
            if len(fields) not in (3, 4):
                raise HeadwayError(f"{path}: row 1: {len(fields)} numbers and no header; give src, dst, time, value")
            data = ",".join(fields).encode() + b"\n" + first.data
            first = replace(first, header=PLAIN[: len(fields)], parts=(data,))
        header = first.header
        labels = names.found(list(header), str(path))
        if not first.data:
            return {name: Column(label, pa.array([], pa.string())) for name, label in labels.items()}, before
        types: dict[str, pa.DataType] = {label: pa.string() for label in labels.values()}

        def parse(block: Block) -> dict[str, pa.Array]:
            table = replace(block, header=header).parse(types)
            return {name: _narrowed(name, table[label]) for name, label in labels.items()}

        def whole() -> Iterator[Block]:
            yield first
            yield from blocks

        pieces = list(run_ahead(parse, whole(), threads))
    found = {}
    for name, label in labels.items():
        found[name] = Column(label, _joined([piece.pop(name) for piece in pieces]))
    return _integers(found), before


def _fields(blocks: Iterator[Block]) -> Iterator[Block]:
    """The same with commas, where blanks stand between the fields."""
    blanks = False
    for block in blocks:
        if block.first:
            blanks = len(block.header) == 1 and len(block.header[0].split()) > 1
        if blanks:
            data = BLANKS.sub(b",", EDGES.sub(b"", block.data))
            block = replace(block, header=tuple(block.header[0].split()), parts=(data,))
        yield block


def _opened(path: Path) -> BinaryIO:
    with path.open("rb") as raw:
        zipped = raw.read(2) == b"\x1f\x8b"
    return cast(BinaryIO, gzip.open(path)) if zipped else path.open("rb")


def _header_alone(path: Path) -> list[str]:
    with _opened(path) as stream:
        line = stream.readline().decode("utf-8-sig", "replace").strip()
    return [name.strip() for name in (line.split(",") if "," in line else line.split())]


def _narrowed(name: str, values: pa.ChunkedArray) -> pa.Array:
    """A block's column as numbers, where all of it are; else as text, trimmed, whose empty fields are missing."""
    data, offsets = text_buffers(values)
    numbers = np.empty(len(values), np.int64)
    if name not in ("value", "op") and text.parse_integers(data, offsets, numbers):
        return pa.array(numbers)
    texts = trimmed(values)
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    if name in ("src", "dst", "op"):
        return texts.dictionary_encode()
    if name == "value":
        try:
            return texts.cast(pa.float64())
        except pa.ArrowInvalid:
            return texts
    return texts


def _joined(pieces: list[pa.Array]) -> pa.Array:
    """Pieces as numbers where all of them are, else as text: integers were taken only as written in the one way."""
    if len({piece.type for piece in pieces}) > 1:
        dictionary = any(pa.types.is_dictionary(piece.type) for piece in pieces)
        texts = [piece if pa.types.is_dictionary(piece.type) else piece.cast(pa.string()) for piece in pieces]
        pieces = [text.dictionary_encode() for text in texts] if dictionary else texts
    whole = pa.chunked_array(pieces).unify_dictionaries()
    return pa.concat_arrays(whole.chunks)


def _integers(found: dict[str, Column]) -> dict[str, Column]:
    """Ids as integers where all of them, of both columns, are; otherwise as text."""
    sides = {name: found[name] for name in ("src", "dst")}
    numbers = [name for name, held in sides.items() if pa.types.is_integer(held.values.type)]
    if len(numbers) == 2:
        return found
    for name in numbers:
        sides[name] = Column(sides[name].name, sides[name].values.cast(pa.string()).dictionary_encode())
    found = found | sides
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
