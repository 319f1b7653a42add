"""What a model learns of a graph: a number for each node, or which pairs meet, at the tick after each snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor, nn  # pyright: ignore[reportMissingImports]

from ...storage.dt_csr import DTCSR
from ...storage.errors import HeadwayError
from .gconvgru import GConvGRU
from .layers import TGCN
from .snapshots import Snapshot

LAYERS: dict[str, Any] = {"tgcn": TGCN, "gconvgru": GConvGRU}
RANDOM = 6  # columns of noise, by which nodes of equal degree differ


class Features:
    """float32[N, columns] of a snapshot.

    Of a file .npy, [N, columns] or [ticks, N, columns]; without one the logarithms of the node's degrees, and noise.
    """

    def __init__(self, graph: DTCSR, path: Path | None, seed: int, device: torch.device) -> None:
        self._array = None if path is None else _array(path, (graph.nodes,), graph.ticks, (2, 3))
        noise = np.random.default_rng(seed).normal(size=(graph.nodes, RANDOM)).astype(np.float32)
        self._noise, self._device = torch.from_numpy(noise).to(device), device
        self._fixed = None if self._array is None or self._array.ndim == 3 else self._tensor(self._array)
        self.columns = 2 + RANDOM if self._array is None else self._array.shape[-1]

    def __call__(self, snapshot: Snapshot) -> Tensor:
        if self._array is None:
            degrees = torch.stack([snapshot.in_degrees, snapshot.out_degrees], 1)
            return torch.cat([degrees.float().log1p(), self._noise], 1)
        return self._tensor(self._array[snapshot.window.last]) if self._fixed is None else self._fixed

    def _tensor(self, rows: np.ndarray) -> Tensor:
        return torch.from_numpy(np.array(rows, np.float32)).to(self._device)


class Model(nn.Module):
    """A recurrent layer and a linear map of its state."""

    def __init__(self, columns: int, hidden: int, kind: str = "tgcn") -> None:
        super().__init__()
        self.layer = LAYERS[kind](columns, hidden)
        self.out = nn.Linear(hidden, 1)


class Nodes:
    """A number for each node at the next tick: of a file .npy [ticks, N], NaN where unknown; or log(1 + in-degree)."""

    name = "mean squared error"

    def __init__(self, graph: DTCSR, path: Path | None, seed: int) -> None:
        self._array = None if path is None else _array(path, (graph.nodes,), graph.ticks, (2,), by_tick=True)

    def loss(self, model: Model, state: Tensor, after: Snapshot, epoch: int) -> Tensor:
        found = model.out(torch.relu(state))[:, 0]
        if self._array is None:
            return nn.functional.mse_loss(found, after.in_degrees.float().log1p())
        target = torch.from_numpy(np.array(self._array[after.window.last], np.float32)).to(found.device)
        known = ~torch.isnan(target)
        return nn.functional.mse_loss(found[known], target[known]) if known.any() else found.sum() * 0


class Links:
    """Which pairs meet at the next tick, against as many random ones, which depend on seed, epoch and tick alone."""

    name = "cross entropy"

    def __init__(self, graph: DTCSR, path: Path | None, seed: int) -> None:
        self._seed = seed
        if path is not None:
            raise HeadwayError(f"{path}: targets are for --task nodes; links are those of the graph")

    def loss(self, model: Model, state: Tensor, after: Snapshot, epoch: int) -> Tensor:
        pairs = np.stack(after.window.edges()[:2]).astype(np.int64)
        if not pairs.size:
            return state.sum() * 0
        met = torch.from_numpy(pairs).to(state.device)
        drawn = np.random.default_rng((self._seed, epoch, after.window.last)).integers(0, len(state), pairs.shape)
        other = torch.from_numpy(drawn).to(state.device)
        found = model.out(torch.cat([state[one[0]] * state[one[1]] for one in (met, other)]))[:, 0]
        truth = torch.cat([torch.ones(met.shape[1]), torch.zeros(met.shape[1])]).to(found)
        return nn.functional.binary_cross_entropy_with_logits(found, truth)


TASKS: dict[str, Any] = {"nodes": Nodes, "links": Links}


def _array(path: Path, rows: tuple[int], ticks: int, dimensions: tuple[int, ...], by_tick: bool = False) -> np.ndarray:
    """A .npy of numbers, memory-mapped, whose shape fits the graph."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise HeadwayError(f"{path}: {error}; save it with numpy.save") from None
    whole = (ticks, *rows) if by_tick or found.ndim == 3 else rows
    if found.ndim not in dimensions or found.shape[: len(whole)] != whole or found.dtype.kind not in "iuf":
        shapes = f"[{ticks}, {rows[0]}]" if by_tick else f"[{rows[0]}, columns] or [{ticks}, {rows[0]}, columns]"
        raise HeadwayError(f"{path}: {found.dtype} {list(found.shape)}; give numbers {shapes}, by tick and node")
    return found
