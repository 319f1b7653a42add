"""A batch of queries to a folder of answers, part by part."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby, islice, takewhile
from operator import itemgetter
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from ..storage import remote
from ..storage.errors import HeadwayError
from ..storage.store import Store
from .ahead import beside, prefetched
from .asked import Answer
from .parts import Answered, Found, Lost, Part, write_part
from .query_file import ERRORS, open_queries
from .sink import WHOLE, Folder, Sink, unfinished
from .unfinished import JOB, check_parent, folder_of, replace

AHEAD = 2  # tables that are computed while one is written
PIECES = "errors-"  # files with the errors of a part, until all are there
WRITERS = 4  # files are written at once whose answers are all there: a disk takes its time until they are safe there
PUBLISHED = re.compile(r"part-[0-9]{5,}\.parquet|errors\.parquet")
# What lies in an unfinished folder; one without a job is left by a run that was stopped at its very end.
OURS = re.compile(r"((part|errors)-[0-9]{5,}\.parquet|errors\.(parquet|csv)|answers\.csv|job\.json)(\.tmp)?")


@dataclass(frozen=True)
class Done:
    """What a batch came to."""

    queries: int
    errors: int


def run_queries(
    store: Store,
    answered: Answered,
    queries: Path,
    output: Path | str,
    asked: Answer,
    *,
    fingerprint: str,
    strict: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    started: Callable[[int], None] = lambda rows: None,
    advance: Callable[[int], None] = lambda rows: None,
) -> Done:
    """Answer a file of queries into `output`: a folder of `part-*.parquet` and `errors.parquet`, or, for a name
    that ends in `.csv`, one CSV file and `NAME.errors.csv`. `output` is a path, or a URL as text, for a folder only.

    Work goes to `output.partial/` and is renamed at the end (at a URL: see `sink.Objects`); part k holds queries
    65536 k to 65536 (k + 1) - 1.
    `answered` gives what is asked for. `fingerprint` tells stores apart for `resume`, which keeps the parts that a run
    of the same store, queries and answer has finished. `started` is told the number of queries, `advance` of every
    piece done.

    Raises `HeadwayError` for an output that exists, an unfinished one without `resume` or `overwrite`, and
    with `strict` for the first bad query.
    """
    check_output(output, overwrite)
    if isinstance(output, Path) and output.exists() and output.samefile(queries):
        raise HeadwayError(f"{output} is the file of queries itself; name another output")
    job = _job(queries, asked, fingerprint)
    file = open_queries(queries, asked.kind == "od")
    with unfinished(output, job, OURS, resume, overwrite) as sink:
        started(file.rows)
        there = set(sink.names())
        # A part whose answers are missing is answered anew, and may lose none of its queries then.
        sink.remove([name for name in there if name.startswith(PIECES) and name.replace(PIECES, "part-") not in there])
        errors: dict[int, pa.Table] = {}

        def parts() -> Iterator[Part]:
            """Those without answers yet; where these are, so are the errors, unless the run was stopped at its end."""
            for number, (good, bad) in enumerate(read):
                if strict and len(bad):
                    raise HeadwayError(f"{queries}: {bad['error'][0].as_py()}; mend it, or leave out --strict")
                advance(len(bad))
                if _part(number) not in there:
                    errors[number] = bad
                    yield Part(number, good)
                    continue
                advance(len(good))
                if WHOLE not in there and _errors(number) not in there:
                    _write_errors(sink, number, [bad])

        with (
            closing(file.parts(store, asked.kind == "od")) as read,
            prefetched(answered(parts(), advance), AHEAD) as computed,
        ):
            _write_parts(sink, asked, computed, errors)
        pieces = [name for name in sink.names() if name.startswith(PIECES)]
        if WHOLE not in there:
            _write(sink, WHOLE, ERRORS, (pq.read_table(sink.read(name)) for name in pieces))
        count = pq.read_metadata(sink.read(WHOLE)).num_rows
        if isinstance(sink, Folder) and isinstance(output, Path) and output.suffix == ".csv":
            _publish_csv(sink.path, output, asked.schema)
        else:
            sink.remove(pieces)
            sink.publish()
    return Done(file.rows, count)


def check_output(output: Path | str, overwrite: bool) -> None:
    """Raise `HeadwayError` where answers can't go; cheap, for before any work."""
    if isinstance(output, str):
        if output.endswith(".csv"):
            raise HeadwayError(f"{output}: a .csv is made on this machine's disk; name a folder for Parquet there")
        found = remote.names(output)
        if WHOLE in found and JOB not in found and not overwrite:
            raise HeadwayError(f"{output} exists; name another output, or replace it with --overwrite")
        return
    check_parent(output)
    if not output.name:
        raise HeadwayError(f"{output} is a folder that holds no answers; name another output")
    if output.exists() and not overwrite:
        raise HeadwayError(f"{output} exists; name another output, or replace it with --overwrite")
    if output.suffix == ".csv":
        errors = _csv_errors(output)
        if output.is_dir() or errors.is_dir():
            raise HeadwayError(f"{output}: it or {errors.name} is a folder; it is not replaced: name another output")
        # A run that was stopped at its very end may have put them there.
        if errors.exists() and not overwrite and not folder_of(output).exists():
            raise HeadwayError(f"{errors} exists; name another output, or replace it with --overwrite")
    elif output.exists() and not (output / "errors.parquet").exists():
        kind = "folder that holds no answers" if output.is_dir() else "file, not a folder of answers"
        raise HeadwayError(f"{output} is a {kind}; it is not replaced: name another output")
    elif output.exists():
        strangers = sorted(file.name for file in output.iterdir() if not PUBLISHED.fullmatch(file.name))
        if strangers:
            raise HeadwayError(f"{output} also holds {strangers[0]!r}; it is not replaced: name another output")


def _write_parts(sink: Sink, asked: Answer, computed: Iterable[tuple[int, Found]], errors: dict[int, pa.Table]) -> None:
    """A file for each part as its answers come; its bad queries are taken out of `errors`."""

    def finish(number: int, file: pa.Buffer, bad: pa.Table) -> None:
        _write_errors(sink, number, [bad])
        sink.write(_part(number), lambda beside: beside.write_bytes(file))

    def write(number: int, found: Iterable[Found], bad: pa.Table) -> None:
        _write(sink, _part(number), asked.schema, _contents(found, [bad], sink, number))

    with beside(WRITERS) as start:
        for number, found in groupby(computed, itemgetter(0)):
            what = takewhile(lambda one: one is not None, map(itemgetter(1), found))
            first = list(islice(what, 1))
            if first and isinstance(first[0], pa.Buffer):
                start(partial(finish, number, first[0], errors.pop(number)))
            elif asked.kind != "arrivals":  # few rows, which soon are there
                start(partial(write, number, [*first, *what], errors.pop(number)))
            else:
                write(number, chain(first, what), errors.pop(number))


def _part(number: int) -> str:
    return f"part-{number:05}.parquet"


def _errors(number: int) -> str:
    return f"{PIECES}{number:05}.parquet"


def _contents(found: Iterable[Found], errors: list[pa.Table], sink: Sink, number: int) -> Iterator[pa.Table]:
    """Answers for a part's file; before it is whole, `errors` and the queries that were lost are in their own."""
    for what in found:
        if isinstance(what, Lost):
            errors.append(pa.table([what.query_id, [what.cause] * len(what.query_id)], schema=ERRORS))
        else:
            yield what
    _write_errors(sink, number, errors)


def _write_errors(sink: Sink, number: int, errors: list[pa.Table]) -> None:
    """The errors of a part, before its answers; without any there is no file."""
    if any(map(len, errors)):
        _write(sink, _errors(number), ERRORS, iter(errors))


def _job(queries: Path, asked: Answer, fingerprint: str) -> dict:
    try:
        with queries.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise HeadwayError(f"{queries}: {error.strerror}; give a CSV or Parquet file of queries") from None
    weights = hashlib.sha256(
        repr((asked.weights.names, asked.weights.bits)).encode() + asked.weights.values.tobytes()
    ).hexdigest()
    return {
        "store": fingerprint,
        "queries": content,
        "answer": asked.kind,
        "cutoffs": asked.cutoffs.tolist(),
        "weights": weights,
    }


def _write(sink: Sink, name: str, schema: pa.Schema, contents: Iterator[pa.Table]) -> None:
    """Tables as a Parquet file."""
    sink.write(name, lambda beside: write_part(beside, schema, contents))


def _publish_csv(folder: Path, output: Path, schema: pa.Schema) -> None:
    errors = _csv_errors(output)
    replace(folder / "errors.csv", lambda file: _csv(file, ERRORS, [folder / WHOLE]))
    replace(folder / "answers.csv", lambda file: _csv(file, schema, sorted(folder.glob("part-*.parquet"))))
    (folder / "errors.csv").replace(errors)
    (folder / "answers.csv").replace(output)
    shutil.rmtree(folder)


def _csv_errors(output: Path) -> Path:
    return output.with_name(output.stem + ".errors.csv")


def _csv(file: Path, schema: pa.Schema, parts: list[Path]) -> None:
    plain = pa.schema(
        [(field.name, pa.string() if pa.types.is_dictionary(field.type) else field.type) for field in schema]
    )
    with pyarrow.csv.CSVWriter(file, plain) as writer:
        for part in parts:
            with pq.ParquetFile(part) as parquet:
                for batch in parquet.iter_batches():
                    writer.write_table(pa.table(batch).cast(plain))
