"""How the tables of a made-up feed get onto disk: text columns, CSV, a folder or a zip."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv


def clock_table(hours: int = 72) -> pa.Array:
    """All times of day as text, to be taken from by seconds: far quicker than formatting each."""
    return pa.array([f"{h:02}:{m:02}:{s:02}" for h in range(hours) for m in range(60) for s in range(60)])


def join(*parts: pa.Array | str) -> pa.Array:
    """Text columns and constants side by side."""
    return pc.binary_join_element_wise(*parts, "")


def text(numbers: np.ndarray, width: int = 0) -> pa.Array:
    """Numbers as text, padded with zeros."""
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width=width, padding="0")


def csv_bytes(table: pa.Table, header: bool, quoting: str = "needed") -> pa.Buffer:
    """A table as CSV."""
    sink = pa.BufferOutputStream()
    options = pa.csv.WriteOptions(include_header=header, quoting_style=quoting)
    pa.csv.write_csv(table, sink, options)
    return sink.getvalue()


class Folder:
    """A feed as a folder of text files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)

    def open(self, name: str) -> BinaryIO:
        return (self.path / name).open("wb")

    def close(self) -> None:
        pass


class Archive:
    """A feed as a zip; entries carry zipfile's constant 1980 timestamp, so that bytes repeat."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1)

    def open(self, name: str) -> BinaryIO:
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, 0o644 << 16
        entry._compresslevel = 1
        return self.zip.open(entry, "w", force_zip64=True)

    def close(self) -> None:
        self.zip.close()


def put(out: Folder | Archive, name: str, columns: dict[str, object]) -> None:
    """Write a whole small table."""
    with out.open(name) as sink:
        sink.write(csv_bytes(pa.table(columns), header=True))
