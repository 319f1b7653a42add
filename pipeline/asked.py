"""What a batch is asked for: the kind of answer, cut-offs, weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from ..storage.errors import HeadwayError
from ..storage.store import Store

CUTOFFS = "15,30,45,60"  # minutes, where none are given
MOST_MINUTES = 1_000_000  # a cut-off; arrivals stay below 2**31
SUM_BITS = 62  # of the largest sum of weights, which is counted in int64
TEXT = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class Weights:
    """Numeric columns by stop, 0 for a stop that the table lacks: `values` int64[stops, columns] in units of 2 **
    -`bits[column]`, so that a sum is the same in whatever order it is added up."""

    names: tuple[str, ...] = ()
    values: np.ndarray = field(default_factory=lambda: np.empty((0, 0), np.int64))
    bits: tuple[int, ...] = ()

    def by_stop(self, stops: int) -> np.ndarray:
        """`values`, also where no weights were asked for: int64[stops, columns]."""
        return self.values if self.names else np.empty((stops, 0), np.int64)


@dataclass(frozen=True)
class Answer:
    """What is asked: `kind` is `arrivals`, `od` or `reach`; for `reach` the cut-offs in seconds (int32) and weights."""

    kind: str
    cutoffs: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    weights: Weights = Weights()

    @property
    def schema(self) -> pa.Schema:
        """Columns of the answers."""
        columns: list[tuple[str, pa.DataType]] = [("query_id", pa.int64()), ("origin", TEXT)]
        if self.kind == "od":
            columns.append(("destination", TEXT))
        columns.append(("departure", pa.int32()))
        if self.kind == "arrivals":
            columns.append(("stop", TEXT))
        if self.kind == "reach":
            columns += [("cutoff_s", pa.int32()), ("stops", pa.int32())]
            columns += [(name, pa.float64()) for name in self.weights.names]
        else:
            columns.append(("arrival", pa.int32()))
        return pa.schema(columns)


def asked_for(store: Store, kind: str, cutoffs: str | None, weights: Path | None) -> Answer:
    """An `Answer` from what a user types: cut-offs as `15,30` minutes (None: `CUTOFFS`), a file of weights.

    Raises `HeadwayError` for cut-offs that are no list of minutes, and cut-offs or weights without `reach`.
    """
    if kind != "reach":
        for option, given in (("--cutoffs", cutoffs), ("--weights", weights)):
            if given is not None:
                raise HeadwayError(f"{option} goes with --answer reach, not {kind}")
        return Answer(kind)
    cutoffs = CUTOFFS if cutoffs is None else cutoffs
    try:
        minutes = [float(text) for text in cutoffs.split(",")]
        seconds = [round(60 * value) for value in minutes if 0 <= value <= MOST_MINUTES]
    except (ValueError, OverflowError):
        minutes, seconds = [0.0], []
    if len(seconds) < len(minutes):
        raise HeadwayError(f"--cutoffs {cutoffs}: write minutes with commas between, for example 15,30,45,60")
    found = Weights() if weights is None else read_weights(weights, store)
    return Answer(kind, np.array(seconds, np.int32), found)


def read_weights(path: Path, store: Store) -> Weights:
    """A file for `weights_of`. Raises `HeadwayError` for a file that is no CSV or Parquet table."""
    try:
        if path.suffix == ".parquet":
            return weights_of(pq.read_table(path), str(path), store)
        text = pyarrow.csv.ConvertOptions(column_types={"stop": pa.string()})
        return weights_of(pyarrow.csv.read_csv(path, convert_options=text), str(path), store)
    except (OSError, pa.ArrowException) as error:
        cause = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise HeadwayError(f"{path}: {cause}; give a CSV or Parquet table with `stop` and numbers") from None


def weights_of(table: pa.Table, source: str, store: Store) -> Weights:
    """A table with `stop` and numeric columns; `source` names it in messages.

    Raises `HeadwayError` for a missing column, an unknown or repeated stop, and a value that is no number.
    """
    names = tuple(name for name in table.column_names if name != "stop")
    if "stop" not in table.column_names or not names:
        raise HeadwayError(f"{source}: it has {', '.join(table.column_names)}; it needs `stop` and a numeric column")
    if len(set(names)) < len(names) or table.column_names.count("stop") > 1:
        raise HeadwayError(f"{source}: two columns have one name (it has {', '.join(table.column_names)}); rename one")
    taken = {"query_id", "origin", "departure", "cutoff_s", "stops"} & set(names)
    if taken:
        raise HeadwayError(f"{source}: column {taken.pop()} would clash with the answers' own; rename it")
    ids = table["stop"].cast(pa.string()).combine_chunks()
    rows = pc.fill_null(pc.index_in(ids, value_set=pa.array(store.stops, pa.string())), -1).to_numpy()
    repeated = pd.Series(rows).duplicated().to_numpy() & (rows >= 0)
    for bad, words in ((rows < 0, "is no stop of the store; remove it"), (repeated, "is repeated; keep one row")):
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise HeadwayError(f"{source}: row {row + 2}: {ids[row].as_py()!r} {words}")
    values = np.zeros((len(store.stops), len(names)))
    for k, name in enumerate(names):
        kind = table.schema.field(name).type
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        if number and not table[name].null_count:
            values[rows, k] = table[name].to_numpy()
        if not number or table[name].null_count or not np.isfinite(values[:, k]).all():
            raise HeadwayError(f"{source}: column {name} holds something that is no number; mend or remove it")
    with np.errstate(over="ignore"):
        totals = np.abs(values).sum(axis=0)
    # Whole numbers up to 2**53 are kept as they are, and so are their sums.
    bits = tuple(SUM_BITS - math.frexp(total)[1] for total in totals)
    if not np.isfinite(totals).all():
        raise HeadwayError(f"{source}: a column's numbers are too large to be added up; scale them down")
    return Weights(names, np.rint(np.ldexp(values, bits)).astype(np.int64), bits)
