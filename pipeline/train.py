"""Snapshot-wise forward and backward passes over a graph: a model, a checkpoint after each epoch, and its curve."""

from __future__ import annotations

import csv
import importlib.util
import re
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from ..cluster.dask import Workers
from ..storage.dt_csr import DTCSR
from ..storage.errors import HeadwayError
from ..storage.parts import save_parts
from .learning.options import Epoch, Options
from .settings import Settings
from .snapshots import cut
from .unfinished import Interrupted, replace

if TYPE_CHECKING:
    from .learning.job import Hear, Job

PARTS = "parts"
CURVE = "curve.csv", "curve.png"


def train(
    graph: DTCSR,
    output: Path,
    options: Options,
    epochs: int,
    device: str = "cpu",
    resume: bool = False,
    overwrite: bool = False,
    settings: Settings | None = None,
    started: Callable[[int], None] = lambda total: None,
    advance: Callable[[int], None] = lambda ticks: None,
    told: Callable[[Epoch], None] = lambda epoch: None,
    dealt: Callable[[int, float], None] = lambda workers, share: None,
    placed: Callable[[str], None] = lambda where: None,
) -> list[Epoch]:
    """Train up to `epochs` epochs; `output` then holds `checkpoint.pt`, `curve.csv` and `curve.png`.

    `resume` goes on after the last epoch in `output`, whose options must be the same; how many workers there were and
    are (`settings.train`) does not matter. `started` hears how many ticks are ahead, `advance` how many more are done,
    `told` of each epoch, in another thread where there are several workers. `dealt` hears how many of them there are,
    and the largest share of the events that one of them holds. `placed` hears in words where layers run, and why.
    Raises `HeadwayError` in one line, and `Interrupted` for Ctrl-C after an epoch.
    """
    if importlib.util.find_spec("torch") is None:
        raise HeadwayError("training needs PyTorch; pip install 'headway[train]'")
    import torch  # pyright: ignore[reportMissingImports]

    from ..cluster.torch import use_threads
    from .learning import checkpoint
    from .learning.job import CHECKPOINT, Hear, Job, given, run

    if graph.ticks < 3:
        raise HeadwayError(f"the graph has {graph.ticks} ticks; training needs 3: what was, what comes, and a test")
    if epochs < 1:
        raise HeadwayError(f"--epochs {epochs}: it must be at least 1")
    if resume:
        checkpoint.opened(output / CHECKPOINT, options)
    elif output.exists() and not overwrite and not _holds_nothing(output):
        raise HeadwayError(f"{output} exists; pass --resume to go on with it, or --overwrite to begin anew")
    if device not in ("auto", "cpu", "cuda"):
        raise HeadwayError(f"device {device!r}; there are auto, cpu and cuda")
    settings = settings or Settings()
    where, count, words = _devices(device, settings)
    _, task = given(graph, options, torch.device("cpu"))  # what is wrong with files is told before anything is written
    output.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(output / PARTS, ignore_errors=True)  # of a run that was killed
    if not resume:
        for name in (CHECKPOINT, *CURVE):  # they must not be taken for this run's when it is stopped early
            (output / name).unlink(missing_ok=True)
    if settings.threads != "auto":
        use_threads(settings.threads)
    placed(words)
    job, hear = Job(output, options, epochs, resume), Hear(started, advance, told)
    try:
        if count == 1:
            curve = run(job, graph, where, hear)
        else:
            curve = _spread(job, graph, where, count, settings, hear, dealt)
        _write_curve(output, curve, task.name)
    except KeyboardInterrupt:
        if (output / CHECKPOINT).exists():
            raise Interrupted from None
        raise
    return curve


def _holds_nothing(output: Path) -> bool:
    """Whether there is no more than a run leaves that was killed before its first epoch ended."""
    if not output.is_dir():
        return False
    left = re.compile(rf"{PARTS}|\.{PARTS}\..*|checkpoint\.pt\.tmp")
    return all(left.fullmatch(one.name) for one in output.iterdir())


def _spread(
    job: Job,
    graph: DTCSR,
    device: str,
    count: int,
    settings: Settings,
    hear: Hear,
    dealt: Callable[[int, float], None],
) -> list[Epoch]:
    """By workers, each with its part of the graph; parts are removed afterwards."""
    from ..cluster.torch import together
    from .learning.job import work
    from .learning.plan import Plan

    options, parts = job.options, job.output / PARTS
    plan = Plan.of(graph, options.window, options.truncated, count)
    with _cutters(settings) as workers:
        made = cut(graph, [plan.of_worker(number) for number in range(count)], options.window, 1, workers)
    save_parts(parts, made, overwrite=True)
    try:
        dealt(count, max(one.graph.events for one in made) / max(graph.events, 1))
        del made
        threads = max(1, settings.thread_count() // count)
        heard = {"started": hear.started, "advance": hear.advance, "told": hear.told}
        given = (job, plan, parts, device)
        return together(count, device == "cuda", threads, work, given, lambda what: heard[what[0]](what[1]))
    finally:
        shutil.rmtree(parts)


def _cutters(settings: Settings) -> AbstractContextManager[Workers]:
    """Dask's workers, but not those of GPUs, which would be started for this alone and take longer than it does."""
    if settings.workers.kind == "cuda":
        return nullcontext(Workers(settings.thread_count()))
    return settings.open_workers()


def _devices(asked: str, settings: Settings) -> tuple[str, int, str]:
    """`cpu` or `cuda`, how many workers, and in words which and why. `auto` is a GPU where PyTorch and the kernels
    find one.

    Raises `HeadwayError` for `cuda` without, and for more workers than GPUs.
    """
    import torch  # pyright: ignore[reportMissingImports]

    from ..cluster.devices import cuda_device

    found, workers = cuda_device(), settings.train.workers
    trouble = found.trouble or ("" if torch.cuda.is_available() else "PyTorch sees none")
    if asked == "cuda" and trouble:
        raise HeadwayError(f"--device cuda: {trouble}; leave it out, or use --device cpu")
    if asked == "cpu" or trouble:
        why = "cpu, as told" if asked == "cpu" else f"cpu: {trouble}"
        return "cpu", 1 if workers == "auto" else workers, why
    if workers != "auto" and workers > found.count:
        raise HeadwayError(f"train.workers {workers}: there are {found.count} GPUs; give as many at most, or auto")
    return "cuda", found.count if workers == "auto" else workers, f"cuda: {found.name}"


def _write_curve(output: Path, curve: list[Epoch], unit: str) -> None:
    """The files of `CURVE`, each whole or not at all. Raises `HeadwayError` where the disk is full."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    table, image = (output / name for name in CURVE)

    def write_table(beside: Path) -> None:
        with beside.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["epoch", "learned", "held_out"])
            rows.writerows((one.epoch, one.learned, one.held_out) for one in curve)

    figure = Figure(figsize=(6, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for name in ("learned", "held_out"):
        axes.plot([one.epoch for one in curve], [getattr(one, name) for one in curve], label=name.replace("_", " "))
    axes.set_xlabel("epoch")
    axes.set_ylabel(unit)
    axes.legend()
    try:
        replace(table, write_table)
        replace(image, lambda beside: figure.savefig(beside, format="png"))
    except OSError as error:
        raise HeadwayError(f"{output}: {error.strerror}; make room, then go on with --resume") from error
