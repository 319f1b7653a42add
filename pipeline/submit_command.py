"""`headway submit`: the same command, run by a Ray cluster."""

from __future__ import annotations

import shlex
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from ..storage.errors import HeadwayError
from ..storage.remote import is_url

PATHS = ("store", "queries", "output", "weights")
DASHBOARD = "http://127.0.0.1:8265"  # where `ray dashboard` and `kubectl port-forward` lead to


def submit(
    context: typer.Context,
    words: Annotated[list[str], typer.Argument(metavar="query ...", help="The command with its arguments.")],
    address: Annotated[
        str, typer.Option(envvar="RAY_API_SERVER_ADDRESS", metavar="URL", help="Of the cluster's dashboard.")
    ] = DASHBOARD,
) -> int:
    """Send `headway query ...` to a Ray cluster as a job, and follow it.

    Files are at URLs (s3://bucket/name), or at paths that the cluster has; actors are the cluster's unless --set
    query.workers says otherwise. The exit status is the job's. After Ctrl-C the job goes on.
    """
    command: Any = context.parent.command if context.parent else None
    entrypoint = _entrypoint(command, words)
    from ..cluster.jobs import Job

    job = Job(address, entrypoint)
    print(f"job {job.name} at {address}", file=sys.stderr)
    try:
        status = job.follow(lambda line: print(line, file=sys.stderr, flush=True))
    except KeyboardInterrupt:
        print(f"headway: {job.ways()}", file=sys.stderr)
        raise
    return status


def _entrypoint(command: Any, words: list[str]) -> str:
    """What the shell of the cluster's head is told. Raises `HeadwayError` and Click's errors for wrong words."""
    if words[0] != "query":
        raise HeadwayError(f"headway submit {words[0]}: a cluster takes query; run other commands where the files are")
    given = command.commands["query"].make_context("headway query", list(words[1:])).params
    files = [str(given[name]) for name in PATHS if given[name] is not None]
    if given["profile"].endswith((".yaml", ".yml")):
        files.append(given["profile"])
    for file in files:
        if not (is_url(file) or Path(file).is_absolute()):
            raise HeadwayError(f"{file}: write where the cluster finds it, s3://bucket/... or a path from / on")
    ours = f"headway {version('headway')}"
    run = shlex.join(["headway", "query", "--set", "query.workers=auto", *words[1:]])
    other = (
        f'echo "headway: the cluster has ${{there:-no headway}}, this is {ours}; install the same there" >&2; exit 2'
    )
    return f'there=$(headway --version 2>/dev/null); [ "$there" = "{ours}" ] || {{ {other}; }}; exec {run}'
