"""The gates of a recurrent unit as one function that PyTorch differentiates.

Some rows at a time, so that what is in between stays in the cache. For the gradient a CPU keeps the gates; a GPU, whose
memory they would fill, computes them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor  # pyright: ignore[reportMissingImports]
from torch.autograd.function import once_differentiable  # pyright: ignore[reportMissingImports]

ROWS = 2048  # at a time, on a CPU


def gated(inputs: Tensor, state: Tensor, w: Tensor, v: Tensor) -> Tensor:
    """The state [N, h] that follows the state H [N, h], of inputs X [N, f].

        Z, R = sigmoid([1, X, H] w)
        C = tanh([1, X, R * H] v)
        Z * H + (1 - Z) * C

    w [1 + f + h, 2h], v [1 + f + h, h].
    """
    return _Gated.apply(inputs, state, w, v)  # pyright: ignore[reportReturnType]


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, state: Tensor, w: Tensor, v: Tensor) -> Tensor:
        out, h, gates = torch.empty_like(state), state.shape[1], _room(state)
        for rows, _, zr, c in _gates(inputs, state, w, v, gates, known=False):
            torch.lerp(c, state[rows], zr[:, :h], out=out[rows])
        ctx.save_for_backward(inputs, state, w, v, *(gates if state.device.type == "cpu" else ()))
        return out

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator has another name for ctx
        ctx: Any, *gradients: Tensor
    ) -> tuple[Tensor | None, ...]:
        inputs, state, w, v, *gates = ctx.saved_tensors
        h, after, (gradient,) = state.shape[1], 1 + inputs.shape[1], gradients
        d_inputs = torch.empty_like(inputs) if ctx.needs_input_grad[0] else None
        d_state = torch.empty_like(state) if ctx.needs_input_grad[1] else None
        d_w, d_v = torch.zeros_like(w), torch.zeros_like(v)
        # What reaches the sums inside of Z and R, of C, and what reaches R * H; and room for slopes.
        scratch = [state.new_empty(_rows(state), columns) for columns in (2 * h, h, h, 2 * h)]
        for rows, given, zr, c in _gates(inputs, state, w, v, gates or _room(state), known=bool(gates)):
            inside_zr, inside_c, d_reset, slope = (one[: len(c)] for one in scratch)
            s, d, z, r = state[rows], gradient[rows], zr[:, :h], zr[:, h:]
            torch.sub(s, c, out=inside_zr[:, :h]).mul_(d)
            torch.addcmul(d, d, z, value=-1, out=inside_c)
            inside_c.addcmul_(inside_c, torch.mul(c, c, out=d_reset), value=-1)  # times 1 - C * C
            d_v.addmm_(given.T, inside_c)
            torch.mm(inside_c, v[after:].T, out=d_reset)
            torch.mul(d_reset, s, out=inside_zr[:, h:])
            if d_state is not None:
                torch.mul(d, z, out=d_state[rows]).addcmul_(d_reset, r)
            inside_zr.mul_(torch.addcmul(zr, zr, zr, value=-1, out=slope))
            given[:, after:] = s
            d_w.addmm_(given.T, inside_zr)
            if d_state is not None:
                d_state[rows].addmm_(inside_zr, w[after:].T)
            if d_inputs is not None:
                torch.mm(inside_zr, w[1:after].T, out=d_inputs[rows]).addmm_(inside_c, v[1:after].T)
        return d_inputs, d_state, d_w, d_v


def _gates(
    inputs: Tensor, state: Tensor, w: Tensor, v: Tensor, gates: Sequence[Tensor], known: bool
) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
    """Some rows at a time: which, and their [1, X, R * H], in memory that the next ones take over, [Z, R] and C.

    The latter are rows of `gates`, as `_room` makes them: `known`, or put there.
    """
    h, after, count = state.shape[1], 1 + inputs.shape[1], _rows(state)
    scratch, twice = state.new_ones(count, after + h), 2 * v
    for first in range(0, len(state), count):
        rows = slice(first, first + count)
        s, (zr, c) = state[rows], (one[rows] for one in gates)
        given = scratch[: len(s)]
        given[:, 1:after], given[:, after:] = inputs[rows], s
        if not known:
            torch.mm(given, w, out=zr).sigmoid_()
        given[:, after:] *= zr[:, h:]
        if not known:
            # tanh(a) is 2 sigmoid(2 a) - 1, which takes a third of the time.
            torch.mm(given, twice, out=c).sigmoid_().mul_(2).sub_(1)
        yield rows, given, zr, c


def _room(state: Tensor) -> tuple[Tensor, Tensor]:
    """For [Z, R] and C of all rows."""
    return state.new_empty(len(state), 2 * state.shape[1]), torch.empty_like(state)


def _rows(state: Tensor) -> int:
    """How many at a time: all on a GPU."""
    return max(min(ROWS, len(state)) if state.device.type == "cpu" else len(state), 1)
