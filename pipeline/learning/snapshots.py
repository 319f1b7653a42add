"""Windows of a graph as PyTorch's layers read them: on the CPU or on a GPU, without copies of the graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

from ...kernels.aggregate import degrees, self_loops
from ...kernels.neighbours import Arrays, Neighbours, incoming, outgoing
from ...storage.dt_csr import DTCSR
from ...storage.window import Window


class Snapshots:
    """The windows of a graph, in order of time; its arrays lie once on `device`.

    `length`, `step` and `distinct` as of `DTCSR.windows`.
    """

    def __init__(
        self, graph: DTCSR, device: str | torch.device = "cpu", length: int = 1, step: int = 1, distinct: bool = False
    ) -> None:
        self.graph, self.device, self._how = graph, torch.device(device), (length, step, distinct)
        arrays = Arrays.of(graph)
        self._arrays = arrays.to_device() if self.device.type == "cuda" else arrays

    def __iter__(self) -> Iterator[Snapshot]:
        length, step, distinct = self._how
        return map(self.of, self.graph.windows(length, step, distinct))

    def at(self, ends: Iterable[int]) -> Iterator[Snapshot]:
        """Those that end at these ticks, which ascend, whatever `step` is."""
        length, _, distinct = self._how
        return map(self.of, self.graph.windows_at(ends, length, distinct))

    def __len__(self) -> int:
        return len(range(0, self.graph.ticks, self._how[1]))

    def of(self, window: Window) -> Snapshot:
        return Snapshot(window, self._arrays, self.device)


class Snapshot:
    """A window; what is asked of it is computed once."""

    def __init__(self, window: Window, arrays: Arrays, device: torch.device) -> None:
        self.window, self.device, self._arrays = window, device, arrays

    @property
    def nodes(self) -> int:
        return self.window.graph.nodes

    @cached_property
    def incoming(self) -> Neighbours:
        """Read by aggregation."""
        return incoming(self.window, self._arrays)

    @cached_property
    def outgoing(self) -> Neighbours:
        """Read by its gradients."""
        return outgoing(self.window, self._arrays)

    @cached_property
    def in_degrees(self) -> torch.Tensor:
        """Edges that reach each node, int64[N]."""
        return self._tensor(degrees(self.incoming))

    @cached_property
    def out_degrees(self) -> torch.Tensor:
        """Edges that leave each node, int64[N]."""
        return self._tensor(degrees(self.outgoing))

    @cached_property
    def lone(self) -> torch.Tensor:
        """Which nodes have no edge to themselves, bool[N]."""
        return self._tensor(self_loops(self.incoming)) == 0

    def _tensor(self, array: Any) -> torch.Tensor:
        found = torch.from_numpy(array) if isinstance(array, np.ndarray) else torch.as_tensor(array)
        return found.to(self.device)
