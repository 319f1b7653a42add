"""Forward and backward passes of a segment of snapshots over several workers, with the gradients of one.

Where only features are convolved (`Convolving`), each worker convolves its run of the snapshots, one redistribution
gives it all snapshots of its share of the nodes, along which it runs the recurrent part, and another gives back the
states of its snapshots, for their losses. Where states are convolved time is sequential: each worker hands the state
after its run to the next, and gets back its gradient.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor  # pyright: ignore[reportMissingImports]

from .snapshots import Snapshot
from .team import Deal, Team

Pair = tuple[Snapshot, Snapshot]
"""A snapshot, and the one after it."""
Loss = Callable[[Tensor, Snapshot], Tensor]
"""Of the state [N, hidden] after a snapshot, beside the one after it."""


@runtime_checkable
class Convolving(Protocol):
    """A recurrent layer that convolves features only.

    hidden    columns of its state
    convolved (snapshot, features [N, inputs]) -> [N, width]
    following (of some nodes what `convolved` gave, their state) -> the state after
    width     columns of what `convolved` gives
    learned   whether there are parameters in `convolved`
    """

    hidden: int

    @property
    def width(self) -> int: ...

    @property
    def learned(self) -> bool: ...

    def convolved(self, snapshot: Snapshot, features: Tensor) -> Tensor: ...

    def following(self, convolved: Tensor, state: Tensor) -> Tensor: ...


def exchanged(
    layer: Convolving,
    pairs: Sequence[Pair],
    features: Callable[[Snapshot], Tensor],
    state: Tensor,
    loss: Loss,
    deal: Deal,
) -> tuple[float, Tensor]:
    """The sum of the losses of `pairs`, this worker's of the segment, and the state of its nodes after all of it.

    state: of its nodes before the segment. Where gradients are enabled, those of its part are added to parameters.
    All workers of the deal must call this.
    """
    learn = torch.is_grad_enabled()
    convolved: deque[Tensor] = deque()
    losses: list[Tensor] = []

    def convolving() -> Iterator[Tensor]:
        for now, _ in pairs:
            convolved.append(layer.convolved(now, features(now)))
            yield convolved[-1].detach()

    # Not one graph of autograd: all must take part in each exchange, also who has no snapshots.
    given = deal.by_node(convolving(), state, layer.width).requires_grad_(learn and layer.learned)
    states = []
    for one in given.unbind():
        state = layer.following(one, state)
        states.append(state)
    held = torch.stack(states)

    def losing() -> Iterator[Tensor]:
        for whole, (_, after) in zip(deal.by_tick(held.detach()), pairs, strict=True):
            lost = loss(whole.requires_grad_(learn), after)
            losses.append(lost.detach())
            if learn:
                lost.backward()
                yield torch.zeros_like(whole) if whole.grad is None else whole.grad

    if learn:
        held.backward(deal.by_node(losing(), state, layer.hidden))
        if layer.learned:
            gradients = deal.by_tick(torch.zeros_like(given) if given.grad is None else given.grad)
            for gradient in gradients:
                convolved.popleft().backward(gradient)
    else:
        deque(losing(), 0)
    total = _sum(losses)
    return 0.0 if total is None else total.item(), state.detach()


def handed_over(
    step: Callable[[int, Tensor], tuple[Tensor, Tensor | None]], states: Sequence[Tensor], team: Team
) -> tuple[float, list[Tensor]]:
    """The sum of this worker's losses, and of each sequence the state after its run.

    states: of independent sequences over the same snapshots, what the first worker begins with; of the others only
    shapes and types count. step: (sequence, state) -> the state after this worker's run and the sum of its losses, or
    None. While a worker is at one sequence its neighbours are at others: with one of them, all but one wait. Where
    gradients are enabled they are added to parameters. All workers of the team must call this.
    """
    learn, first, last = torch.is_grad_enabled(), team.rank == 0, team.rank == team.size - 1
    passes, on_the_way, losses = [], [], []
    for sequence, state in enumerate(states):
        begin = state.detach() if first else team.received(state, team.rank - 1).requires_grad_(learn)
        after, loss = step(sequence, begin)
        if not last:
            on_the_way.append(team.sent(after, team.rank + 1))
        passes.append((begin, after, loss))
    ends = [after.detach() for _, after, _ in passes]
    while passes:
        begin, after, loss = passes.pop(0)
        losses += [] if loss is None else [loss.detach()]
        if not learn:
            continue
        roots: list[Tensor] = [] if loss is None else [loss]
        gradients: list[Tensor | None] = [None] * len(roots)
        if not last:
            gradient = team.received(after, team.rank + 1)
            if after.requires_grad:  # else the first worker has no snapshots
                roots, gradients = [*roots, after], [*gradients, gradient]
        if roots:
            torch.autograd.backward(roots, gradients)
        if not first:
            gradient = torch.zeros_like(begin) if begin.grad is None else begin.grad
            on_the_way.append(team.sent(gradient, team.rank - 1))
    for work, _ in on_the_way:
        if work is not None:
            work.wait()
    total = _sum(losses)
    return 0.0 if total is None else total.item(), ends


def run_through(
    layer: Any, pairs: Iterable[Pair], features: Callable[[Snapshot], Tensor], loss: Loss
) -> Callable[[int, Tensor], tuple[Tensor, Tensor | None]]:
    """A step for `handed_over`: one sequence through a worker's snapshots; several go through them again."""

    def step(sequence: int, state: Tensor) -> tuple[Tensor, Tensor | None]:
        losses = []
        for now, after in pairs:
            state = layer(now, features(now), state)
            losses.append(loss(state, after))
        return state, _sum(losses)

    return step


def _sum(losses: list[Tensor]) -> Tensor | None:
    return torch.stack(losses).sum() if losses else None
