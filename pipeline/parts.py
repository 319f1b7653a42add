"""A batch part by part: what is asked for, what is found, how it lies in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..storage.store import Store
from .answers import answer
from .asked import Answer
from .engines import Engine
from .query_file import Queries

ROWS = 2**20  # of a row group, however many came at once


@dataclass(frozen=True)
class Part:
    """Good queries of a part."""

    number: int
    queries: Queries


@dataclass(frozen=True)
class Lost:
    """Queries (`query_id` int64) that could not be answered, and why."""

    query_id: np.ndarray
    cause: str


Advance = Callable[[int], None]
Found = pa.Table | pa.Buffer | Lost | None
"""Some answers of a part, or its whole file, or what was lost, or its end."""
Answered = Callable[[Iterator[Part], Advance], Iterator[tuple[int, Found]]]
"""Answers parts in order, each with its number. The second is told of every few queries that are done."""


def in_process(store: Store, engine: Engine, asked: Answer, threads: int) -> Answered:
    """Parts answered here, on so many threads."""

    def answered(parts: Iterator[Part], advance: Advance) -> Iterator[tuple[int, Found]]:
        for part in parts:
            for table in answer(store, engine, part.queries, asked, threads, advance):
                yield part.number, table
            yield part.number, None

    return answered


def write_part(where: Path | pa.NativeFile, schema: pa.Schema, tables: Iterator[pa.Table]) -> None:
    """Tables as one Parquet file, the same in whatever pieces they come."""
    with pq.ParquetWriter(where, schema, compression="zstd", compression_level=1) as writer:
        held = schema.empty_table()
        for table in tables:
            held = pa.concat_tables([held, table])
            while len(held) >= ROWS:
                writer.write_table(held.slice(0, ROWS).combine_chunks())
                held = held.slice(ROWS)
        if len(held):
            writer.write_table(held.combine_chunks())
