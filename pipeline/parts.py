"""A batch part by part: what is asked for, what is found, how it lies in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..storage.store import Store
from .ahead import run_ahead
from .answers import answer
from .asked import Answer
from .engines import Engine
from .query_file import Queries

ROWS = 2**20  # of a row group, however many came at once
ON_DEVICE = 3  # parts that a device and the host are at


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
        if engine.keeps_order and asked.kind != "arrivals":
            # A device that answers a part at once would wait while the host makes tables of it.
            for part, tables in run_ahead(whole, parts, ON_DEVICE):
                advance(len(part.queries))
                for table in tables:
                    yield part.number, table
                yield part.number, None
            return
        for part in parts:
            for table in answer(store, engine, part.queries, asked, threads, advance):
                yield part.number, table
            yield part.number, None

    def whole(part: Part) -> tuple[Part, list[pa.Table]]:
        return part, list(answer(store, engine, part.queries, asked, threads, lambda rows: None))

    return answered


def write_part(where: Path | pa.NativeFile, schema: pa.Schema, tables: Iterator[pa.Table]) -> None:
    """Tables as one Parquet file, the same in whatever pieces they come."""
    # Numbers differ from row to row: a dictionary of them takes time and room.
    texts = [field.name for field in schema if not pa.types.is_primitive(field.type)]
    with pq.ParquetWriter(where, schema, compression="zstd", compression_level=1, use_dictionary=texts) as writer:
        held = schema.empty_table()
        for table in tables:
            held = pa.concat_tables([held, table])
            while len(held) >= ROWS:
                writer.write_table(held.slice(0, ROWS).combine_chunks())
                held = held.slice(ROWS)
        if len(held):
            writer.write_table(held.combine_chunks())
