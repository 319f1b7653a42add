"""A feed's tables as frames of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..blocks import Block, NotUtf8Error, Types, read_blocks, require, trimmed
from .frames import Frames, to_frame
from .report import Report
from .source import Source


def scan(source: Source, table: str, report: Report) -> Iterator[Block]:
    """The blocks of one table, front to back.

    A file with a byte that is no UTF-8 is read again from its start as Latin-1, with a warning: nothing before the last
    block that says `first` counts then.
    """
    file = f"{source.name}/{table}"
    for latin in (False, True):
        try:
            with source.open(table) as stream:
                yield from read_blocks(stream, file, latin)
            return
        except NotUtf8Error:
            report.warn(f"{file} is not UTF-8: read as Latin-1")


def read_frame(
    source: Source, table: str, columns: tuple[str, ...], report: Report, required=(), frames: Frames = "pandas"
) -> Any:
    """One small table as a frame of trimmed text, absent columns empty, with `row` (2 is the first data row).

    Raises `HeadwayError` when the file lacks a `required` column. An absent or empty file gives no rows.
    """
    kinds: Types = dict.fromkeys(columns, pa.string())
    parts: list[pa.Table] = []
    for block in scan(source, table, report) if table in source else ():
        if block.first:
            parts = []
        require(block, required)
        parts.append(block.parse(kinds))
    whole = pa.concat_tables(parts) if parts else pa.table({name: pa.array([], pa.string()) for name in columns})
    texts = [trimmed(whole[name]) for name in columns]
    return to_frame(pa.table([*texts, np.arange(2, len(whole) + 2)], names=[*columns, "row"]), frames)


def first_lines(table: Any, key: str, columns: Sequence[str], file: str, report: Report) -> Any:
    """One line a `key`, the first, by `row`; later lines that differ from all before are dropped with a word, and lines
    without a key silently."""
    table = table[table[key] != ""].sort_values("row", ignore_index=True)
    again = table.duplicated(key)
    if not again.any():
        return table
    report.drop(file, f"a repeated {key} (the first line counts)", table[key][again & ~table.duplicated(list(columns))])
    return table[~again].reset_index(drop=True)
