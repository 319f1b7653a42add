"""Statements repeated in rounds on CUDA, as PTX, and what is refused. The simulator and devices run them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import connections_store
from headway.kernels import relax
from headway.kernels.hierarchy import hierarchy
from headway.kernels.space import CSR, Schedule, ScheduleError, Tensor, kernel, schedule
from headway.kernels.space.rounds import Rounds
from test_cuda_text import no_device  # noqa: F401  # the fixture is used by name

ON_CUDA = relax.ALGORITHMS | relax.VIRTUAL_WARPS


def paths(text: str = "d[v] min= d[u] + A[u, v] where active[u]", loop: str = "b") -> Schedule:
    made = schedule(text, A=CSR).split("u", loop, "t", 32)
    return made.parallelize(loop, "block", "atomic").parallelize("t", "thread", "atomic")


def ptx(made: Rounds, out: np.ndarray, **operands: Any) -> list[str]:
    """What NVVM makes of both functions."""
    from numba import cuda, typeof, types

    marks, told = np.zeros((2, *out.shape), np.int32), np.zeros(4, np.int32)
    given, _, threads = made.arguments(out, marks, told, **operands)
    found = []
    for function, arguments in zip(made.functions(out.dtype, False), (given, (*given, 1)), strict=True):
        signature = types.void(*map(typeof, arguments))
        found.append(cuda.compile_ptx(function, signature, cc=(9, 0), launch_bounds=threads)[0])
    return found


@pytest.mark.parametrize("walking", [False, True])
@pytest.mark.parametrize("algorithm", ON_CUDA)
def test_ptx(algorithm: str, walking: bool, no_device: None) -> None:  # noqa: F811
    found = ON_CUDA[algorithm]
    store = connections_store([(0, 1, 100, 60), (0, 1, 160, 60), (1, 2, 200, 90)], 3)
    operands: dict[str, Any] = hierarchy(store.cluster_ap, store.connections, found.kind, found.listed)
    operands |= {"width": store.cluster_ap.width}
    steps = [found.make(64)]
    if walking:
        steps.append(relax.footpath(64))
        operands["F"] = Tensor.from_coordinates(([0], [1]), np.array([5], np.int32), (3, 3), CSR)
    whole, once = ptx(Rounds(*steps, active="active"), np.zeros(3, np.int32), **operands)
    for text in (whole, once):
        assert ".target sm_90" in text
        assert "min.s32" in text  # the atomic
        assert "ld.relaxed.gpu.global.b32" in text  # labels that others lower
        assert "upper" not in text  # nobody searches for coordinates
    assert "atom.add.acq_rel.gpu" in whole
    assert "ld.acquire.gpu" in whole
    assert "ld.acquire.gpu" not in once


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_ptx_of_other_types(dtype: Any, no_device: None) -> None:  # noqa: F811
    stored = Tensor.from_coordinates(([0], [1]), np.ones(1, dtype), (3, 3), CSR)
    for text in ptx(Rounds(paths(), active="active"), np.zeros(3, dtype), A=stored):
        assert f"ld.relaxed.gpu.global.b{8 * np.dtype(dtype).itemsize}" in text


def test_a_list_is_not_searched() -> None:
    """A thread reads the coordinates of its position."""
    for algorithm in ON_CUDA.values():
        text = kernel(algorithm.make(64)).source
        assert "upper" not in text
        assert "u = S_crd0[p]" in text


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([schedule("d[v] min= d[u] + A[u, v] where active[u]", A=CSR)], "parallelize onto CUDA's blocks and threads"),
        ([paths("d[v] += d2[u] * A[u, v] where active[u]")], "only an output of one index, lowered by min="),
        ([paths(), paths("e[v] min= e[u] + A[u, v] where active[u]")], "the others lower d[v]"),
        ([paths("d[v] min= d[u] + A[u, v]")], "active must be one of its conditions, by an index of d[v]"),
        ([paths("d[v] min= d[u] + A[u, v] where active[u] > 0")], "active must be one of its conditions"),
        ([paths("d[v] min= d[u] + A[u, v] where active[u] and u < turn")], "turn cannot be a name here"),
        ([paths(loop="fell")], "fell cannot be a name here"),
    ],
)
def test_refused(steps: list[Schedule], message: str) -> None:
    with pytest.raises(ScheduleError) as error:
        Rounds(*steps, active="active")
    assert message in str(error.value)


def test_labels_too_narrow() -> None:
    stored = Tensor.from_coordinates(([0], [1]), np.ones(1, np.int16), (3, 3), CSR)
    told = np.zeros(4, np.int32)
    with pytest.raises(ValueError, match="d: labels have 32 or 64 bits, not those of int16"):
        Rounds(paths(), active="active").arguments(np.zeros(3, np.int16), np.zeros((2, 3), np.int32), told, A=stored)
