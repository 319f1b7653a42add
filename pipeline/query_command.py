"""`headway query`: its options, progress and last line."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from ..storage.errors import HeadwayError
from . import show
from .options import Algorithm, AnswerKind, Device, Overrides, Overwrite, Profile, Quiet, StoreSource
from .progress import Counter, Steps
from .settings import Settings, load_settings


def query(
    store: StoreSource,
    queries: Annotated[
        str | None, typer.Argument(metavar="QUERIES", help="CSV or Parquet with origin, departure; or a URL.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="ANSWERS", help="A folder or its URL, or a .csv file.")
    ] = None,
    answer: Annotated[AnswerKind, typer.Option(help="What to write for each query.")] = AnswerKind.arrivals,
    cutoffs: Annotated[str | None, typer.Option(metavar="MINUTES,...", help="Cut-offs of reach [15,30,45,60].")] = None,
    weights: Annotated[
        str | None, typer.Option(metavar="FILE", help="A table `stop` and numbers, summed by reach.")
    ] = None,
    origin: Annotated[str | None, typer.Option("--from", metavar="ID", help="One query, answered on screen.")] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="TIME", help="Its departure, H:MM[:SS] or seconds.")] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="ID", help="Its destination.")] = None,
    algorithm: Annotated[
        Algorithm, typer.Option(help="All give the same answers. edge-2 to edge-32 are for a GPU alone.")
    ] = Algorithm.edge_profile,
    device: Annotated[Device, typer.Option(help="Where to compute.")] = Device.auto,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first bad query.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an unfinished run.")] = False,
    overwrite: Overwrite = False,
    profile: Profile = "laptop",
    overrides: Overrides = [],  # noqa: B006
    quiet: Quiet = False,
) -> None:
    """Answer a file of queries, or one query on the screen. Files may be at URLs: s3://bucket/name."""
    from ..storage.store import local

    settings = load_settings(profile, overrides)
    if origin is not None or at is not None or to is not None:
        if queries is not None or output is not None or origin is None or at is None:
            raise HeadwayError("one query takes --from and --at (and --to), and no file of queries and no -o")
        if answer is not AnswerKind.arrivals or cutoffs is not None or weights is not None:
            raise HeadwayError("--answer, --cutoffs and --weights are for a file of queries; leave them out")
        with Steps(quiet) as steps:
            path = local(store, steps)
        _single(path, origin, at, to, (device, algorithm), settings)
        return
    if queries is None or output is None:
        raise HeadwayError("give a file of queries and -o ANSWERS, or one query by --from ID --at 8:00")
    _batch(
        store,
        queries,
        output,
        (answer, cutoffs, weights),
        (device, algorithm),
        settings,
        strict=strict,
        resume=resume,
        overwrite=overwrite,
        quiet=quiet,
    )


def _single(
    path: Path, origin: str, at: str, to: str | None, where: tuple[Device, Algorithm], settings: Settings
) -> None:
    from ..storage.store import load
    from .device import open_engine
    from .single import one_query

    store, (device, algorithm) = load(path), where
    # One query takes less time than a GPU takes to start.
    place = "cpu" if device is Device.auto else device.value
    engine, _ = open_engine(store, place, algorithm.value, settings)
    show.arrivals(one_query(store, engine, origin, at, to))


def _batch(
    source: str,
    queries: str,
    output: str,
    wanted: tuple[AnswerKind, str | None, str | None],
    where: tuple[Device, Algorithm],
    settings: Settings,
    *,
    strict: bool,
    resume: bool,
    overwrite: bool,
    quiet: bool,
) -> None:
    from ..storage.remote import brought, is_url
    from ..storage.store import fingerprint, load, local
    from .answering import answering
    from .asked import asked_for
    from .query import check_output, run_queries

    begun = time.perf_counter()
    answers = output.rstrip("/") if is_url(output) else Path(output)
    check_output(answers, overwrite)
    with Steps(quiet) as steps:
        path = local(source, steps)
    store = load(path)
    kind, cutoffs, weights = wanted
    if weights is None:
        asked = asked_for(store, kind.value, cutoffs, None)
    else:
        with brought(weights) as table:
            asked = asked_for(store, kind.value, cutoffs, table)
    device, algorithm = (choice.value for choice in where)
    mark = fingerprint(path)
    with (
        brought(queries) as file,
        answering(source, mark, store, asked, device, algorithm, settings, show.note(quiet)) as (answered, which),
        Counter("queries", quiet, f"queries on {which}") as counter,
    ):
        done = run_queries(
            store,
            answered,
            file,
            answers,
            asked,
            fingerprint=mark,
            strict=strict,
            resume=resume,
            overwrite=overwrite,
            started=counter.start,
            advance=counter.advance,
        )
    if not quiet:
        show.answered(done, answers, time.perf_counter() - begun, which)
