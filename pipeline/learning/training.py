"""Epochs of truncated backpropagation over the snapshots of a graph, in order of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor  # pyright: ignore[reportMissingImports]

from .snapshots import Snapshot, Snapshots
from .tasks import Features, Model

TEST = 0.2  # of the ticks, the last ones


def epochs(
    model: Model,
    optimizer: torch.optim.Optimizer,
    snapshots: Snapshots,
    features: Features,
    loss_of: Callable[[Model, Tensor, Snapshot], Tensor],
    truncated: int,
    advance: Callable[[int], None],
) -> Iterator[tuple[float, float]]:
    """For each epoch the mean loss of the ticks that it learns from, and of those after, which it only predicts.

    The state of all nodes runs through all ticks; gradients go back `truncated` ticks. `advance` hears of each tick.
    """
    count = snapshots.graph.ticks - 1
    learned = first_held_out(snapshots.graph.ticks) - 1
    while True:
        state: Tensor | None = None
        segment: list[Tensor] = []
        sums = [0.0, 0.0]
        for tick, (now, after) in enumerate(_with_next(snapshots)):
            with torch.set_grad_enabled(tick < learned):
                new: Tensor = model.layer(now, features(now), state)
                loss = loss_of(model, new, after)
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


def first_held_out(ticks: int) -> int:
    """The first tick that is only predicted, of a graph of at least 3; the ticks before are learned from."""
    count = ticks - 1
    return 1 + max(1, min(count - 1, round(count * (1 - TEST))))


def _with_next(snapshots: Snapshots) -> Iterator[tuple[Snapshot, Snapshot]]:
    """Each window, and the tick after its last one alone."""
    graph = snapshots.graph
    for now, after in pairwise(snapshots):
        yield now, snapshots.of(graph.snapshot(after.window.last, distinct=True))


def saved(model: Model, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """What an epoch after it needs: weights, the optimizer's moments, the random numbers to come."""
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": torch.get_rng_state()}


def restore(model: Model, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """The inverse of `saved`."""
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["random"])
