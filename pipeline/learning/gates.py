"""The gates of a recurrent unit as one function that PyTorch differentiates.

Nothing but the inputs and the state before is kept for the gradient: gates are computed again, some rows at a time, so
that what is in between stays in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor  # pyright: ignore[reportMissingImports]
from torch.autograd.function import once_differentiable  # pyright: ignore[reportMissingImports]

ROWS = 512  # at a time, on a CPU


def gated(inputs: Tensor, maps: Tensor, bias: Tensor, state: Tensor, of_state: Tensor, of_reset: Tensor) -> Tensor:
    """The state [N, h] that follows `state` [N, h].

        Z, R = sigmoid(inputs maps[:, :2h] + bias[:2h] + state of_state)
        C = tanh(inputs maps[:, 2h:] + bias[2h:] + (R * state) of_reset)
        Z * state + (1 - Z) * C

    inputs [N, f], maps [f, 3h], bias [3h], of_state [h, 2h], of_reset [h, h].
    """
    return _Gated.apply(inputs, maps, bias, state, of_state, of_reset)  # pyright: ignore[reportReturnType]


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Tensor) -> Tensor:
        ctx.save_for_backward(*given)
        state = given[3]
        out, gates = torch.empty_like(state), _scratch(state, 4)
        for rows in _blocks(state):
            z, _, c, _ = _gates(gates, rows, *given)
            torch.lerp(c, state[rows], z, out=out[rows])
        return out

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator has another name for ctx
        ctx: Any, *gradients: Tensor
    ) -> tuple[Tensor | None, ...]:
        inputs, maps, bias, state, of_state, of_reset = ctx.saved_tensors
        h, (gradient,) = state.shape[1], gradients
        d_inputs = torch.empty_like(inputs) if ctx.needs_input_grad[0] else None
        d_state = torch.empty_like(state) if ctx.needs_input_grad[3] else None
        d_maps, d_bias, d_of_state, d_of_reset = (torch.zeros_like(one) for one in (maps, bias, of_state, of_reset))
        gates, sums, reset = _scratch(state, 4), _scratch(state, 3), _scratch(state, 1)
        for rows in _blocks(state):
            z, r, c, rs = _gates(gates, rows, *ctx.saved_tensors)
            s, d = state[rows], gradient[rows]
            inside, d_reset = sums[: len(s)], reset[: len(s)]  # what reaches the sums inside of the gates
            d_z, d_r, d_c = inside.split(h, 1)
            torch.sub(s, c, out=d_z).mul_(d)  # of Z
            torch.addcmul(d, d, z, value=-1, out=d_c)
            d_c.addcmul_(torch.mul(d_c, c, out=d_r), c, value=-1)  # times 1 - C * C
            torch.mm(d_c, of_reset.T, out=d_reset)
            torch.mul(d_reset, s, out=d_r)
            both, sigmoids = inside[:, : 2 * h], gates[: len(s), : 2 * h]
            d_maps[:, 2 * h :].addmm_(inputs[rows].T, d_c)
            d_of_reset.addmm_(rs.T, d_c)
            if d_state is not None:
                torch.mul(d, z, out=d_state[rows]).addcmul_(d_reset, r)
            sigmoids.addcmul_(sigmoids, sigmoids, value=-1)  # in place: Z and R are not read again
            both.mul_(sigmoids)
            d_maps[:, : 2 * h].addmm_(inputs[rows].T, both)
            d_of_state.addmm_(s.T, both)
            d_bias += inside.sum(0)
            if d_state is not None:
                d_state[rows].addmm_(both, of_state.T)
            if d_inputs is not None:
                torch.mm(inside, maps.T, out=d_inputs[rows])
        return d_inputs, d_maps, d_bias, d_state, d_of_state, d_of_reset


def _gates(
    scratch: Tensor, rows: slice, inputs: Tensor, maps: Tensor, bias: Tensor, state: Tensor, w: Tensor, v: Tensor
) -> tuple[Tensor, ...]:
    """Z, R, C and R * state of some rows, side by side in `scratch`."""
    h, s = state.shape[1], state[rows]
    found = scratch[: len(s)]
    z, r, c, rs = found.split(h, 1)
    torch.addmm(bias, inputs[rows], maps, out=found[:, : 3 * h])
    found[:, : 2 * h].addmm_(s, w).sigmoid_()
    c.addmm_(torch.mul(r, s, out=rs), v).tanh_()
    return z, r, c, rs


def _scratch(state: Tensor, columns: int) -> Tensor:
    """Room for some rows, `columns` times as wide."""
    rows = ROWS if state.device.type == "cpu" else len(state)
    return state.new_empty(min(rows, len(state)), columns * state.shape[1])


def _blocks(state: Tensor) -> Iterator[slice]:
    """All rows at once on a GPU."""
    rows = ROWS if state.device.type == "cpu" else max(len(state), 1)
    return (slice(first, first + rows) for first in range(0, len(state), rows))
