"""The few calls that pandas and cuDF spell differently; everything else in the frame steps is the same."""

from __future__ import annotations

import sys
from typing import Any, Literal

import pandas as pd
import pyarrow as pa

Frames = Literal["pandas", "cudf"]


def to_frame(table: pa.Table, frames: Frames) -> Any:
    """A frame of one of the libraries; cuDF is imported only where it is asked for."""
    if frames == "pandas":
        return table.to_pandas()
    import cudf  # pyright: ignore[reportMissingImports]

    return cudf.DataFrame.from_arrow(table)


def library(frame: Any) -> Any:
    """The module, pandas or cudf, that a frame or series belongs to."""
    return sys.modules[type(frame).__module__.partition(".")[0]]


def concat(frames: list[Any]) -> Any:
    """One frame out of several of one library, rows numbered anew."""
    return library(frames[0]).concat(frames, ignore_index=True)


def to_host(frame: Any) -> Any:
    """A pandas frame or series."""
    return frame if library(frame) is pd else frame.to_pandas()


def text_column(series: Any) -> pa.Array:
    """A text series as Arrow text in one piece."""
    array = pa.array(series, pa.string()) if library(series) is pd else series.to_arrow().cast(pa.string())
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
