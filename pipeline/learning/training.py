"""Epochs of truncated backpropagation over the snapshots of a graph, in order of time, by one worker or several."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor  # pyright: ignore[reportMissingImports]

from .plan import Plan
from .snapshots import Snapshot, Snapshots
from .spread import Convolving, Pair, exchanged, handed_over, run_through
from .tasks import Features, Model
from .team import Deal, Team


def epochs(
    model: Model,
    optimizer: torch.optim.Optimizer,
    snapshots: Snapshots,
    features: Features,
    loss_of: Callable[[Model, Tensor, Snapshot, int], Tensor],
    plan: Plan,
    team: Team,
    first: int = 1,
    advance: Callable[[int], None] = lambda ticks: None,
) -> Iterator[tuple[float, float]]:
    """For each epoch the mean loss of the ticks that it learns from, and of those after, which it only predicts.

    They are counted from `first` on. The state of all nodes runs through all ticks; gradients stay within a segment of
    the plan. A worker's graph holds what its runs of the plan need; all workers of the team must ask for as many
    epochs. `advance` hears of all workers' ticks, of this one's as their losses are there.
    """
    parameters: Any = next(model.parameters())
    apart = team.size > 1 and isinstance(model.layer, Convolving)
    begin, end = plan.nodes[team.rank] if apart else (0, snapshots.graph.nodes)
    epoch = first
    while True:
        state = parameters.new_zeros(end - begin, model.layer.hidden)
        sums = torch.zeros(2, dtype=torch.float64)
        own = _own(snapshots, plan, team.rank)

        def loss(state: Tensor, after: Snapshot, epoch: int = epoch) -> Tensor:
            advance(1)
            return loss_of(model, state, after, epoch)

        for segment, ticks in zip(plan.segments, plan.ticks, strict=True):
            learn = segment[1] <= plan.learned
            mine = ticks[team.rank][1] - ticks[team.rank][0]
            pairs = islice(own, mine)
            optimizer.zero_grad()
            with torch.set_grad_enabled(learn):
                if apart:
                    deal = Deal(team, ticks, plan.nodes)
                    found, state = exchanged(model.layer, list(pairs), features, state, loss, deal)
                else:
                    step = run_through(model.layer, pairs, features, loss)
                    found, (state,) = handed_over(step, [state], team)
                    state = team.carried(state)
            sums[0 if learn else 1] += found
            if learn:
                team.add_up(model.parameters())
                optimizer.step()
            advance(segment[1] - segment[0] - mine)
        learned, held_out = team.sums(sums.to(parameters.device))
        yield learned / plan.learned, held_out / max(plan.segments[-1][1] - plan.learned, 1)
        epoch += 1


def _own(snapshots: Snapshots, plan: Plan, rank: int) -> Iterator[Pair]:
    """A worker's snapshots, each with the tick after it alone."""
    ticks = [tick for first, last in plan.of_worker(rank) for tick in range(first, last)]
    after = snapshots.graph.windows_at((tick + 1 for tick in ticks), distinct=True)
    return zip(snapshots.at(ticks), map(snapshots.of, after), strict=True)
