"""Bytes to text columns: decoding, splitting, quoting and trimming, before any frame.

A file is cut into blocks at line ends outside quotes, so that blocks can be parsed on several threads and no
file has to fit in memory whole. Arrow parses a block; one with ragged lines or blanks before quotes goes to the
slow reader of the standard library, which takes them as they are.
"""

from __future__ import annotations

import csv
import io
import lzma
import re
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from isal import isal_zlib

from ..kernels import text
from ..storage.errors import HeadwayError
from .ahead import prefetched

BLOCK = 8 << 20
LONGEST_LINE = 32 << 20
BOM = b"\xef\xbb\xbf"
BLANK_BEFORE_QUOTE = re.compile(rb'(^|[,\n\r])[ \t]+"')
TEXT = re.compile(rb"[^\r\n]")
QUOTED_FIELD = re.compile(r'(^|[,\n\r])[ \t]*("[^"]*(?:""[^"]*)*)')

# The slow reader's own limit on a field is 128 KiB; lines have a limit here.
csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE + 2 * BLOCK))

DAMAGED: tuple[Any, ...] = (BadZipFile, zlib.error, isal_zlib.error, lzma.LZMAError, EOFError, OSError, ValueError)
"""What streams of `zipfile` raise in the middle."""

Types = dict[str, pa.DataType]


class NotUtf8Error(Exception):
    """Met a block that is not UTF-8."""


@dataclass(frozen=True)
class Block:
    """Whole lines of one file in UTF-8, without the header line, in parts that whoever parses them joins.

    `lies`: the file that other processes find them in, and where.
    """

    file: str
    header: tuple[str, ...]
    parts: tuple[bytes | memoryview, ...]
    first: bool = False  # of its file; a file may be read twice
    lies: tuple[str, int, int] | None = None

    @property
    def data(self) -> bytes:
        """The lines in one piece."""
        return b"".join(self.parts)

    def __reduce__(self) -> tuple[Any, ...]:
        """Compressed, unless others find it: a block that goes to another process stays with whoever sent it for as
        long as it may have to be sent again."""
        if self.lies is not None:
            return _found, (self.file, self.header, *self.lies, self.first)
        data = self.data
        packed = pa.compress(data, codec="zstd", asbytes=True)
        return _unpacked, (self.file, self.header, packed, len(data), self.first)

    def put(self, file: BinaryIO) -> Block:
        """The same, whose lines are at the end of a file too. Raises OSError where they can't be written."""
        begin = file.tell()
        for part in self.parts:
            file.write(part)
        file.flush()
        return replace(self, lies=(file.name, begin, file.tell() - begin))

    def parse(self, columns: Types) -> pa.Table:
        """The named columns as text, blanks around it included; absent ones are empty.

        `columns` maps names to `pa.string()` or to a dictionary of it.
        """
        present = {name: kind for name, kind in columns.items() if name in self.header}
        table = self._arrow(present)
        for name, kind in columns.items():
            if name not in present:
                empty = pa.array([""] * len(table), pa.string())
                table = table.append_column(name, empty.cast(kind) if kind != pa.string() else empty)
        return table.select(list(columns))

    def _arrow(self, present: Types) -> pa.Table:
        ragged: list[int] = []
        data = np.empty(sum(map(len, self.parts)), np.uint8)
        np.concatenate([np.frombuffer(part, np.uint8) for part in self.parts], out=data)

        def notice(row: pyarrow.csv.InvalidRow) -> str:
            ragged.append(row.actual_columns)
            return "skip"

        quotes = text.count(data, 34) > 0
        if quotes and _blank_before_quote(self.data):
            return self._slow(present)
        try:
            table = pyarrow.csv.read_csv(
                pa.BufferReader(pa.py_buffer(data)),
                read_options=pyarrow.csv.ReadOptions(
                    column_names=self.header, block_size=len(data) + 1, use_threads=False
                ),
                parse_options=pyarrow.csv.ParseOptions(newlines_in_values=quotes, invalid_row_handler=notice),
                convert_options=pyarrow.csv.ConvertOptions(
                    include_columns=list(present), column_types=present, strings_can_be_null=False
                ),
            )
        except pa.ArrowInvalid:
            return self._slow(present)
        return self._slow(present) if ragged else table.combine_chunks()

    def _slow(self, present: Types) -> pa.Table:
        width = len(self.header)
        picked: dict[str, list[str]] = {name: [] for name in present}
        places = [(self.header.index(name), values) for name, values in picked.items()]
        for fields in _rows(self.data):
            fields += [""] * (width - len(fields))
            for place, values in places:
                values.append(fields[place])
        arrays = [
            pa.array(values, pa.string()).cast(present[name])
            if present[name] != pa.string()
            else pa.array(values, pa.string())
            for name, values in picked.items()
        ]
        return pa.table(arrays, names=list(picked))


def _found(file: str, header: tuple[str, ...], lies: str, begin: int, size: int, first: bool) -> Block:
    with Path(lies).open("rb", buffering=0) as lines:
        lines.seek(begin)
        return Block(file, header, (lines.read(size),), first)


def _blank_before_quote(data: bytes) -> bool:
    return (b' "' in data or b'\t"' in data) and BLANK_BEFORE_QUOTE.search(data) is not None


def _unpacked(file: str, header: tuple[str, ...], packed: bytes, size: int, first: bool) -> Block:
    return Block(file, header, (pa.decompress(packed, size, codec="zstd", asbytes=True),), first)


def _rows(data: bytes) -> Iterator[list[str]]:
    """Fields of each line that is not empty; a blank before a quote is none."""
    decoded = QUOTED_FIELD.sub(r"\1\2", data.decode())
    return (fields for fields in csv.reader(io.StringIO(decoded, newline="")) if fields)


def trimmed(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Text without blanks around it, in one piece."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return pc.utf8_trim_whitespace(values)


def text_buffers(column: pa.Array | pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Bytes uint8 and offsets int32[rows + 1] of a text column, as the parsers of `kernels.text` take them."""
    whole = column
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], pa.string())
    _, offsets, data = whole.buffers()
    if offsets is None or not len(whole):
        return np.zeros(1, np.uint8), np.zeros(1, np.int32)
    ends = np.frombuffer(offsets, np.int32)[whole.offset : whole.offset + len(whole) + 1]
    return np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8), ends


def require(block: Block, columns: tuple[str, ...]) -> None:
    """Raise `HeadwayError` unless the block's file has the columns."""
    missing = [name for name in columns if name not in block.header]
    if missing:
        raise HeadwayError(
            f"{block.file}: row 1: no column {' and no column '.join(missing)} "
            f"(it has {', '.join(block.header)}); add it to the header"
        )


def read_blocks(stream: BinaryIO, file: str, latin: bool = False) -> Iterator[Block]:
    """Whole lines of a file, front to back; `file` names it in messages.

    Raises `NotUtf8Error` unless it is read as Latin-1, `HeadwayError` for a damaged file.
    """
    with closing(_pieces(stream)) as pieces:
        yield from _cut(pieces, file, latin)


def _cut(pieces: Iterator[bytes | Exception], file: str, latin: bool) -> Iterator[Block]:
    """Pieces, whose last one is empty or an error, to whole lines."""
    header: tuple[str, ...] = ()
    begun = False
    rest = b""
    row = 1
    for piece in pieces:
        if isinstance(piece, Exception):
            cause = str(piece) or "its end is missing"  # zipfile says nothing then
            raise HeadwayError(f"{file}: damaged at row {row} or after ({cause}); fetch it again")
        lines: tuple[bytes | memoryview, ...]
        if b'"' not in piece and b'"' not in rest and (cut := piece.rfind(b"\n") + 1):
            lines, rest = (rest, memoryview(piece)[:cut]), piece[cut:]  # pieces are large: no copy
        else:
            data = rest + piece
            _, cut, quoted = text.line_ends(np.frombuffer(data, np.uint8))
            if not piece and quoted:
                raise HeadwayError(f"{file}: row {row} or after: a quote opens and never closes; mend the file")
            if piece and not cut:
                if len(data) > LONGEST_LINE:
                    raise HeadwayError(
                        f"{file}: row {row} is longer than {LONGEST_LINE >> 20} MiB or has a quote that never "
                        "closes; mend the file"
                    )
                rest = data
                continue
            cut = cut if piece else len(data)
            lines, rest = (data[:cut],), data[cut:]
        row += _count(lines, 10) or _count(lines, 13)
        lines = _utf8(lines, file, latin, first=not header)
        if not header and _any_text(lines):
            header, after = _split_header(b"".join(lines))
            lines = (after,)
        if header and _any_text(lines):
            yield Block(file, header, lines, first=not begun)
            begun = True


def _pieces(stream: BinaryIO) -> Generator[bytes | Exception]:
    """What is read, in pieces, the last one empty or the error that ends it; a longer file is read on a thread of its
    own, which has to inflate it."""

    def read() -> Iterator[bytes | Exception]:
        piece = None
        while piece is None or piece:
            try:
                piece = stream.read(BLOCK)
            except DAMAGED as error:
                yield error
                return
            yield piece

    pieces = read()
    first = next(pieces)
    yield first
    if isinstance(first, bytes) and len(first) < BLOCK:
        yield from pieces
    else:
        with prefetched(pieces, 2) as rest:
            yield from rest


def _count(lines: Iterable[bytes | memoryview], byte: int) -> int:
    return sum(text.count(np.frombuffer(part, np.uint8), byte) for part in lines)


def _any_text(lines: Iterable[bytes | memoryview]) -> bool:
    return any(TEXT.search(part) for part in lines)


def _utf8(lines: tuple[bytes | memoryview, ...], file: str, latin: bool, first: bool) -> tuple[bytes | memoryview, ...]:
    if first:
        data = b"".join(lines)
        if data.startswith((b"\xff\xfe", b"\xfe\xff")) or data[:2].count(0) == 1:
            raise HeadwayError(f"{file}: row 1: UTF-16 text; save the file as UTF-8")
        lines = (data.removeprefix(BOM),)
    if latin:
        return (b"".join(lines).decode("latin-1").encode(),)
    if not all(text.is_ascii(np.frombuffer(part, np.uint8)) for part in lines):
        try:
            b"".join(lines).decode()
        except UnicodeDecodeError:
            raise NotUtf8Error from None
    return lines


def _split_header(data: bytes) -> tuple[tuple[str, ...], bytes]:
    """The header's names, trimmed (a repeated one is told apart, so that the first counts), and what follows."""
    data = data.lstrip(b"\r\n")
    end = text.line_ends(np.frombuffer(data, np.uint8))[0] or len(data)
    names: list[str] = []
    for place, name in enumerate(next(_rows(data[:end]))):
        name = name.strip().strip("\x00")
        names.append(name if name and name not in names else f"{name}#{place}")
    return tuple(names), data[end:]
