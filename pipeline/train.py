"""Snapshot-wise forward and backward passes over a graph: a model, a checkpoint after each epoch, and its curve."""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from ..storage.dt_csr import DTCSR
from ..storage.errors import HeadwayError

CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True)
class Options:
    """What is learned, and how. Files are .npy, as of `learning.tasks`."""

    task: str = "nodes"
    features: str | None = None
    targets: str | None = None
    window: int = 1
    distinct: bool = False
    hidden: int = 32
    truncated: int = 10
    lr: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("window", 1), ("hidden", 1), ("truncated", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise HeadwayError(f"--{name} {getattr(self, name)}: it must be at least {least}")
        if not 0 < self.lr < float("inf"):
            raise HeadwayError(f"--lr {self.lr}: it must be greater than 0")


@dataclass(frozen=True)
class Epoch:
    """Mean loss of the ticks that were learned from, and of the last fifth of the ticks, which were not."""

    epoch: int
    learned: float
    held_out: float


def train(
    graph: DTCSR,
    output: Path,
    options: Options,
    epochs: int,
    device: str = "cpu",
    resume: bool = False,
    overwrite: bool = False,
    started: Callable[[int], None] = lambda total: None,
    advance: Callable[[int], None] = lambda ticks: None,
    told: Callable[[Epoch], None] = lambda epoch: None,
) -> list[Epoch]:
    """Train up to `epochs` epochs; `output` then holds `checkpoint.pt`, `curve.csv` and `curve.png`.

    `resume` goes on after the last epoch in `output`, whose options must be the same. `started` hears how many ticks
    are ahead, `advance` how many more are done, `told` of each epoch. Raises `HeadwayError` in one line.
    """
    if importlib.util.find_spec("torch") is None:
        raise HeadwayError("training needs PyTorch; pip install 'headway[train]'")
    import torch  # pyright: ignore[reportMissingImports]

    from .learning import tasks, training
    from .learning.snapshots import Snapshots

    if graph.ticks < 3:
        raise HeadwayError(f"the graph has {graph.ticks} ticks; training needs 3: what was, what comes, and a test")
    if epochs < 1:
        raise HeadwayError(f"--epochs {epochs}: it must be at least 1")
    checkpoint, before = output / CHECKPOINT, None
    if resume:
        before = _opened(checkpoint, options)
    elif output.exists() and not overwrite:
        raise HeadwayError(f"{output} exists; pass --resume to go on with it, or --overwrite to begin anew")
    where = torch.device(_device(device))
    torch.manual_seed(options.seed)
    snapshots = Snapshots(graph, where, options.window, distinct=options.distinct)
    features = tasks.Features(graph, _path(options.features), options.seed, where)
    task = tasks.TASKS[options.task](graph, _path(options.targets))
    model = tasks.Model(features.columns, options.hidden).to(where)
    optimizer = torch.optim.Adam(model.parameters(), options.lr)
    curve: list[Epoch] = []
    if before:
        if before["columns"] != features.columns or before["nodes"] != graph.nodes:
            raise HeadwayError(f"{checkpoint}: of {before['nodes']} nodes with {before['columns']} features each")
        training.restore(model, optimizer, before["state"])
        curve = [Epoch(*row) for row in before["curve"]]
    output.mkdir(parents=True, exist_ok=True)
    started(max(epochs - len(curve), 0) * (graph.ticks - 1))
    loop = training.epochs(model, optimizer, snapshots, features, task.loss, options.truncated, advance)
    while len(curve) < epochs:
        epoch = Epoch(len(curve) + 1, *next(loop))
        if not epoch.learned < float("inf"):
            raise HeadwayError(f"epoch {epoch.epoch}: the loss is {epoch.learned}; a smaller --lr, or other features")
        curve.append(epoch)
        found = {
            "options": asdict(options),
            "columns": features.columns,
            "nodes": graph.nodes,
            "curve": [(one.epoch, one.learned, one.held_out) for one in curve],
            "state": training.saved(model, optimizer),
        }
        beside = checkpoint.with_suffix(".new")
        torch.save(found, beside)
        beside.replace(checkpoint)
        told(epoch)
    _write_curve(output, curve, task.name)
    return curve


def _device(asked: str) -> str:
    """`auto` is a GPU where PyTorch and the kernels find one. Raises `HeadwayError` for `cuda` without."""
    import torch  # pyright: ignore[reportMissingImports]

    from ..cluster.devices import cuda_device

    trouble = cuda_device().trouble or ("" if torch.cuda.is_available() else "PyTorch sees none")
    if asked == "cuda" and trouble:
        raise HeadwayError(f"--device cuda: {trouble}")
    return "cpu" if asked == "cpu" or trouble else "cuda"


def _opened(checkpoint: Path, options: Options) -> dict:
    """A checkpoint of the same options."""
    import torch  # pyright: ignore[reportMissingImports]

    if not checkpoint.exists():
        raise HeadwayError(f"{checkpoint} is not there; leave --resume out to begin")
    try:
        found = torch.load(checkpoint, weights_only=True)
        theirs = found["options"]
    except Exception as error:  # what torch raises for a file of another kind, or a cut one, is of many types
        reason = str(error).partition("\n")[0]
        raise HeadwayError(f"{checkpoint} is no checkpoint of headway train: {reason}") from None
    mine = asdict(options)
    if other := next((name for name in mine if mine[name] != theirs.get(name)), None):
        raise HeadwayError(f"{checkpoint} has --{other} {theirs.get(other)}, not {mine[other]}; resume with the same")
    return found


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _write_curve(output: Path, curve: list[Epoch], unit: str) -> None:
    """`curve.csv` and `curve.png`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with (output / "curve.csv").open("w", newline="") as file:
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
    figure.savefig(output / "curve.png")
