"""A recurrent unit that convolves its state, too: time can't be cut for it."""

from __future__ import annotations

import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor, nn  # pyright: ignore[reportMissingImports]

from .functional import gcn
from .layers import GCN
from .snapshots import Snapshot


class GConvGRU(nn.Module):
    """A gated recurrent unit whose maps are graph convolutions, GCN's instead of Chebyshev polynomials.

        Z = sigmoid(conv_x_z(X) + conv_h_z(H))
        R = sigmoid(conv_x_r(X) + conv_h_r(H))
        C = tanh(conv_x_h(X) + conv_h_h(R * H))
        H' = Z * H + (1 - Z) * C

    Source: Seo et al., "Structured Sequence Modeling with Graph Convolutional Recurrent Networks".
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.conv_x_z, self.conv_x_r, self.conv_x_h = (GCN(inputs, hidden) for _ in "zrh")
        self.conv_h_z, self.conv_h_r, self.conv_h_h = (GCN(hidden, hidden) for _ in "zrh")

    def forward(self, snapshot: Snapshot, features: Tensor, state: Tensor | None = None) -> Tensor:
        """The hidden state [N, hidden] after a snapshot, from the one before (none: zeros)."""
        if state is None:
            state = features.new_zeros(len(features), self.hidden)
        x, h = gcn(snapshot, features), gcn(snapshot, state)
        z = torch.sigmoid(_mapped(self.conv_x_z, x) + _mapped(self.conv_h_z, h))
        r = torch.sigmoid(_mapped(self.conv_x_r, x) + _mapped(self.conv_h_r, h))
        c = torch.tanh(_mapped(self.conv_x_h, x) + _mapped(self.conv_h_h, gcn(snapshot, r * state)))
        return torch.lerp(c, state, z)


def _mapped(conv: GCN, convolved: Tensor) -> Tensor:
    return conv.lin(convolved) + conv.bias
