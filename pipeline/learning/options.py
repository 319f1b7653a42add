"""What is learned, and what is told of an epoch; without PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

from ...storage.errors import HeadwayError


@dataclass(frozen=True)
class Options:
    """What is learned, and how. Files are .npy, as of `learning.tasks`."""

    task: str = "nodes"
    model: str = "tgcn"
    features: str | None = None
    targets: str | None = None
    window: int = 1
    distinct: bool = False
    hidden: int = 32
    truncated: int = 10
    lr: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        for name, known in (("task", ("nodes", "links")), ("model", ("tgcn", "gconvgru"))):
            if getattr(self, name) not in known:
                raise HeadwayError(f"--{name} {getattr(self, name)!r}; there are {' and '.join(known)}")
        for name, least in (("window", 1), ("hidden", 1), ("truncated", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise HeadwayError(f"--{name} {getattr(self, name)}: it must be at least {least}")
        if not 0 < self.lr < float("inf"):
            raise HeadwayError(f"--lr {self.lr}: it must be greater than 0")


@dataclass(frozen=True)
class Epoch:
    """Mean loss of the ticks that were learned from, and of the last fifth of the ticks, which were not."""

    epoch: int
    learned: float
    held_out: float
