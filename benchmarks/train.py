"""An epoch of TGCN beside PyTorch Geometric Temporal's: time, peak memory, and whether the losses agree.

python benchmarks/train.py --graphs FOLDER    # writes results/train.json

Snapshots hold half of a graph's events, of each pair the last, and move on by a fiftieth of them. Each side runs in a
process of its own, from the same weights. PyTorch Geometric (Temporal) is looked for where Python looks.
"""

from __future__ import annotations

import argparse
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
HIDDEN, FEATURES, TRUNCATED, EPOCHS = 32, 8, 10, 6
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


def headway(graph: DTCSR, weights: Path) -> tuple[Model, Any, Any]:
    """A model, its snapshots, and a step."""
    model = Model(TGCN(FEATURES, HIDDEN))
    model.load_state_dict(torch.load(weights))
    return model, lambda: windows(graph), lambda snapshot, x, state: model.layer(snapshot, x, state)


def geometric(graph: DTCSR, weights: Path) -> tuple[Model, Any, Any]:
    """The same of PyTorch Geometric Temporal: an edge index for each snapshot."""
    try:
        import torch_sparse  # noqa: F401
    except ImportError:  # its recurrent layers do without
        sys.modules["torch_sparse"] = types.ModuleType("torch_sparse")
        sys.modules["torch_sparse"].SparseTensor = None  # type: ignore[attr-defined]
    from torch_geometric_temporal.nn.recurrent.temporalgcn import TGCN as Theirs

    indices = []
    for snapshot in windows(graph):
        source, destination, _ = snapshot.window.edges()
        indices.append(torch.from_numpy(np.stack([source, destination]).astype(np.int64)))
    model = Model(Theirs(FEATURES, HIDDEN))
    model.load_state_dict(torch.load(weights))
    return model, lambda: indices, lambda index, x, state: model.layer(x, index, None, state)


def one(side: str, path: Path, weights: Path) -> dict[str, Any]:
    """Epochs of one side, in this process."""
    graph = graph_of(path)
    torch.manual_seed(1)
    x, target = torch.randn(graph.nodes, FEATURES), torch.randn(graph.nodes, 1)
    before = peak_rss_mib()
    model, snapshots, step = {"headway": headway, "geometric": geometric}[side](graph, weights)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    seconds, losses = [], []
    for _ in range(EPOCHS):
        start, state, loss, whole = time.perf_counter(), None, 0.0, 0.0
        for number, snapshot in enumerate(snapshots(), 1):
            state = step(snapshot, x, state)
            loss = loss + torch.nn.functional.mse_loss(model.out(torch.relu(state)), target)
            if number % TRUNCATED == 0:
                whole, loss, state = whole + _descend(optimizer, loss), 0.0, state.detach()
        if not isinstance(loss, float):
            whole += _descend(optimizer, loss)
        seconds.append(time.perf_counter() - start)
        losses.append(whole / number)
    return {
        "snapshots": number,
        "nodes": graph.nodes,
        "events": graph.events,
        "epoch_s": min(seconds[1:]),
        "median_epoch_s": float(np.median(seconds[1:])),
        "first_epoch_s": seconds[0],
        "losses": losses,
        "peak_rss_mib": round(peak_rss_mib(), 1),
        "above_graph_mib": round(peak_rss_mib() - before, 1),
    }


def _descend(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> float:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss.detach())


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", type=Path, required=True)
    parser.add_argument("--one", nargs=2, metavar=("SIDE", "WEIGHTS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(given.one[0], given.graphs, Path(given.one[1]))))
        return
    results: dict[str, Any] = {}
    for name, file in GRAPHS.items():
        path = given.graphs / file
        if not path.exists():
            print(f"{name}: not there")
            continue
        with tempfile.TemporaryDirectory() as folder:
            torch.manual_seed(7)
            weights = Path(folder) / "weights.pt"
            torch.save(Model(TGCN(FEATURES, HIDDEN)).state_dict(), weights)
            found = {}
            for side in ("geometric", "headway"):
                done = command([sys.executable, __file__, "--graphs", str(path), "--one", side, str(weights)])
                found[side] = json.loads(done.output.strip().splitlines()[-1])
        ours, theirs = found["headway"], found["geometric"]
        found["times_faster"] = round(theirs["epoch_s"] / ours["epoch_s"], 2)
        losses = zip(ours["losses"], theirs["losses"], strict=True)
        found["largest_relative_difference_of_losses"] = max(abs(a - b) / b for a, b in losses)
        results[name] = found
        print(name, json.dumps(found), flush=True)
    config = {
        "hidden": HIDDEN, "features": FEATURES, "truncated": TRUNCATED, "epochs": EPOCHS, "ticks": TICKS,
        "ticks_in_a_snapshot": LENGTH, "ticks_between_snapshots": STEP, "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }  # fmt: skip
    if results:
        print(f"wrote {record('train', results, config=config).name}")


if __name__ == "__main__":
    main()
