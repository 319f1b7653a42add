"""The paper's experiments on a store of one's own: measured, compared, and told in a report.

Source: "GPU Algorithm for Earliest Arrival Time Problem in Public Transport Networks", Tables II to V, Fig. 2 to 4.
"""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

from ...storage.errors import HeadwayError
from ...storage.store import Store
from ..ordered import refuse_walking
from ..progress import Timeline
from ..settings import Settings
from ..unfinished import check_parent, job_folder, publish
from .contestants import contestants_on, devices_for
from .measure import FULL, QUICK, Stopwatch, paper_queries
from .setting import machine
from .tables import Study
from .variants import variants_of

MEASUREMENTS = "measurements.json"
REPORT = "report.md"
OURS = re.compile(r"(report\.md|measurements\.json|job\.json|[a-z_]+\.(csv|png))(\.tmp)?")


def run_study(
    store: Store,
    output: Path,
    *,
    fingerprint: str,
    device: str,
    settings: Settings,
    quick: bool,
    resume: bool,
    overwrite: bool,
    progress: Timeline,
) -> None:
    """Study a store and write the folder `output`: a report, its tables as CSV, plots as PNG, and all measurements.

    What is measured is kept in `output.partial/`, with which `resume` goes on. `fingerprint` tells stores apart;
    `device` is `auto`, `cpu` or `cuda`.

    Raises `HeadwayError` for a store with footpaths, since what the paper compares is defined on connections alone; for
    an output that can't be written; for `cuda` without a GPU; and where an algorithm's arrivals differ from the
    connection scan's.
    """
    check_report(output, overwrite)
    refuse_walking(store, "the paper's study")
    devices = devices_for(device)
    effort, threads = QUICK if quick else FULL, settings.thread_count()
    job = {
        "store": fingerprint,
        "length": "quick" if quick else "full",
        "devices": list(devices),
        "machine": machine(devices),
        "threads": threads,
        "version": version("headway"),
    }
    queries = paper_queries(store).take(slice(effort.queries))
    with job_folder(output, job, OURS, MEASUREMENTS, resume, overwrite) as folder:
        watch = Stopwatch(store, queries, effort, threads, folder / MEASUREMENTS, progress)
        stores = variants_of(store, threads)
        watch.describe(stores[0], store)
        taking_part = contestants_on(devices, settings, int(watch.measured.stores[""]["diameter"]))
        watch.measure(taking_part, stores)
        from .report import write_report  # matplotlib takes a while to start

        progress.step("report")
        write_report(Study(store, queries, taking_part, stores, watch.measured), devices, quick, folder)
        if overwrite:
            check_report(output, overwrite)  # something of another's may have come to lie there since
        publish(folder, output, overwrite)


def check_report(output: Path, overwrite: bool) -> None:
    """Raise `HeadwayError` where a report can't go; cheap, for before any work."""
    check_parent(output)
    if output.exists() and not overwrite:
        raise HeadwayError(f"{output} exists; name another output, or replace it with --overwrite")
    if output.exists() and not (output / REPORT).is_file():
        raise HeadwayError(
            f"{output} is no report of a study (it has no {REPORT}); it is not replaced: name another output"
        )
    if output.exists():
        strangers = sorted(file.name for file in output.iterdir() if not OURS.fullmatch(file.name))
        if strangers:
            raise HeadwayError(f"{output} also holds {strangers[0]!r}; it is not replaced: name another output")
