"""The command line: commands, options, progress; no logic."""

from __future__ import annotations

import io
import os
import sys
import time
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from ..storage.errors import HeadwayError
from . import show, show_graph
from .commands import Commands, Unfinished
from .options import Device, Overrides, Overwrite, Profile, Quiet, StoreSource, Subtrips, Walk
from .profile_text import profile_text
from .progress import Steps, Timeline
from .query_command import query
from .settings import load_settings
from .snapshots_command import snapshots
from .submit_command import submit
from .train_command import train

app = typer.Typer(
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Earliest arrivals on public-transport timetables for very large query batches.",
)
config = typer.Typer(help="Profiles and what they say.")
app.add_typer(config, name="config")

INTERRUPTED = 130

# Typer may bring its own copy of Click, so its exceptions are reached through Typer.
ClickException: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"headway {version('headway')}")
        raise typer.Exit


@app.callback()
def _common(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    pass


@app.command(epilog="Example: headway build nyc.zip -o nyc.store --date 2026-09-30")
def build(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="STORE", help="The store to write.")],
    feeds: Annotated[list[Path] | None, typer.Argument(metavar="FEED...", help="GTFS zips or folders.")] = None,
    day: Annotated[str | None, typer.Option("--date", metavar="YYYY-MM-DD", help="The store's first date.")] = None,
    connections: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Instead of feeds: a line `u v t lambda` a connection.")
    ] = None,
    days: Annotated[int | None, typer.Option(help="Calendar days that the store covers [2].")] = None,
    walk: Annotated[Walk | None, typer.Option(help="Footpaths, or none at all [default].")] = None,
    walk_radius: Annotated[float | None, typer.Option(metavar="METRES", help="Generated up to here [500].")] = None,
    walk_speed: Annotated[float | None, typer.Option(metavar="M/S", help="Metres a second [1.2].")] = None,
    walk_detour: Annotated[float | None, typer.Option(metavar="FACTOR", help="Times the great circle [1.0].")] = None,
    cluster_minutes: Annotated[int | None, typer.Option(help="Width of a cluster of departures [60].")] = None,
    subtrips: Annotated[Subtrips | None, typer.Option(help="Shortcuts along trips [none].")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Make the first thing to be left out an error.")] = False,
    overwrite: Overwrite = False,
    profile: Profile = "laptop",
    overrides: Overrides = [],  # noqa: B006
    quiet: Quiet = False,
) -> None:
    """Build a store from GTFS feeds, or from a file of connections."""
    settings = load_settings(
        profile,
        overrides,
        {
            "build.days": ("--days", days),
            "build.cluster_minutes": ("--cluster-minutes", cluster_minutes),
            "build.subtrips": ("--subtrips", subtrips and subtrips.value),
            "walk.mode": ("--walk", walk and walk.value),
            "walk.radius_m": ("--walk-radius", walk_radius),
            "walk.speed_mps": ("--walk-speed", walk_speed),
            "walk.detour": ("--walk-detour", walk_detour),
        },
    )
    begun = time.perf_counter()
    from ..storage.draft import draft
    from .build import build_connections, build_feeds
    from .gtfs.report import Report

    with Steps(quiet) as steps, draft(output, overwrite) as made:
        report = Report(strict=strict, announce=steps)
        if connections is not None:
            if feeds or day or days is not None:
                raise HeadwayError("--connections takes no feeds, --date or --days; leave one of them out")
            walking = walk is Walk.default or (walk_radius, walk_speed, walk_detour) != (None, None, None)
            if settings.build.subtrips != "none" or walking:
                raise HeadwayError("--connections knows no trips and no places: no --subtrips, and --walk none")
            store = build_connections(connections, settings, report, made.array)
        else:
            if not feeds:
                raise HeadwayError("no feed given; name a GTFS zip or folder: headway build FEED -o STORE --date DATE")
            store = build_feeds(feeds, _date(day, feeds), settings, report, None, made.array)
        with report.step("write"):
            store.finish(made)
    if not quiet:
        show.built(store, report, output, time.perf_counter() - begun)


def _date(text: str | None, feeds: list[Path]) -> date:
    try:
        return date.fromisoformat(text or "")
    except ValueError:
        from .dates import service_dates

        hint = service_dates(feeds[0])
        given = f"--date {text!r} is no date" if text else "no --date given"
        raise HeadwayError(f"{given}; write YYYY-MM-DD, {hint}") from None


@app.command(epilog="Example: headway info nyc.store --verify")
def info(
    store: Annotated[
        str,
        typer.Argument(metavar="STORE", help="What `headway build` or `headway snapshots` wrote, or a store's URL."),
    ],
    json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Compare every checksum first.")] = False,
) -> None:
    """Tell what a store or graph holds, what was dropped, and how large its arrays are."""
    from ..storage import bundle, dt_csr
    from ..storage.store import load, local, sizes

    path = local(store, show.note(quiet=False))
    if bundle.kind(path) == dt_csr.KIND:
        show_graph.info(dt_csr.DTCSR.load(path, verify), as_json=json)
    else:
        show.info(load(path, verify), sizes(path), as_json=json)
    if verify:
        show.note(quiet=False)(f"{store}: every checksum is right")


@app.command(epilog="Example: headway stops nyc.store -o stops.csv")
def stops(
    store: StoreSource,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="CSV or Parquet.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """List stops and stations: id, name, lat, lon, station; to write query files from."""
    from ..storage.store import load, local
    from .stops import write_stops

    write_stops(load(local(store, show.note(quiet=False))), output, overwrite)


app.command(
    epilog="Examples: headway query nyc.store queries.csv -o answers/ ; headway query nyc.store --from A12 --at 8:00"
)(query)


@app.command(epilog="Example: headway study nyc.store -o report/ --quick")
def study(
    store: StoreSource,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="REPORT", help="The folder to write.")],
    device: Annotated[Device, typer.Option(help="auto: the CPU, and a GPU that works.")] = Device.auto,
    quick: Annotated[bool, typer.Option("--quick", help="A fifth of the queries, and fewer of slow ones.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an unfinished study.")] = False,
    overwrite: Overwrite = False,
    profile: Profile = "laptop",
    overrides: Overrides = [],  # noqa: B006
    quiet: Quiet = False,
) -> None:
    """Run the paper's experiments on a store built with --walk none: a report with tables and plots."""
    from ..storage.store import fingerprint, load, local
    from .study import check_report, run_study

    settings = load_settings(profile, overrides)
    begun = time.perf_counter()
    check_report(output, overwrite)
    path = local(store, show.note(quiet))
    found = load(path)
    with Timeline(quiet) as progress:
        run_study(
            found,
            output,
            fingerprint=fingerprint(path),
            device=device.value,
            settings=settings,
            quick=quick,
            resume=resume,
            overwrite=overwrite,
            progress=progress,
        )
    if not quiet:
        show.studied(output, time.perf_counter() - begun)


@app.command(epilog="Example: headway nightly plan.yaml ; in a crontab: 15 3 * * * headway nightly /srv/plan.yaml -q")
def nightly(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A .yaml file, as above.")],
    quiet: Quiet = False,
) -> int:
    """Keep OUTPUT/current a whole store of the feeds and dates that a plan names; build only what changed.

    \b
    A plan, with paths from its own folder on; only the first three keys are needed:
      feeds: [gtfs/subway.zip, gtfs/bus-*.zip]
      dates: today..+7          # one store; or a date, or FIRST..LAST
      output: stores
      keep: 7                   # stores, the current one among them
      on_broken_feed: fail      # or leave-out
      profile: laptop
      build: {cluster_minutes: 60}
      walk: {radius_m: 500}

    Exit status: 0, current is up to date; 2, it could not be brought up to date and stays as it was; 3, it is up to
    date, but broken feeds were left out; 4, another run is at work.
    """
    from .nightly import run_nightly

    return run_nightly(plan, quiet)


app.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="Example: headway submit --address http://head:8265 query s3://b/nyc.store s3://b/q.csv -o s3://b/answers",
)(submit)
app.command(
    epilog="Examples: headway snapshots events.csv -o graph/ --width 3600 ; headway snapshots nyc.store -o graph/"
)(snapshots)
app.command(epilog="Example: headway train graph/ -o model/ --task links --window 24 --distinct --epochs 50")(train)


@config.command("show", epilog="Example: headway config show --profile gpu-node > mine.yaml")
def config_show(profile: Profile = "laptop", overrides: Overrides = []) -> None:  # noqa: B006
    """Print all settings that a profile and overrides come to: a profile to save as .yaml, change and use."""
    print(profile_text(profile, overrides), end="")


def main() -> None:
    """Run a command; wrong input is one line and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names that a terminal can't show
    try:
        status = app(sys.argv[1:] or ["--help"], standalone_mode=False)
        if status == INTERRUPTED:  # Typer turns Ctrl-C into a status and returns it
            raise KeyboardInterrupt
        sys.stdout.flush()
        if status:
            sys.exit(status)
    except HeadwayError as error:
        _fail(str(error))
    except BrokenPipeError:
        # The reader of our output left: nobody is there to be told, and what is still buffered must go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
    except ClickException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "headway"
        _fail(f"{error.format_message().rstrip('.')}; see {command} --help")  # type: ignore[attr-defined]
    except OSError as error:
        _fail(f"{error.filename or 'a file'}: {error.strerror or error}; check the path and its permissions")
    except Unfinished:
        _interrupted("; go on with --resume")
    except (KeyboardInterrupt, typer.Abort):
        _interrupted()


def _interrupted(way_out: str = "") -> None:
    print(f"headway: interrupted{way_out}", file=sys.stderr)
    sys.exit(INTERRUPTED)


def _fail(message: str) -> None:
    print("headway: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(2)
