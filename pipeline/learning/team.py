"""A worker's place among those that train together, and what they pass to each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
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

    `by_node` and `by_tick` are each other's inverse, and each other's gradient. Ticks go one at a time, those of all
    workers side by side, so that devices compute while others are on their way.
    """

    team: Team
    ticks: list[Run]
    nodes: list[Run]

    def by_node(self, rows: Iterable[Tensor], like: Tensor, columns: int) -> Tensor:
        """[all nodes, columns] of each own tick to [all ticks, own nodes, columns]."""
        mine = self.nodes[self.team.rank]
        out, sources = like.new_empty(self.ticks[-1][1] - self.ticks[0][0], _length(mine), columns), iter(rows)
        on_the_way = []
        for turn in range(self._turns()):
            source = next(sources, None)
            going = [None if source is None else source[first:last] for first, last in self.nodes]
            coming = [None if tick is None else out[tick] for tick in self._at(turn)]
            on_the_way.append((self._passed(going, coming), going))
        for works, _ in on_the_way:
            _wait(works)
        return out

    def by_tick(self, rows: Tensor) -> Iterator[Tensor]:
        """[all ticks, own nodes, columns] to [all nodes, columns] of each own tick, as they come."""
        on_the_way = deque()
        for turn in range(self._turns()):
            at = self._at(turn)
            whole = None if at[self.team.rank] is None else rows.new_empty(self.nodes[-1][1], rows.shape[2])
            going = [None if tick is None else rows[tick] for tick in at]
            coming = [None if whole is None else whole[first:last] for first, last in self.nodes]
            on_the_way.append((self._passed(going, coming), whole))

        def arrived() -> Iterator[Tensor]:
            while on_the_way:
                works, whole = on_the_way.popleft()
                _wait(works)
                if whole is not None:
                    yield whole

        return arrived()

    def _turns(self) -> int:
        return max(map(_length, self.ticks))

    def _at(self, turn: int) -> list[int | None]:
        """Of each worker its tick then, from the segment's first on."""
        begin = self.ticks[0][0]
        return [first - begin + turn if first + turn < last else None for first, last in self.ticks]

    def _passed(self, going: list[Tensor | None], coming: list[Tensor | None]) -> list[Any]:
        """Begin to pass what goes to each worker and comes from it; own rows are copied."""
        operations = []
        for rank, (sent, received) in enumerate(zip(going, coming, strict=True)):
            if rank == self.team.rank:
                if sent is not None and received is not None:
                    received.copy_(sent)
                continue
            for operation, tensor in ((dist.isend, sent), (dist.irecv, received)):
                if tensor is not None and tensor.numel():
                    operations.append(dist.P2POp(operation, tensor, group=self.team.group, group_peer=rank))
        return dist.batch_isend_irecv(operations) if operations else []


def _wait(works: list[Any]) -> None:
    for work in works:
        work.wait()


def _length(run: Run) -> int:
    return run[1] - run[0]
