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
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ..kernels import text
from ..storage.errors import HeadwayError

BLOCK = 8 << 20
LONGEST_LINE = 32 << 20
BOM = b"\xef\xbb\xbf"
BLANK_BEFORE_QUOTE = re.compile(rb'(^|[,\n\r])[ \t]+"')
QUOTED_FIELD = re.compile(r'(^|[,\n\r])[ \t]*("[^"]*(?:""[^"]*)*)')

# The slow reader's own limit on a field is 128 KiB; lines have a limit here.
csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE + 2 * BLOCK))

Types = dict[str, pa.DataType]


class NotUtf8Error(Exception):
    """Met a block that is not UTF-8."""


@dataclass(frozen=True)
class Block:
    """Whole lines of one file in UTF-8, without the header line."""

    file: str
    header: tuple[str, ...]
    data: bytes
    first: bool = False  # of its file; a file may be read twice

    def __reduce__(self) -> tuple[Any, ...]:
        """Compressed: a block that goes to another process stays with whoever sent it for as long as it may have to be
        sent again."""
        packed = pa.compress(self.data, codec="zstd", asbytes=True)
        return _unpacked, (self.file, self.header, packed, len(self.data), self.first)

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

        def notice(row: pyarrow.csv.InvalidRow) -> str:
            ragged.append(row.actual_columns)
            return "skip"

        if b'"' in self.data and BLANK_BEFORE_QUOTE.search(self.data):
            return self._slow(present)
        try:
            table = pyarrow.csv.read_csv(
                pa.BufferReader(self.data),
                read_options=pyarrow.csv.ReadOptions(
                    column_names=self.header, block_size=len(self.data) + 1, use_threads=False
                ),
                parse_options=pyarrow.csv.ParseOptions(
                    newlines_in_values=b'"' in self.data, invalid_row_handler=notice
                ),
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


def _unpacked(file: str, header: tuple[str, ...], packed: bytes, size: int, first: bool) -> Block:
    return Block(file, header, pa.decompress(packed, size, codec="zstd", asbytes=True), first)


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
    header: tuple[str, ...] = ()
    begun = False
    rest = b""
    row = 1
    while True:
        try:
            piece = stream.read(BLOCK)
        except (BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError) as error:
            raise HeadwayError(f"{file}: damaged at row {row} or after ({error}); fetch it again") from None
        data = rest + piece
        cut = len(data) if not piece else _line_end(data)
        if not piece and b'"' in data and text.line_ends(np.frombuffer(data, np.uint8))[2]:
            raise HeadwayError(f"{file}: row {row} or after: a quote opens and never closes; mend the file")
        if not cut and piece:
            if len(data) > LONGEST_LINE:
                raise HeadwayError(
                    f"{file}: row {row} is longer than {LONGEST_LINE >> 20} MiB or has a quote that never "
                    "closes; mend the file"
                )
            rest = data
            continue
        lines, rest = data[:cut], data[cut:]
        row += lines.count(b"\n") or lines.count(b"\r")
        lines = _utf8(lines, file, latin, first=not header)
        if not header and lines.strip(b"\r\n"):
            header, lines = _split_header(lines)
        if header and lines.strip(b"\r\n"):
            yield Block(file, header, lines, first=not begun)
            begun = True
        if not piece:
            return


def _line_end(data: bytes) -> int:
    """Where the last line that ends outside quotes ends, or 0."""
    if b'"' not in data and b"\n" in data:
        return data.rfind(b"\n") + 1
    return text.line_ends(np.frombuffer(data, np.uint8))[1]


def _utf8(data: bytes, file: str, latin: bool, first: bool) -> bytes:
    if first and (data.startswith((b"\xff\xfe", b"\xfe\xff")) or data[:2].count(0) == 1):
        raise HeadwayError(f"{file}: row 1: UTF-16 text; save the file as UTF-8")
    if first:
        data = data.removeprefix(BOM)
    if latin:
        return data.decode("latin-1").encode()
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            raise NotUtf8Error from None
    return data


def _split_header(data: bytes) -> tuple[tuple[str, ...], bytes]:
    """The header's names, trimmed (a repeated one is told apart, so that the first counts), and what follows."""
    data = data.lstrip(b"\r\n")
    end = text.line_ends(np.frombuffer(data, np.uint8))[0] or len(data)
    names: list[str] = []
    for place, name in enumerate(next(_rows(data[:end]))):
        name = name.strip().strip("\x00")
        names.append(name if name and name not in names else f"{name}#{place}")
    return tuple(names), data[end:]
