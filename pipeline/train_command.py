"""`headway train`: its options, progress and lines."""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Device, Overrides, Overwrite, Profile, Quiet
from .progress import Counter
from .settings import load_settings

if TYPE_CHECKING:
    from .learning.options import Epoch


class Layer(enum.StrEnum):
    """What `--model` takes."""

    tgcn = "tgcn"
    gconvgru = "gconvgru"


class Task(enum.StrEnum):
    """What `--task` takes."""

    nodes = "nodes"
    links = "links"


def train(
    graph: Annotated[Path, typer.Argument(metavar="GRAPH", help="A folder that `headway snapshots` wrote.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="The folder to write.")],
    task: Annotated[Task, typer.Option(help="A number for each node, or which pairs meet, at the next tick.")] = (
        Task.nodes
    ),
    model: Annotated[
        Layer, typer.Option(help="Convolve features only (over time on many GPUs), or states as well (one by one).")
    ] = Layer.tgcn,
    features: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npy", help="[nodes, columns] or [ticks, nodes, columns] [degrees and noise]."),
    ] = None,
    targets: Annotated[
        Path | None, typer.Option(metavar="FILE.npy", help="Of nodes, [ticks, nodes], NaN: unknown [log in-degree].")
    ] = None,
    window: Annotated[int, typer.Option(metavar="TICKS", help="How many a snapshot holds.")] = 1,
    distinct: Annotated[bool, typer.Option("--distinct", help="Of equal pairs in a window the last one only.")] = False,
    hidden: Annotated[int, typer.Option(metavar="COLUMNS", help="Of the state of a node.")] = 32,
    epochs: Annotated[int, typer.Option(metavar="N", help="Passes over all ticks.")] = 20,
    lr: Annotated[float, typer.Option(metavar="RATE", help="Adam's learning rate.")] = 0.01,
    truncated: Annotated[int, typer.Option(metavar="TICKS", help="So far back do gradients go.")] = 10,
    seed: Annotated[int, typer.Option(metavar="N", help="Of weights and random pairs.")] = 0,
    device: Annotated[Device, typer.Option(help="Where layers run.")] = Device.auto,
    resume: Annotated[bool, typer.Option("--resume", help="Go on after the last epoch in MODEL.")] = False,
    overwrite: Overwrite = False,
    profile: Profile = "laptop",
    overrides: Overrides = [],  # noqa: B006
    quiet: Quiet = False,
) -> None:
    """Train a recurrent network on the snapshots of a graph; MODEL holds a checkpoint, and the curve as .csv and .png.

    The last fifth of the ticks is not learned from: its loss is printed beside. Needs PyTorch: headway[train].
    """
    from ..storage.dt_csr import DTCSR
    from .learning.options import Options
    from .train import train as run

    x, y = (None if path is None else str(path) for path in (features, targets))
    options = Options(task.value, model.value, x, y, window, distinct, hidden, truncated, lr, seed)
    settings = load_settings(profile, overrides)
    with Counter("ticks", quiet) as counter:
        run(
            DTCSR.load(graph),
            output,
            options,
            epochs,
            device.value,
            resume,
            overwrite,
            settings,
            started=counter.start,
            advance=counter.advance,
            told=(lambda epoch: None) if quiet else _say,
            dealt=(lambda workers, share: None) if quiet else _say_dealt,
            placed=(lambda where: None) if quiet else _say_placed,
        )


def _say(done: Epoch) -> None:
    """A line an epoch."""
    print(f"epoch {done.epoch}: loss {done.learned:.5g}, held out {done.held_out:.5g}", flush=True)


def _say_placed(where: str) -> None:
    """Before the work, which may take hours: a GPU that is missing is not to be found out at its end."""
    print(f"trains on {where}", file=sys.stderr, flush=True)


def _say_dealt(workers: int, share: float) -> None:
    print(f"{workers} workers, each with {share:.0%} of the events at most", flush=True)
