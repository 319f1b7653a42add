"""Sums over the edges of every snapshot, and their gradients, over several devices: arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..cluster.devices import cuda_device
from ..kernels.aggregate import aggregate, sampled
from ..kernels.neighbours import Arrays, incoming, outgoing
from ..storage.dt_csr import DTCSR
from ..storage.errors import HeadwayError
from .settings import Settings
from .snapshots import part, runs, window_edges


class SnapshotAggregation:
    """Snapshots of a graph dealt out to devices, in runs of about equal edges, for a model of your own.

        sums = hw.SnapshotAggregation(graph, length=24, distinct=True)
        out = sums.forward(features)               # a list: [snapshots, nodes, columns] of each device
        of_features, _ = sums.backward(gradients)  # gradients of the loss by `out`

    Snapshot t holds `length` ticks up to t, as in `DTCSR.windows`; `runs` has the ticks [first, last) of each device.
    `device`: "cuda", the GPUs, and CuPy arrays on each; "cpu", shares of the cores, and NumPy arrays; or "auto".
    `count`: so many devices (all GPUs, one share of the cores). Each holds the events of its run and the window before
    it. Raises `HeadwayError` for devices that are not there.
    """

    def __init__(
        self, graph: DTCSR, length: int = 1, distinct: bool = False, device: str = "auto", count: int | None = None
    ) -> None:
        found = cuda_device()
        if device not in ("auto", "cpu", "cuda"):
            raise HeadwayError(f"device {device!r}; there are auto, cpu and cuda")
        if device == "cuda" and found.trouble:
            raise HeadwayError(f"device cuda: {found.trouble}; leave it out, or give cpu")
        cuda = device != "cpu" and not found.trouble
        count = (found.count if cuda else 1) if count is None else count
        if length < 1 or count < 1 or (cuda and count > found.count):
            most = f"; there are {found.count} GPUs" if cuda else ""
            raise HeadwayError(f"windows of {length} ticks on {count} devices; both are at least 1{most}")
        self.graph, self.runs = graph, runs(window_edges(graph, length), count)
        threads = max(1, Settings().thread_count() // count)
        self._shares = [_Share(number, cuda, threads) for number in range(count)]
        self._each(lambda share: share.load(graph, self.runs[share.number], length, distinct))

    def forward(self, features: Any, weights: np.ndarray | None = None) -> list[Any]:
        """For each device, snapshot and node the sum of its in-neighbours' features.

        features: float32 or float64 [nodes, columns], the same for all snapshots, or a list of [snapshots, nodes,
        columns], one for each device. weights: [events] by edge id, of the same type. Raises `HeadwayError`.
        """
        given = self._given(features)
        self._check_weights(weights)
        return self._each(lambda share: share.sums(given[share.number], weights, 0))

    def backward(
        self, gradients: Sequence[Any], features: Any = None, weights: np.ndarray | None = None
    ) -> tuple[list[Any], np.ndarray | None]:
        """Gradients by the features, for each device [snapshots, nodes, columns], and by the weights, [events].

        gradients: those by what `forward` gave. weights: as there. The second needs `features`, as there; else None.
        For features that all snapshots share, add up over snapshots and devices.
        """
        given = self._given(list(gradients))
        rows = given if features is None else self._given(features)
        columns = {one.shape[-1] for one in (*rows, *given)}
        if len(columns) > 1:
            raise HeadwayError(f"arrays of {' and '.join(map(str, sorted(columns)))} columns; give as many in all")
        self._check_weights(weights)
        of_features = self._each(lambda share: share.sums(given[share.number], weights, 1))
        if features is None:
            return of_features, None
        whole = np.zeros(self.graph.events, of_features[0].dtype)
        for edges, found in self._each(lambda share: share.products(rows[share.number], given[share.number])):
            whole[edges] += found
        return of_features, whole

    def _each(self, function: Callable[[_Share], Any]) -> list[Any]:
        """What it gives on each device, all at once."""
        jobs = [share.thread.submit(function, share) for share in self._shares]
        return [job.result() for job in jobs]

    def _given(self, features: Any) -> list[Any]:
        """An array for each device."""
        listed = isinstance(features, list | tuple)
        given, nodes = list(features) if listed else [features] * len(self.runs), self.graph.nodes
        if len(given) != len(self.runs):
            raise HeadwayError(f"{len(given)} arrays; give {len(self.runs)}, one for each device")
        for one, (first, last) in zip(given, self.runs, strict=True):
            rows = (last - first, nodes) if listed else (nodes,)
            held, kind = getattr(one, "shape", ()), getattr(one, "dtype", type(one).__name__)  # a list has none
            if held[:-1] != rows or len(held) != len(rows) + 1 or kind not in (np.float32, np.float64):
                shape = ", ".join(map(str, rows))
                raise HeadwayError(f"an array {kind} {list(held)}; give float32 or float64 [{shape}, columns]")
        return given

    def _check_weights(self, weights: np.ndarray | None) -> None:
        held = getattr(weights, "shape", ())  # a list has none
        if weights is not None and held != (self.graph.events,):
            raise HeadwayError(f"weights {list(held)}; give an array [{self.graph.events}], one for each event")


class _Share:
    """What one device has, and the thread that works with it."""

    def __init__(self, number: int, cuda: bool, threads: int) -> None:
        self.number, self.threads = number, threads
        self.thread = ThreadPoolExecutor(1)
        self.arrays: Any = np
        if cuda:
            import cupy  # pyright: ignore[reportMissingImports]

            self.arrays = cupy
            self.thread.submit(cupy.cuda.Device(number).use).result()  # the kernels' context follows it

    def load(self, graph: DTCSR, run: tuple[int, int], length: int, distinct: bool) -> None:
        held = part(graph, [run], length)
        arrays = Arrays.of(held.graph) if self.arrays is np else Arrays.of(held.graph).to_device()
        windows = held.graph.windows_at(range(*run), length, distinct)
        self.edges = held.edges
        self.sides = [(incoming(one, arrays), outgoing(one, arrays)) for one in windows]

    def sums(self, features: Any, weights: np.ndarray | None, side: int) -> Any:
        """By the edges that reach each node (side 0), or those that leave it (1)."""
        rows = self._placed(features)
        held = None if weights is None else self._placed(weights[self.edges].astype(rows.dtype, copy=False))
        out = self.arrays.empty((len(self.sides), *rows.shape[-2:]), rows.dtype)
        for number, sides in enumerate(self.sides):
            aggregate(sides[side], self._one(rows, number), held, out=out[number], threads=self.threads)
        return out

    def products(self, features: Any, gradients: Any) -> tuple[np.ndarray, np.ndarray]:
        """Edge ids, and over all snapshots the sums of the products of features and gradients at both ends."""
        rows, ends = self._placed(features), self._placed(gradients)
        total = self.arrays.zeros(len(self.edges), rows.dtype)
        found = self.arrays.empty_like(total)
        for number, (_, away) in enumerate(self.sides):
            sampled(away, self._one(rows, number), ends[number], out=found, threads=self.threads)
            total += found
        return self.edges, total if self.arrays is np else total.get()

    def _placed(self, array: Any) -> Any:
        return self.arrays.ascontiguousarray(self.arrays.asarray(array))

    def _one(self, rows: Any, number: int) -> Any:
        return rows if rows.ndim == 2 else rows[number]
