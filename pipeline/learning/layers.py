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
        """[N, outputs] of features [N, inputs] and weights [M] by edge id. Raises as `functional.gcn`."""
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

    @property
    def learned(self) -> bool:
        """Whether features are mapped before they are convolved, because that leaves fewer columns."""
        return self.conv_z.lin.in_features > 3 * self.hidden

    @property
    def width(self) -> int:
        """Columns of `convolved`."""
        return min(self.conv_z.lin.in_features, 3 * self.hidden)

    def forward(
        self, snapshot: Snapshot, features: Tensor, state: Tensor | None = None, weights: Tensor | None = None
    ) -> Tensor:
        """The hidden state [N, hidden] after a snapshot, from the one before (none: zeros)."""
        if state is None:
            state = features.new_zeros(len(features), self.hidden)
        return self.following(self.convolved(snapshot, features, weights), state)

    def convolved(self, snapshot: Snapshot, features: Tensor, weights: Tensor | None = None) -> Tensor:
        """What of a snapshot the state depends on, [N, width]; no state is needed for it."""
        if self.learned:
            left, _ = self._halves()
            features = features @ self._of_inputs(left).flatten(0, 1).T
        return gcn(snapshot, features, weights, **self.conv_z.how)

    def following(self, convolved: Tensor, state: Tensor) -> Tensor:
        """The state of some nodes after a snapshot, from the rows of `convolved` and their state before."""
        # linear[conv(X), H] = 1 (L b + c)' + A X (L W)' + H M', with the halves L, M of the linear map.
        left, right = self._halves()
        convs, linears = (self.conv_z, self.conv_r, self.conv_h), (self.linear_z, self.linear_r, self.linear_h)
        inner, outer = (torch.stack([one.bias for one in each])[:, :, None] for each in (convs, linears))
        if self.learned:
            one = torch.eye(self.width, dtype=right.dtype, device=right.device)
            of_inputs = one.unflatten(0, (3, self.hidden))
        else:
            of_inputs = self._of_inputs(left)
        z, r, h = torch.cat([torch.baddbmm(outer, left, inner), of_inputs, right], 2).mT
        return gated(convolved, state, torch.cat([z, r], 1), h)

    def _halves(self) -> list[Tensor]:
        """L and M, [3, hidden, hidden] each."""
        linears = (self.linear_z, self.linear_r, self.linear_h)
        return list(torch.stack([one.weight for one in linears]).split(self.hidden, 2))

    def _of_inputs(self, left: Tensor) -> Tensor:
        """L W, [3, hidden, inputs]."""
        return left @ torch.stack([one.lin.weight for one in (self.conv_z, self.conv_r, self.conv_h)])
