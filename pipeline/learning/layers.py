"""GCN and TGCN, whose parameters have the names and shapes that PyTorch Geometric (Temporal) gives them."""

from __future__ import annotations

import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor, nn  # pyright: ignore[reportMissingImports]

from .functional import gcn
from .gates import gated
from .snapshots import Snapshot


class GCN(nn.Module):
    """A graph convolution: `functional.gcn` of a linear map; what has fewer columns is aggregated."""

    def __init__(self, inputs: int, outputs: int, self_loops: bool = True, weighted_degree: bool = True) -> None:
        super().__init__()
        self.lin = nn.Linear(inputs, outputs, bias=False)
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.how = {"self_loops": self_loops, "weighted_degree": weighted_degree}
        nn.init.xavier_uniform_(self.lin.weight)

    def forward(self, snapshot: Snapshot, features: Tensor, weights: Tensor | None = None) -> Tensor:
        lin = self.lin
        if lin.in_features <= lin.out_features:
            return lin(gcn(snapshot, features, weights, **self.how)) + self.bias
        return gcn(snapshot, lin(features), weights, **self.how) + self.bias


class TGCN(nn.Module):
    """A gated recurrent unit whose input is a graph convolution.

        Z = sigmoid(linear_z[conv_z(X), H])
        R = sigmoid(linear_r[conv_r(X), H])
        C = tanh(linear_h[conv_h(X), R * H])
        H' = Z * H + (1 - Z) * C

    The three convolutions differ in their linear maps only, so that the graph is read once.

    Source: Zhao et al., "T-GCN: A Temporal Graph Convolutional Network for Traffic Prediction".
    """

    def __init__(self, inputs: int, hidden: int, self_loops: bool = True, weighted_degree: bool = True) -> None:
        super().__init__()
        self.hidden = hidden
        self.conv_z, self.conv_r, self.conv_h = (GCN(inputs, hidden, self_loops, weighted_degree) for _ in "zrh")
        self.linear_z, self.linear_r, self.linear_h = (nn.Linear(2 * hidden, hidden) for _ in "zrh")

    def forward(
        self, snapshot: Snapshot, features: Tensor, state: Tensor | None = None, weights: Tensor | None = None
    ) -> Tensor:
        """The hidden state [N, hidden] after a snapshot, from the one before (none: zeros)."""
        if state is None:
            state = features.new_zeros(len(features), self.hidden)
        convs, linears = (self.conv_z, self.conv_r, self.conv_h), (self.linear_z, self.linear_r, self.linear_h)
        # linear[conv(X), H] = 1 (L b + c)' + A X (L W)' + H M', with the halves L, M of the linear map.
        left, right = torch.stack([one.weight for one in linears]).split(self.hidden, 2)
        inner, outer = (torch.stack([one.bias for one in each])[:, :, None] for each in (convs, linears))
        of_inputs = left @ torch.stack([one.lin.weight for one in convs])
        if features.shape[1] > 3 * self.hidden:
            features = features @ of_inputs.flatten(0, 1).T
            of_inputs = torch.eye(3 * self.hidden, dtype=right.dtype, device=right.device).unflatten(
                0, (3, self.hidden)
            )
        z, r, h = torch.cat([torch.baddbmm(outer, left, inner), of_inputs, right], 2).mT
        return gated(gcn(snapshot, features, weights, **convs[0].how), state, torch.cat([z, r], 1), h)
