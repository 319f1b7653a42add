"""A batch of queries to a folder of answers, part by part."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from ..storage.errors import HeadwayError
from ..storage.store import Store
from .answers import Answer, answer
from .engines import Arrivals
from .query_file import ERRORS, open_queries

JOB = "job.json"


@dataclass(frozen=True)
class Done:
    """What a batch came to."""

    queries: int
    errors: int


def run_queries(
    store: Store,
    engine: Arrivals,
    queries: Path,
    output: Path,
    asked: Answer,
    *,
    fingerprint: str,
    threads: int,
    strict: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    started: Callable[[int], None] = lambda rows: None,
    advance: Callable[[int], None] = lambda rows: None,
) -> Done:
    """Answer a file of queries into `output`: a folder of `part-*.parquet` and `errors.parquet`, or, for a name
    that ends in `.csv`, one CSV file and `NAME.errors.csv`.

    Work goes to `output.partial/` and is renamed at the end; part k holds queries 65536 k to 65536 (k + 1) - 1.
    `fingerprint` tells stores apart for `resume`, which keeps the parts that a run of the same store, queries
    and answer has finished. `started` is told the number of queries, `advance` of every piece done.

    Raises `HeadwayError` for an output that exists, an unfinished one without `resume` or `overwrite`, and
    with `strict` for the first bad query.
    """
    check_output(output, overwrite)
    with _job_folder(output, _job(queries, asked, fingerprint), resume, overwrite) as folder:
        file = open_queries(queries, asked.kind == "od")
        started(file.rows)
        count = 0
        for number, (good, errors) in enumerate(file.parts(store, asked.kind == "od")):
            if strict and len(errors):
                raise HeadwayError(f"{queries}: {errors['error'][0].as_py()}; mend it, or leave out --strict")
            part = folder / f"part-{number:05}.parquet"
            if not part.exists():
                _write(folder / f"errors-{number:05}.parquet", ERRORS, iter([errors]))
                _write(part, asked.schema, answer(store, engine, good, asked, threads, advance))
            else:
                advance(len(good))
            advance(len(errors))
            count += len(errors)
        pieces = [pq.read_table(piece) for piece in sorted(folder.glob("errors-*.parquet"))]
        _write(folder / "errors.parquet", ERRORS, iter(pieces))
        _publish(folder, output, asked.schema, overwrite)
    return Done(file.rows, count)


def check_output(output: Path, overwrite: bool) -> None:
    """Raise `HeadwayError` where answers can't go; cheap, for before any work."""
    if not output.parent.is_dir():
        raise HeadwayError(f"{output}: the folder {output.parent} does not exist; create it first")
    if output.exists() and not overwrite:
        raise HeadwayError(f"{output} exists; name another output, or replace it with --overwrite")
    if output.is_dir() and not (output / "errors.parquet").exists():
        raise HeadwayError(f"{output} is a folder that holds no answers; it is not replaced: name another output")


def _job(queries: Path, asked: Answer, fingerprint: str) -> dict:
    try:
        with queries.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise HeadwayError(f"{queries}: {error.strerror}; give a CSV or Parquet file of queries") from None
    weights = hashlib.sha256(repr(asked.weights.names).encode() + asked.weights.values.tobytes()).hexdigest()
    return {
        "store": fingerprint,
        "queries": content,
        "answer": asked.kind,
        "cutoffs": asked.cutoffs.tolist(),
        "weights": weights,
    }


@contextlib.contextmanager
def _job_folder(output: Path, job: dict, resume: bool, overwrite: bool) -> Iterator[Path]:
    """`output.partial/`, locked for this run; it stays when the run is interrupted."""
    folder = output.with_name(output.name + ".partial")
    if folder.exists():
        found = _read_job(folder)
        if found is None and any(folder.iterdir()):
            raise HeadwayError(f"{folder} is in the way and holds no unfinished answers; remove it or name another")
        if not (resume or overwrite):
            raise HeadwayError(f"{folder} is unfinished; go on with --resume, or begin again with --overwrite")
        if resume and found is not None and found != job:
            which = ", ".join(key for key in job if found.get(key) != job[key])
            raise HeadwayError(f"{folder} was begun with other {which}; begin again with --overwrite")
    folder.mkdir(exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise HeadwayError(f"{folder} is at work in another process; wait for it or name another output") from None
        if not resume:
            for left in folder.iterdir():
                left.unlink()
        for left in folder.glob("*.tmp"):
            left.unlink()
        _replace(folder / JOB, lambda file: file.write_text(json.dumps(job, indent=1, sort_keys=True)))
        yield folder
    except OSError as error:
        raise HeadwayError(f"{folder}: {error.strerror or error}; make room and go on with --resume") from error
    finally:
        os.close(handle)


def _read_job(folder: Path) -> dict | None:
    try:
        return json.loads((folder / JOB).read_text())
    except (OSError, ValueError):
        return None


def _replace(file: Path, write: Callable[[Path], object]) -> None:
    """Write a file whole: beside, to disk, renamed."""
    beside = file.with_name(file.name + ".tmp")
    write(beside)
    with beside.open("rb") as stream:
        os.fsync(stream.fileno())
    beside.replace(file)


def _write(file: Path, schema: pa.Schema, tables: Iterator[pa.Table]) -> None:
    def write(beside: Path) -> None:
        with pq.ParquetWriter(beside, schema, compression="zstd", compression_level=1) as writer:
            for table in tables:
                writer.write_table(table)

    _replace(file, write)


def _publish(folder: Path, output: Path, schema: pa.Schema, overwrite: bool) -> None:
    if output.suffix == ".csv":
        errors = output.with_name(output.stem + ".errors.csv")
        _replace(folder / "errors.csv", lambda file: _csv(file, ERRORS, [folder / "errors.parquet"]))
        _replace(folder / "answers.csv", lambda file: _csv(file, schema, sorted(folder.glob("part-*.parquet"))))
        (folder / "errors.csv").replace(errors)
        (folder / "answers.csv").replace(output)
        shutil.rmtree(folder)
        return
    for piece in folder.glob("errors-*.parquet"):
        piece.unlink()
    (folder / JOB).unlink()
    if output.exists() and overwrite:
        old = output.with_name(output.name + ".old")
        output.rename(old)
        folder.rename(output)
        shutil.rmtree(old)
    else:
        folder.rename(output)


def _csv(file: Path, schema: pa.Schema, parts: list[Path]) -> None:
    plain = pa.schema(
        [(field.name, pa.string() if pa.types.is_dictionary(field.type) else field.type) for field in schema]
    )
    with pyarrow.csv.CSVWriter(file, plain) as writer:
        for part in parts:
            with pq.ParquetFile(part) as parquet:
                for batch in parquet.iter_batches():
                    writer.write_table(pa.table(batch).cast(plain))
