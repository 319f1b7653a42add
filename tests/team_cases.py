"""What workers of a job compute in `test_train_workers.py`; each is a process that imports this."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from dynamic_graphs import graph_of
from headway.pipeline.dynamic_graph import DTCSR
from headway.pipeline.learning import tasks
from headway.pipeline.learning.gconvgru import GConvGRU
from headway.pipeline.learning.layers import TGCN
from headway.pipeline.learning.plan import Plan
from headway.pipeline.learning.snapshots import Snapshot, Snapshots
from headway.pipeline.learning.spread import handed_over, run_through
from headway.pipeline.learning.team import Team
from headway.pipeline.learning.training import epochs
from headway.pipeline.snapshots import part

HIDDEN, INPUTS = 3, 4


@dataclass(frozen=True)
class Case:
    """A graph by name, how long windows and segments are, what is learned, in which type, over how many workers."""

    graph: str
    workers: int
    layer: str = "TGCN"
    length: int = 1
    truncated: int = 100
    task: str = "nodes"
    inputs: int = INPUTS
    dtype: str = "float64"
    distinct: bool = False


def graphs() -> dict[str, DTCSR]:
    """Made-up ones, small."""
    rng = np.random.default_rng(0)

    def random(ticks: list[int], nodes: int = 7) -> DTCSR:
        return graph_of([(*rng.integers(0, nodes, 2).tolist(), tick) for tick in ticks], nodes)

    return {
        "even": random(list(range(9)) * 6),
        "uneven": random([0] * 50 + [1] * 9 + list(range(9))),
        "empty at borders": random([2, 2, 2, 5, 5, 8, 8, 8]),
        "few": random([0, 1, 1, 2]),
        "one node": random([0, 1, 2, 3, 3], 1),
    }


def device() -> torch.device:
    """Where this worker computes."""
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")


def features(columns: int, dtype: torch.dtype) -> Any:
    """Exogenous ones: of each tick their own."""

    def of(snapshot: Snapshot) -> torch.Tensor:
        rng = np.random.default_rng(snapshot.window.last)
        return torch.from_numpy(rng.normal(size=(snapshot.nodes, columns))).to(device(), dtype)

    return of


class Recorded(torch.optim.SGD):
    """Gradients at each step, flat."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, 0.1)
        self.found: list[torch.Tensor] = []

    def step(self) -> None:  # type: ignore[override]
        parts = [one for group in self.param_groups for one in group["params"]]
        self.found.append(torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in parts]))
        super().step()


def model_of(case: Case) -> tasks.Model:
    torch.manual_seed(5)
    model = tasks.Model(case.inputs, HIDDEN)
    model.layer = {"TGCN": TGCN, "GConvGRU": GConvGRU}[case.layer](case.inputs, HIDDEN)
    return model.to(device(), getattr(torch, case.dtype))


class Mean(tasks.Nodes):
    """Targets of the model's type."""

    def loss(self, model: tasks.Model, state: torch.Tensor, after: Snapshot, epoch: int) -> torch.Tensor:
        found = model.out(torch.relu(state))[:, 0]
        return torch.nn.functional.mse_loss(found, after.in_degrees.to(found.dtype).log1p())


def task_of(case: Case, graph: DTCSR) -> Any:
    return Mean(graph, None, 0) if case.task == "nodes" else tasks.Links(graph, None, 3)


def alone(case: Case, graph: DTCSR) -> tuple[list[torch.Tensor], list[float]]:
    """Gradients of each step of two epochs by plain PyTorch over the whole graph, and the epochs' losses."""
    model, task = model_of(case), task_of(case, graph)
    optimizer, given = Recorded(model.parameters()), features(case.inputs, getattr(torch, case.dtype))
    plan = Plan.of(graph, case.length, case.truncated, 1)
    means = []
    for epoch in (1, 2):
        state, sums = None, [0.0, 0.0]
        for first, last in plan.segments:
            whole = Snapshots(graph, device(), case.length, distinct=case.distinct)
            losses: list[torch.Tensor] = []
            for now in whole:
                if first <= (tick := now.window.last) < last:
                    state = model.layer(now, given(now), state)
                    after = whole.of(graph.snapshot(tick + 1, distinct=True))
                    losses.append(task.loss(model, state, after, epoch))
            assert state is not None
            state = state.detach()
            sums[first >= plan.learned] += sum(one.item() for one in losses)
            if last <= plan.learned:
                optimizer.zero_grad()
                torch.stack(losses).sum().backward()
                optimizer.step()
        means += [sums[0] / plan.learned, sums[1] / (graph.ticks - 1 - plan.learned)]
    return optimizer.found, means


def over(case: Case, graph: DTCSR, team: Team) -> tuple[list[torch.Tensor], list[float]]:
    """The same of this worker, which holds its part of the graph."""
    plan = Plan.of(graph, case.length, case.truncated, team.size)
    mine = part(graph, plan.of_worker(team.rank), case.length, 1)
    model, task = model_of(case), task_of(case, graph)
    optimizer, given = Recorded(model.parameters()), features(case.inputs, getattr(torch, case.dtype))
    snapshots = Snapshots(mine.graph, device(), case.length, distinct=case.distinct)
    loop = epochs(model, optimizer, snapshots, given, task.loss, plan, team)
    means = [*next(loop), *next(loop)]
    return optimizer.found, means


def differences(tell: Any, cases: list[Case]) -> list[tuple[float, float]]:
    """Of each case the largest difference of a step's gradients, over its norm, and of the losses, over theirs."""
    groups = [dist.new_group(list(range(count))) for count in range(1, dist.get_world_size() + 1)]
    found = []
    for case in cases:
        graph = graphs()[case.graph]
        if dist.get_rank() >= case.workers:
            continue
        mine, losses = over(case, graph, Team.of(groups[case.workers - 1]))
        if dist.get_rank():
            continue
        whole, means = alone(case, graph)
        assert len(mine) == len(whole) > 1
        far = max(float((a - b).norm() / b.norm()) for a, b in zip(mine, whole, strict=True))
        assert max(float(one.norm()) for one in whole) > 1e-3
        apart = max(abs(a - b) / max(abs(b), 1e-30) for a, b in zip(losses, means, strict=True))
        found.append((far, apart))
    return found + sequences()


def sequences() -> list[tuple[float, float]]:
    """Three sequences through one pipeline of all workers: gradients and last states against each by itself."""
    case, team = Case("even", 4, "GConvGRU", truncated=8), Team.of()
    graph = graphs()["even"]
    given, task = features(INPUTS, torch.float64), Mean(graph, None, 0)
    states = [torch.full((graph.nodes, HIDDEN), float(n), dtype=torch.float64, device=device()) for n in range(3)]

    def passed(team: Team, plan: Plan) -> tuple[torch.Tensor, list[torch.Tensor]]:
        model = model_of(case)
        snapshots = Snapshots(graph, device())
        first, last = plan.ticks[0][team.rank]
        pairs = [(snapshots.of(graph.snapshot(t)), snapshots.of(graph.snapshot(t + 1))) for t in range(first, last)]
        step = run_through(model.layer, pairs, given, lambda state, after: task.loss(model, state, after, 1))
        _, ends = handed_over(step, states, team)
        if team.size > 1:
            team.add_up(model.parameters())
            ends = [team.carried(end) for end in ends]
        return torch.cat([one.grad.reshape(-1) for one in model.parameters()]), ends  # type: ignore[union-attr]

    mine, ends = passed(team, Plan.of(graph, 1, 8, team.size))
    whole, theirs = passed(Team(0, 1), Plan.of(graph, 1, 8, 1))
    if team.rank:
        return []
    far = max(float((a - b).abs().max()) for a, b in zip(ends, theirs, strict=True))
    return [(float((mine - whole).norm() / whole.norm()), far)]


def too_much(say: Callable[[Any], None], array: str) -> None:
    """More than any machine has."""
    torch.empty(2**50) if array == "tensor" else np.empty(2**50)
