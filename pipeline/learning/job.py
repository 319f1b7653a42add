"""A run of `headway train`: in this process, or a worker's part of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch  # pyright: ignore[reportMissingImports]

from ...storage.dt_csr import DTCSR
from ...storage.errors import HeadwayError
from ...storage.parts import load_part
from . import checkpoint, tasks
from .options import Epoch, Options
from .plan import Plan
from .snapshots import Snapshots
from .team import Team
from .training import epochs

CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True)
class Job:
    """Up to `epochs` epochs, a checkpoint in `output` after each; `resume`: from the one that is there."""

    output: Path
    options: Options
    epochs: int
    resume: bool


@dataclass(frozen=True)
class Hear:
    """What is told of a run: how many ticks are ahead, how many more are done, each epoch."""

    started: Callable[[int], None] = lambda total: None
    advance: Callable[[int], None] = lambda ticks: None
    told: Callable[[Epoch], None] = lambda epoch: None


def given(graph: DTCSR, options: Options, place: torch.device) -> tuple[tasks.Features, Any]:
    """Features and task. Raises `HeadwayError` for files that don't fit the graph."""
    features = tasks.Features(graph, _path(options.features), options.seed, place)
    return features, tasks.TASKS[options.task](graph, _path(options.targets), options.seed)


def run(
    job: Job, graph: DTCSR, device: str, hear: Hear, plan: Plan | None = None, team: Team | None = None
) -> list[Epoch]:
    """The curve. With a plan and a team: of this worker, whose part `graph` is; the first one saves.

    Raises `HeadwayError`.
    """
    options, place = job.options, torch.device(device)
    torch.manual_seed(options.seed)
    snapshots = Snapshots(graph, place, options.window, distinct=options.distinct)
    features, task = given(graph, options, place)
    model = tasks.Model(features.columns, options.hidden, options.model).to(place)
    optimizer = torch.optim.Adam(model.parameters(), options.lr)
    of_graph, curve = (graph.nodes, features.columns), []
    if job.resume:
        curve = checkpoint.restore(job.output / CHECKPOINT, options, *of_graph, model, optimizer)
    hear.started(max(job.epochs - len(curve), 0) * (graph.ticks - 1))
    plan, team = plan or Plan.of(graph, options.window, options.truncated, 1), team or Team(0, 1)
    loop = epochs(model, optimizer, snapshots, features, task.loss, plan, team, len(curve) + 1, hear.advance)
    while len(curve) < job.epochs:
        epoch = Epoch(len(curve) + 1, *next(loop))
        if not epoch.learned < float("inf"):
            raise HeadwayError(f"epoch {epoch.epoch}: the loss is {epoch.learned}; a smaller --lr, or other features")
        curve.append(epoch)
        if team.rank == 0:
            checkpoint.save(job.output / CHECKPOINT, options, *of_graph, curve, model, optimizer)
        hear.told(epoch)
    return curve


def work(tell: Callable[[Any], None], job: Job, plan: Plan, parts: Path, device: str) -> list[Epoch]:
    """A worker of `cluster.torch.together`. The first one tells (name of what `Hear` has, what is told)."""
    team = Team.of()
    hear = Hear()
    if team.rank == 0:
        hear = Hear(*(_telling(tell, name) for name in ("started", "advance", "told")))
    return run(job, load_part(parts, team.rank).graph, device, hear, plan, team)


def _telling(tell: Callable[[Any], None], name: str) -> Callable[[Any], None]:
    return lambda what: tell((name, what))


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
