"""A worker's place among those that train together, and what they pass to each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
import torch.distributed as dist  # pyright: ignore[reportMissingImports]
from torch import Tensor, nn  # pyright: ignore[reportMissingImports]

from ..snapshots import Run


@dataclass(frozen=True)
class Team:
    """Worker `rank` of `size`: ranks of a group of torch.distributed, None for all there are; one alone needs none."""

    rank: int
    size: int
    group: Any = None

    @classmethod
    def of(cls, group: Any = None) -> Team:
        """This process's."""
        return cls(dist.get_rank(group), dist.get_world_size(group), group)

    def add_up(self, parameters: Iterable[nn.Parameter]) -> None:
        """Make each gradient the sum of all workers'; one without any has added nothing."""
        learned = [one for one in parameters if one.requires_grad]
        mine = [torch.zeros_like(one) if one.grad is None else one.grad for one in learned]
        whole = self._sum(torch.cat([one.reshape(-1) for one in mine]))
        for one, part in zip(learned, whole.split([one.numel() for one in learned]), strict=True):
            one.grad = part.view_as(one)

    def sums(self, numbers: Tensor) -> list[float]:
        """Sums over all workers, float64."""
        return self._sum(numbers).tolist()

    def _sum(self, tensor: Tensor) -> Tensor:
        """Over all workers, in place."""
        if self.size > 1:
            dist.all_reduce(tensor, group=self.group)
        return tensor

    def sent(self, tensor: Tensor, rank: int) -> tuple[Any, Tensor]:
        """Begin to send; keep what this gives until `wait` of its first has returned."""
        tensor = tensor.detach().contiguous()
        return dist.isend(tensor, group=self.group, group_dst=rank), tensor

    def received(self, like: Tensor, rank: int) -> Tensor:
        """A tensor of this shape and type."""
        found = torch.empty_like(like)
        work = dist.irecv(found, group=self.group, group_src=rank)
        if work is not None:
            work.wait()
        return found

    def carried(self, state: Tensor) -> Tensor:
        """The last worker's for the first one; what the others give they get back."""
        if self.size > 1 and self.rank == self.size - 1:
            work, _ = self.sent(state, 0)
            if work is not None:
                work.wait()
        elif self.size > 1 and self.rank == 0:
            return self.received(state, self.size - 1)
        return state


@dataclass(frozen=True)
class Deal:
    """Of a segment each worker's run of ticks, and of the nodes each one's rows.

    `by_node` and `by_tick` are each other's inverse, and each other's gradient.
    """

    team: Team
    ticks: list[Run]
    nodes: list[Run]

    def by_node(self, rows: Tensor) -> Tensor:
        """[own ticks, all nodes, F] to [all ticks, own nodes, F]."""
        ticks, _, columns = rows.shape
        mine = _length(self.nodes[self.team.rank])
        give = [ticks * _length(share) * columns for share in self.nodes]
        take = [_length(run) * mine * columns for run in self.ticks]
        parts = [rows[:, first:last].reshape(-1) for first, last in self.nodes]
        out = rows.new_empty(sum(map(_length, self.ticks)), mine, columns)
        dist.all_to_all_single(out.view(-1), torch.cat(parts), take, give, group=self.team.group)
        return out

    def by_tick(self, rows: Tensor) -> Tensor:
        """[all ticks, own nodes, F] to [own ticks, all nodes, F]."""
        _, mine, columns = rows.shape
        ticks = _length(self.ticks[self.team.rank])
        give = [_length(run) * mine * columns for run in self.ticks]
        take = [ticks * _length(share) * columns for share in self.nodes]
        out = rows.new_empty(sum(take))
        dist.all_to_all_single(out, rows.reshape(-1), take, give, group=self.team.group)
        parts = zip(out.split(take), self.nodes, strict=True)
        return torch.cat([part.view(ticks, _length(share), columns) for part, share in parts], 1)


def _length(run: Run) -> int:
    return run[1] - run[0]
