"""The CUDA texts: in plain Python thread by thread, and as PTX for the architecture that figures are measured on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from cases import MODULE, check
from conftest import connections_store
from cuda_cases import MATRIX, operands, schedules
from headway.cluster.devices import cuda_device
from headway.kernels.space import CSR, Kernel, Schedule, Tensor, kernel, schedule, shuffle
from relaxation import CUDA, WINDOWED_CUDA, WINDOWS, of_cluster_ap

SCHEDULES = dict(schedules())
COMPILED = MODULE.compiled


def ptx(made: Schedule, out: Any = None, **given: Any) -> str:
    """What NVVM makes of a kernel for the types of these operands."""
    from numba import cuda, typeof, types

    found: list[str] = []

    class Launch:
        def __init__(self, function: Any) -> None:
            self.function = function

        def __getitem__(self, size: tuple[int, int]) -> Any:
            return self.compile

        def compile(self, *arguments: Any) -> None:
            signature = types.void(*map(typeof, arguments))
            found.append(cuda.compile_ptx(self.function.py_func, signature, cc=(9, 0))[0])

    def launches(run: Kernel, dtype: np.dtype, wide: bool) -> dict[str, Launch]:
        return {name: Launch(function) for name, function in COMPILED(run, dtype, wide).items()}

    with patch.object(MODULE, "compiled", launches), patch.object(cuda, "device_array", np.empty):
        kernel(made)(out=out, **given)
    assert all(".target sm_90" in text for text in found)
    return found[-1]


@pytest.fixture
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    if not cuda_device().trouble:
        pytest.skip("a GPU compiles its kernels itself")
    from numba.cuda import dispatcher

    monkeypatch.setattr(dispatcher, "get_current_device", lambda: SimpleNamespace(compute_capability=(9, 0)))


@pytest.mark.parametrize("how", [how for how in SCHEDULES if not how.startswith("staged")])
def test_thread_by_thread(how: str) -> None:
    given, shape = operands(SCHEDULES[how])
    check(SCHEDULES[how], given, shape, plain=True)


@pytest.mark.parametrize("how", SCHEDULES)
def test_ptx(how: str, no_device: None) -> None:
    given, _ = operands(SCHEDULES[how])
    assert ".target sm_90" in ptx(SCHEDULES[how], **given)


@pytest.mark.parametrize("how", CUDA)
def test_earliest_arrival(how: str, no_device: None) -> None:
    store = of_cluster_ap(connections_store([(0, 1, 100, 60), (1, 2, 200, 60)], 3))
    labels = np.zeros(3, np.int32)
    text = ptx(CUDA[how], labels, S=store, active=labels == 0, width=3600)
    assert ".target sm_90" in text
    assert "min.s32" in text  # the atomic


@pytest.mark.parametrize("how", WINDOWED_CUDA)
def test_windowed_sum(how: str, no_device: None) -> None:
    stored = Tensor.from_coordinates(([0], [1], [2]), [1.0], (3, 4, 5), WINDOWS)
    assert ".target sm_90" in ptx(WINDOWED_CUDA[how], np.zeros((3, 6)), A=stored, X=np.ones((5, 6)), t0=0, t1=3)


@pytest.mark.skipif(bool(cuda_device().trouble), reason=cuda_device().trouble)
@pytest.mark.parametrize("how", ["row to 4 lanes", "staged by 32 threads, csr", "blocks, coo"])
def test_on_a_device_again(how: str) -> None:
    """From the second call on launches are a recorded graph, which reads arrays anew."""
    from numba import cuda

    given, shape = operands(SCHEDULES[how])
    x, out = cuda.to_device(given["x"]), cuda.to_device(np.full(shape, 7.0))
    run = kernel(SCHEDULES[how]).prepared(out=out, A=given["A"].to_device(), x=x)
    for times in (1.0, 2.0, 3.0, 4.0):
        x.copy_to_device(given["x"] * times)
        run()
        assert np.array_equal(out.copy_to_host(), MATRIX @ given["x"] * times)


@pytest.mark.skipif(bool(cuda_device().trouble), reason=cuda_device().trouble)
@pytest.mark.parametrize("how", SCHEDULES)
def test_on_a_device(how: str) -> None:
    given, shape = operands(SCHEDULES[how])
    check(SCHEDULES[how], given, shape)


def test_block_of_less_than_a_warp() -> None:
    made = schedule("y[i] = A[i, j] * x[j]", A=CSR).split("i", "b", "t", 24)
    assert kernel(made.parallelize("b", "block").parallelize("t", "thread")).block() == 32
    made = schedule("y[i] = A[i, j] * x[j]", A=CSR).split("i", "b", "w", 3).parallelize("b", "block")
    assert kernel(made.parallelize("w", "warp").parallelize("j", "lane", shuffle(4))).block() == 32
    made = schedule("y[i] = A[i, j] * x[j]", A=CSR).fuse("i", "j", "f").pos("f", "p", "A").split("p", "b", "q", 8)
    alone = kernel(made.parallelize("b", "block", "atomic"))  # nothing divides the work of a block
    assert alone.block() == 1


def test_sums_over_lanes_in_a_loop_that_is_written_out() -> None:
    """Each copy has a sum of its own."""
    made = schedule("y[i] = A[i, j] * x[j]", A=CSR).split("i", "r", "s", 2).unroll("s")
    given, shape = operands(made := made.parallelize("j", "lane", shuffle(8)))
    source = kernel(made).source
    assert "acc_0 = row_add(acc_0, LANES)" in source
    assert "acc_1 = row_add(acc_1, LANES)" in source
    check(made, given, shape, plain=True)
