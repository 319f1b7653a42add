"""Epochs of truncated backpropagation over the snapshots of a graph, in order of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor  # pyright: ignore[reportMissingImports]

from .plan import first_held_out
from .snapshots import Snapshot, Snapshots
from .tasks import Features, Model


def epochs(
    model: Model,
    optimizer: torch.optim.Optimizer,
    snapshots: Snapshots,
    features: Features,
    loss_of: Callable[[Model, Tensor, Snapshot, int], Tensor],
    truncated: int,
    first: int,
    advance: Callable[[int], None],
) -> Iterator[tuple[float, float]]:
    """For each epoch the mean loss of the ticks that it learns from, and of those after, which it only predicts.

    They are counted from `first` on. The state of all nodes runs through all ticks; gradients go back `truncated`
    ticks. `advance` hears of each tick.
    """
    count = snapshots.graph.ticks - 1
    learned = first_held_out(snapshots.graph.ticks) - 1
    epoch = first
    while True:
        state: Tensor | None = None
        segment: list[Tensor] = []
        sums = [0.0, 0.0]
        for tick, (now, after) in enumerate(_with_next(snapshots)):
            with torch.set_grad_enabled(tick < learned):
                new: Tensor = model.layer(now, features(now), state)
                loss = loss_of(model, new, after, epoch)
            sums[tick >= learned] += loss.item()
            if tick < learned:
                segment.append(loss)
                if len(segment) == truncated or tick == learned - 1:
                    optimizer.zero_grad()
                    torch.stack(segment).sum().backward()
                    optimizer.step()
                    new, segment = new.detach(), []
            state = new
            advance(1)
        yield sums[0] / learned, sums[1] / max(count - learned, 1)
        epoch += 1


def _with_next(snapshots: Snapshots) -> Iterator[tuple[Snapshot, Snapshot]]:
    """Each window, and the tick after its last one alone."""
    graph = snapshots.graph
    for now, after in pairwise(snapshots):
        yield now, snapshots.of(graph.snapshot(after.window.last, distinct=True))
