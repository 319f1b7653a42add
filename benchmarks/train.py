"""An epoch of TGCN beside PyTorch Geometric Temporal's: time, peak memory, and whether all numbers agree.

python benchmarks/train.py --graphs FOLDER    # writes results/train.json

Snapshots hold half of a graph's events, of each pair the last, and move on by a fiftieth of them. Each side runs in a
process of its own, from the same weights, on all cores and on one, and keeps its snapshots from epoch to epoch. Before
that both compute one segment in float64 and float32, whose states, loss and gradients are compared. PyTorch Geometric
(Temporal) is looked for where Python looks; without it nothing is measured.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import sys
import tempfile
import time
import types
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import command, peak_rss_mib, record
from headway.pipeline.learning.layers import TGCN
from headway.pipeline.learning.snapshots import Snapshots

from headway import DTCSR

GRAPHS = {
    "email-Eu": "email-Eu-core-temporal.txt.gz",
    "CollegeMsg": "CollegeMsg.txt",
    "mathoverflow": "sx-mathoverflow.txt.gz",
}
HIDDEN, FEATURES, TRUNCATED, EPOCHS = 32, 8, 10, 8
TICKS, LENGTH, STEP = 100, 50, 2


def graph_of(path: Path) -> DTCSR:
    """Events at a hundred ticks of as many events each."""
    with path.open("rb") as file:
        header = file.read(2) != b"\x1f\x8b" and not path.read_text().partition("\n")[0].split()[0].isdigit()
    source, destination, when = np.loadtxt(path, np.int64, skiprows=int(header), usecols=(0, 1, 2), unpack=True)
    each = -(-len(when) // TICKS)
    return DTCSR.from_events((source, destination, when), events_per_tick=each, duplicates="last")


def windows(graph: DTCSR) -> Any:
    """Those that hold `LENGTH` ticks."""
    return islice(Snapshots(graph, length=LENGTH, step=STEP, distinct=True), LENGTH // STEP, None)


class Model(torch.nn.Module):
    """A number for each node from a recurrent layer's state."""

    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.out = torch.nn.Linear(HIDDEN, 1)


def headway(graph: DTCSR, weights: Path) -> tuple[Model, list[Any], Any]:
    """A model, its snapshots, and a step."""
    model = Model(TGCN(FEATURES, HIDDEN))
    model.load_state_dict(torch.load(weights))
    return model, list(windows(graph)), lambda snapshot, x, state: model.layer(snapshot, x, state)


def geometric(graph: DTCSR, weights: Path) -> tuple[Model, list[Any], Any]:
    """The same of PyTorch Geometric Temporal: an edge index for each snapshot."""
    if "torch_sparse" not in sys.modules and importlib.util.find_spec("torch_sparse") is None:  # TGCN does without
        sys.modules["torch_sparse"] = types.ModuleType("torch_sparse")
        sys.modules["torch_sparse"].SparseTensor = None  # type: ignore[attr-defined]
    from torch_geometric_temporal.nn.recurrent.temporalgcn import TGCN as Theirs

    indices = []
    for snapshot in windows(graph):
        source, destination, _ = snapshot.window.edges()
        indices.append(torch.from_numpy(np.stack([source, destination]).astype(np.int64)))
    model = Model(Theirs(FEATURES, HIDDEN))
    model.load_state_dict(torch.load(weights))
    return model, indices, lambda index, x, state: model.layer(x, index, None, state)


SIDES = {"headway": headway, "geometric": geometric}


def data(graph: DTCSR, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    """Features and what is to be learned."""
    torch.manual_seed(1)
    return torch.randn(graph.nodes, FEATURES).to(dtype), torch.randn(graph.nodes, 1).to(dtype)


def loss_of(model: Model, state: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.mse_loss(model.out(torch.relu(state)), target)


def epochs(side: str, path: Path, weights: Path, threads: int) -> dict[str, Any]:
    """Those of one side, in this process."""
    torch.set_num_threads(threads)
    graph = graph_of(path)
    x, target = data(graph)
    before = peak_rss_mib()
    model, snapshots, step = SIDES[side](graph, weights)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    seconds, losses = [], []
    for _ in range(EPOCHS):
        start, state, whole = time.perf_counter(), None, 0.0
        for first in range(0, len(snapshots), TRUNCATED):
            found = []
            for snapshot in snapshots[first : first + TRUNCATED]:
                state = step(snapshot, x, state)
                found.append(loss_of(model, state, target))
            loss = torch.stack(found).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            whole, state = whole + float(loss.detach()), state.detach()
        seconds.append(time.perf_counter() - start)
        losses.append(whole / len(snapshots))
    return {
        "snapshots": len(snapshots),
        "nodes": graph.nodes,
        "events": graph.events,
        "epoch_s": min(seconds[1:]),
        "median_epoch_s": float(np.median(seconds[1:])),
        "first_epoch_s": seconds[0],
        "losses": losses,
        "peak_rss_mib": round(peak_rss_mib(), 1),
        "above_graph_mib": round(peak_rss_mib() - before, 1),
    }


def compared(path: Path, weights: Path) -> dict[str, dict[str, float]]:
    """Largest differences of the sides over a segment, relative to the largest number of each array."""
    graph, results = graph_of(path), dict[str, Any]()
    for dtype in (torch.float64, torch.float32):
        found = []
        for make in SIDES.values():
            model, snapshots, step = make(graph, weights)
            model.to(dtype)
            (x, target), state, losses, states = data(graph, dtype), None, [], []
            for snapshot in snapshots[:TRUNCATED]:
                state = step(snapshot, x, state)
                states.append(state)
                losses.append(loss_of(model, state, target))
            loss = torch.stack(losses).sum()
            loss.backward()
            gradients = {name: one.grad for name, one in model.named_parameters()}
            found.append((torch.stack(states).detach(), loss.detach(), gradients))
        (states, loss, ours), (their_states, their_loss, theirs) = found
        results[str(dtype).removeprefix("torch.")] = {
            "states": apart(states, their_states),
            "loss": apart(loss, their_loss),
            "gradients": max(apart(ours[name], theirs[name]) for name in theirs),
            "parameters": len(theirs),
        }
    return results


def apart(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().max() / other.abs().max())


def run(*words: object) -> Any:
    """What this script prints in a process of its own."""
    done = command([sys.executable, __file__, *map(str, words)])
    return json.loads(done.output.strip().splitlines()[-1])


def measured(path: Path, weights: Path) -> dict[str, Any]:
    """All of one graph."""
    found: dict[str, Any] = {"compared": run("--graphs", path, "--compare", weights)}
    for threads in dict.fromkeys((torch.get_num_threads(), 1)):
        both = {side: run("--graphs", path, "--one", side, weights, threads) for side in reversed(SIDES)}
        ours, theirs = both["headway"], both["geometric"]
        both["times_faster"] = round(theirs["epoch_s"] / ours["epoch_s"], 2)
        both["times_faster_median"] = round(theirs["median_epoch_s"] / ours["median_epoch_s"], 2)
        losses = zip(ours["losses"], theirs["losses"], strict=True)
        both["largest_relative_difference_of_losses"] = max(abs(a - b) / b for a, b in losses)
        found[f"{threads} thread{'s' * (threads > 1)}"] = both
    return found


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", type=Path, required=True)
    parser.add_argument("--one", nargs=3, metavar=("SIDE", "WEIGHTS", "THREADS"), help=argparse.SUPPRESS)
    parser.add_argument("--compare", type=Path, metavar="WEIGHTS", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if importlib.util.find_spec("torch_geometric_temporal") is None:
        sys.exit("skipped: torch_geometric_temporal is not installed, so there is nothing to compare with")
    if given.one:
        print(json.dumps(epochs(given.one[0], given.graphs, Path(given.one[1]), int(given.one[2]))))
        return
    if given.compare:
        print(json.dumps(compared(given.graphs, given.compare)))
        return
    results: dict[str, Any] = {}
    for name, file in GRAPHS.items():
        if not (given.graphs / file).exists():
            print(f"{name}: not there")
            continue
        with tempfile.TemporaryDirectory() as folder:
            torch.manual_seed(7)
            weights = Path(folder) / "weights.pt"
            torch.save(Model(TGCN(FEATURES, HIDDEN)).state_dict(), weights)
            results[name] = measured(given.graphs / file, weights)
        print(name, json.dumps(results[name]), flush=True)
    config = {
        "hidden": HIDDEN, "features": FEATURES, "truncated": TRUNCATED, "epochs": EPOCHS, "ticks": TICKS,
        "ticks_in_a_snapshot": LENGTH, "ticks_between_snapshots": STEP, "torch": torch.__version__,
        **{name: importlib.metadata.version(name) for name in ("torch_geometric", "torch_geometric_temporal")},
    }  # fmt: skip
    if results:
        print(f"wrote {record('train', results, config=config).name}")


if __name__ == "__main__":
    main()
