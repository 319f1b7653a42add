"""Aggregation over a snapshot as functions that PyTorch differentiates.

The arrays of tensors are read where they lie, and gradients computed without any array of the size of the edges times
the features.
"""

from __future__ import annotations

from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor  # pyright: ignore[reportMissingImports]
from torch.autograd.function import once_differentiable  # pyright: ignore[reportMissingImports]

from ...kernels import aggregate as kernels
from ...storage.errors import HeadwayError
from .snapshots import Snapshot


def total(snapshot: Snapshot, features: Tensor, weights: Tensor | None = None) -> Tensor:
    """For each node the sum of its in-neighbours' features [N, F], times `weights` [M] by edge id."""
    _check(snapshot, features, weights)
    return _Total.apply(features, weights, snapshot)  # pyright: ignore[reportReturnType]  # torch has no types for it


def mean(snapshot: Snapshot, features: Tensor) -> Tensor:
    """The mean of the in-neighbours' features; 0 for nodes without."""
    return total(snapshot, features) / snapshot.in_degrees.clamp(min=1)[:, None]


def gcn(
    snapshot: Snapshot,
    features: Tensor,
    weights: Tensor | None = None,
    self_loops: bool = True,
    weighted_degree: bool = True,
) -> Tensor:
    """Sums over u -> v of features[u] * weight / sqrt(d[u] * d[v]), d the in-degree: the sum of the weights.

    `self_loops`: a node that has no edge to itself gets one of weight 1. `weighted_degree` False: d is the number of
    edges, for weights of any sign. Nodes without edges give 0. Raises `HeadwayError` for a negative weight otherwise.

    Source: Kipf and Welling, "Semi-Supervised Classification with Graph Convolutional Networks".
    """
    _check(snapshot, features, weights)
    lone = snapshot.lone[:, None].to(features.dtype) if self_loops else None
    if weights is None or not weighted_degree:
        degree = snapshot.in_degrees[:, None].to(features.dtype)
    else:
        if len(weights) and float(weights.detach().min()) < 0:
            raise HeadwayError(
                "a negative edge weight has no root in the GCN norm; pass weighted_degree=False, or total()"
            )
        degree = total(snapshot, torch.ones_like(features[:, :1]), weights.to(features.dtype))
    if lone is not None:
        degree = degree + lone
    some = degree > 0
    scale = torch.where(some, degree, 1).rsqrt() * some
    scaled = features * scale
    found = total(snapshot, scaled, weights)
    return (found if lone is None else torch.addcmul(found, scaled, lone)) * scale


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: Tensor, weights: Tensor | None, snapshot: Snapshot) -> Tensor:
        ctx.save_for_backward(features if ctx.needs_input_grad[1] else None, weights)
        ctx.snapshot = snapshot
        return _sums(snapshot.incoming, features, weights)

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator has another name for ctx
        ctx: Any, *gradients: Tensor
    ) -> tuple[Tensor | None, Tensor | None, None]:
        (features, weights), snapshot = ctx.saved_tensors, ctx.snapshot
        (gradient,) = gradients
        of_features = of_weights = None
        if ctx.needs_input_grad[0]:
            of_features = _sums(snapshot.outgoing, gradient, weights)
        if ctx.needs_input_grad[1]:
            of_weights = torch.empty_like(weights)
            kernels.sampled(snapshot.outgoing, array(features), array(gradient), out=array(of_weights))
        return of_features, of_weights, None


def _sums(edges: kernels.Neighbours, features: Tensor, weights: Tensor | None) -> Tensor:
    out = torch.empty(features.shape, dtype=features.dtype, device=features.device)
    kernels.aggregate(edges, array(features), None if weights is None else array(weights), out=array(out))
    return out


def array(tensor: Tensor) -> Any:
    """The memory of a tensor, for kernels; a copy only where its rows do not lie one after the other."""
    tensor = tensor.detach().contiguous()
    if tensor.device.type == "cpu":
        return tensor.numpy()
    from numba import cuda

    return cuda.as_cuda_array(tensor)


def _check(snapshot: Snapshot, features: Tensor, weights: Tensor | None) -> None:
    """Raise what a kernel would stumble over, in the user's words."""
    nodes, edges = snapshot.nodes, snapshot.window.graph.events
    if features.ndim != 2 or len(features) != nodes:
        raise HeadwayError(f"features {tuple(features.shape)}; give [{nodes}, columns], a row for each node")
    if weights is not None and weights.shape != (edges,):
        raise HeadwayError(
            f"weights {tuple(weights.shape)}; give [{edges}], one for each event of the graph, by edge id"
        )
    for name, one in (("features", features), ("weights", weights)):
        if one is None:
            continue
        if one.dtype not in (torch.float32, torch.float64):
            raise HeadwayError(f"{name} of {one.dtype}; give float32 or float64")
        if one.device.type != snapshot.device.type:
            raise HeadwayError(f"{name} on {one.device}, the snapshot on {snapshot.device}; move one to the other")
    if weights is not None and weights.dtype != features.dtype:
        raise HeadwayError(f"weights of {weights.dtype}, features of {features.dtype}; give one type")
