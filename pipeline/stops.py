"""The list of stops, to write query files from."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq

from ..storage.errors import HeadwayError
from ..storage.store import Store


def write_stops(store: Store, output: Path | None, overwrite: bool = False) -> None:
    """`id, name, lat, lon, station` of every stop, then every station, as CSV or (`.parquet`) Parquet.

    To the screen without an output. Raises `HeadwayError` for an output that exists or can't be written.
    """
    table = store.timetable.places.table.select(["id", "name", "lat", "lon", "station"])
    if output is None:
        text = io.BytesIO()
        pyarrow.csv.write_csv(table, text)
        binary = getattr(sys.stdout, "buffer", None)  # a notebook's has none
        if binary is None:
            sys.stdout.write(text.getvalue().decode())
        else:  # UTF-8 whatever the terminal: it may be a file to make queries of
            sys.stdout.flush()
            binary.write(text.getvalue())
        return
    if not output.parent.is_dir():
        raise HeadwayError(f"{output}: the folder {output.parent} does not exist; create it first")
    if output.is_dir():
        raise HeadwayError(f"{output} is a folder; name a file")
    if output.exists() and not overwrite:
        raise HeadwayError(f"{output} exists; name another output, or replace it with --overwrite")
    beside = output.with_name(f".{output.name}.partial")
    try:
        if output.suffix == ".parquet":
            pq.write_table(table, beside)
        else:
            pyarrow.csv.write_csv(table, beside)
        beside.replace(output)
    except OSError as error:
        raise HeadwayError(f"{output}: {error.strerror or error}; name another output") from None
    finally:
        beside.unlink(missing_ok=True)
