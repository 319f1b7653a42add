"""A training step over several devices beside one: exogenous features, and states handed over, with the bubble.

python benchmarks/train_devices.py    # all GPUs, or processes of the CPU; writes results/train-devices-cuda.json (-cpu)

Events are made up: sources skewed, destinations and ticks uniform. "independent": a TGCN that maps its features before
it convolves them, so that gradients pass through every snapshot. "handed over": a GConvGRU over the first ticks, one
sequence and several. Each number of workers is a job of its own, by the launcher of `headway train`; with one worker it
runs the same code, exchanging with itself. bubble: the share of the workers' time in which they wait,
1 - t(1) / (w t(w)).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from harness import peak_rss_mib, record
from headway.cluster.dask import Workers
from headway.cluster.devices import cuda_device
from headway.cluster.torch import together
from headway.pipeline.learning.gconvgru import GConvGRU
from headway.pipeline.learning.layers import TGCN
from headway.pipeline.learning.snapshots import Snapshot, Snapshots
from headway.pipeline.learning.spread import exchanged, handed_over, run_through
from headway.pipeline.learning.team import Deal, Team
from headway.pipeline.snapshots import Run, cut, runs, window_edges
from headway.storage.parts import load_part, save_parts

from headway import DTCSR


@dataclass(frozen=True)
class Sizes:
    """What is measured; `ticks_handed_over`: of the second case, `sequences` through its pipeline."""

    nodes: int
    events: int
    ticks: int = 24
    length: int = 6
    inputs: int = 128
    hidden: int = 32
    ticks_handed_over: int = 8
    sequences: tuple[int, ...] = (1, 4)
    steps: int = 3


GPU, CPU = Sizes(1_000_000, 60_000_000), Sizes(10_000, 600_000)


def graph_of(sizes: Sizes) -> DTCSR:
    """Skewed events."""
    rng = np.random.default_rng(1)
    source = np.minimum((rng.random(sizes.events) ** 3 * sizes.nodes).astype(np.int64), sizes.nodes - 1)
    destination = rng.integers(0, sizes.nodes, sizes.events)
    tick = rng.integers(0, sizes.ticks, sizes.events)
    return DTCSR.from_events((source, destination, tick), nodes=sizes.nodes, width=1, start=0)


def deals(graph: DTCSR, sizes: Sizes, workers: int) -> tuple[list[Run], list[Run], list[Run]]:
    """Runs of ticks of both cases, and shares of the nodes."""
    edges, nodes = window_edges(graph, sizes.length), np.ones(graph.nodes)
    return runs(edges, workers), runs(edges[: sizes.ticks_handed_over], workers), runs(nodes, workers)


def worker(tell: Any, sizes: Sizes, parts: Path, dealt: tuple[list[Run], list[Run], list[Run]]) -> dict[str, Any]:
    """Both cases on this worker; what the first one gives has the memory of all."""
    team = Team.of()
    device = torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")
    held = load_part(parts, team.rank).graph
    snapshots = Snapshots(held, device, sizes.length)
    mine = [range(*one[team.rank]) for one in dealt[:2]]
    # Made once: a step is what devices do.
    now = {one.window.last: one for one in snapshots if any(one.window.last in ticks for ticks in mine)}
    torch.manual_seed(0)
    x, target = torch.randn(sizes.nodes, sizes.inputs), torch.randn(sizes.nodes, sizes.hidden)
    x, target = x.to(device), target.to(device)

    def loss(state: torch.Tensor, after: Snapshot) -> torch.Tensor:
        return torch.nn.functional.mse_loss(state, target)

    found: dict[str, Any] = {"events held": held.events}
    torch.manual_seed(1)
    layer = TGCN(sizes.inputs, sizes.hidden).to(device)
    deal = Deal(team, dealt[0], dealt[2])
    first, last = dealt[2][team.rank]
    pairs = [(now[tick], now[tick]) for tick in mine[0]]
    state = torch.zeros(last - first, sizes.hidden, device=device)
    found["independent"] = measured(
        lambda: exchanged(layer, pairs, lambda one: x, state, loss, deal), layer, team, device, sizes.steps
    )
    torch.manual_seed(1)
    recurrent = GConvGRU(sizes.hidden, sizes.hidden).to(device)
    features = x[:, : sizes.hidden].contiguous()
    pairs = [(now[tick], now[tick]) for tick in mine[1]]
    step = run_through(recurrent, pairs, lambda one: features, loss)
    whole = torch.zeros(sizes.nodes, sizes.hidden, device=device)
    for count in sizes.sequences:
        states = [whole + n / count for n in range(count)]
        found[f"handed over, {count}"] = measured(
            lambda states=states: handed_over(step, states, team), recurrent, team, device, sizes.steps
        )
    return found


def measured(
    step: Callable[[], object], model: torch.nn.Module, team: Team, device: torch.device, steps: int
) -> dict[str, Any]:
    """Median seconds of a step and its gradients' sum, the most memory of each worker, the gradient."""
    seconds = []
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    for _ in range(steps + 1):
        model.zero_grad()
        _settle(device)
        begun = time.perf_counter()
        step()
        team.add_up(model.parameters())
        _settle(device)
        seconds.append(time.perf_counter() - begun)
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else peak_rss_mib()
    peaks: list[Any] = [None] * team.size
    dist.all_gather_object(peaks, peak)
    gradient = torch.cat([one.grad.reshape(-1) for one in model.parameters()]).cpu().numpy()  # type: ignore[union-attr]
    return {"s": statistics.median(seconds[1:]), "first_s": seconds[0], "peak_mib": peaks, "gradient": gradient}


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()
    dist.barrier()


def compared(found: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Times, speedups, bubbles, memory, and how far gradients are from those of one worker."""
    one, results = found[1], dict[str, Any]()
    for workers, mine in found.items():
        cases = {name: case for name, case in mine.items() if isinstance(case, dict)}
        made: dict[str, Any] = {"events held by the first": mine["events held"], "cut and write s": mine["cut_s"]}
        for name, case in cases.items():
            alone = one[name]
            made[name] = {
                "step s": round(case["s"], 4),
                "first step s": round(case["first_s"], 3),
                "times faster": round(alone["s"] / case["s"], 3),
                "peak MiB of each": [round(peak) for peak in case["peak_mib"]],
                "gradient's distance over its norm": float(
                    np.linalg.norm(case["gradient"] - alone["gradient"]) / np.linalg.norm(alone["gradient"])
                ),
            }
            if name.startswith("handed over"):
                made[name]["bubble"] = round(1 - alone["s"] / (workers * case["s"]), 3)
        results[f"{workers} workers"] = made
    return results


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    found = cuda_device()
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu" if found.trouble else "cuda")
    parser.add_argument("--workers", type=int, nargs="+", help="1 among them [1 and all GPUs, or 1 and 2]")
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--events", type=int)
    given = parser.parse_args()
    gpu = given.device == "cuda"
    default = GPU if gpu else CPU
    sizes = Sizes(given.nodes or default.nodes, given.events or default.events)
    counts = sorted(given.workers or {1, found.count if gpu else 2})
    begun = time.perf_counter()
    graph = graph_of(sizes)
    built = time.perf_counter() - begun
    print(f"{graph} in {built:.1f} s", flush=True)
    done: dict[int, dict[str, Any]] = {}
    for count in counts:
        dealt = deals(graph, sizes, count)
        with tempfile.TemporaryDirectory() as folder:
            begun = time.perf_counter()
            each = [[one, other] for one, other in zip(*dealt[:2], strict=True)]
            save_parts(Path(folder) / "parts", cut(graph, each, sizes.length, 0, Workers(count)))
            seconds = round(time.perf_counter() - begun, 2)
            done[count] = together(count, gpu, 1, worker, (sizes, Path(folder) / "parts", dealt), print)
        done[count]["cut_s"] = seconds
        print(count, "workers:", compared(done)[f"{count} workers"], flush=True)
    config = asdict(sizes) | {"torch": torch.__version__, "build s": round(built, 1), "threads of a worker": 1}
    print(f"wrote {record(f'train-devices-{given.device}', compared(done), config=config).name}")


if __name__ == "__main__":
    main()
