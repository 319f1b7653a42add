"""Queries within a pipeline of Ray Data."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pyarrow as pa

from ..storage.errors import HeadwayError
from ..storage.store import load
from .answers import answer
from .asked import asked_for
from .device import open_engine
from .engines import DEFAULT
from .query_file import checked
from .settings import Settings


class Answers:
    """What `ray.data.Dataset.map_batches` makes once in each of its actors, with `batch_format="pyarrow"`.

    `store` is the path of a store on every node; other arguments are as those of `headway query`. A batch has the
    columns of a file of queries, `query_id` among them; Ray Data divides them as it likes, so nothing else tells
    queries apart. Raises `HeadwayError` for the first bad query.
    """

    def __init__(
        self,
        store: str,
        answer: Literal["arrivals", "od", "reach"] = "reach",
        cutoffs: str | None = None,
        weights: str | None = None,
        device: Literal["auto", "cpu", "cuda"] = "auto",
        threads: int = 1,
    ) -> None:
        self._store = load(store)
        self._asked = asked_for(self._store, answer, cutoffs, None if weights is None else Path(weights))
        self._engine, _ = open_engine(self._store, device, DEFAULT, Settings())
        self._threads = threads

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Answers with the columns of `headway query`, in order of the queries."""
        if "query_id" not in batch.column_names:
            raise HeadwayError(
                f"a batch has {', '.join(batch.column_names)}; it needs a query_id to tell queries apart"
            )
        good, errors = checked(batch, "a batch", self._store, self._asked.kind == "od")
        if len(errors):
            number, cause = (errors[name][0].as_py() for name in ("query_id", "error"))
            raise HeadwayError(f"query_id {number}: {cause.partition(': ')[2]}; mend it, or leave it out")
        tables = answer(self._store, self._engine, good, self._asked, self._threads, lambda rows: None)
        return pa.concat_tables([self._asked.schema.empty_table(), *tables])
