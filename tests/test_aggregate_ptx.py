"""Every kernel of aggregation compiles for the GPU that figures are measured on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aggregate_cases import COLUMNS, numbers, sides, window
from headway.cluster.devices import cuda_device
from headway.kernels import aggregate as module
from headway.kernels import neighbours

pytest.importorskip("numba_cuda")


@pytest.mark.skipif(not cuda_device().trouble, reason="a GPU compiles its kernels itself")
@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("columns", COLUMNS)
def test_ptx(columns: int, distinct: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.kernels import warp
    from headway.kernels.space.kernel import Kernel, compiled
    from numba import cuda, typeof, types
    from numba.cuda import dispatcher

    found: list[str] = []

    def compile_only(made: Any) -> Any:
        run = Kernel(made)

        def work(self: Kernel, given: dict[str, Any], name: str, zero: Any, threads: Any) -> Any:
            signature = types.void(*(typeof(given[key]) for key in self.parameters))
            function = compiled(self, given[name].dtype, self.wide(given))["kernel"]
            found.append(cuda.compile_ptx(function.py_func, signature, cc=(9, 0))[0])
            return lambda: None

        monkeypatch.setattr(Kernel, "_work", work)
        return run

    monkeypatch.setattr(dispatcher, "get_current_device", lambda: SimpleNamespace(compute_capability=(9, 0)))
    monkeypatch.setattr(module, "kernel", compile_only)
    monkeypatch.setattr(neighbours, "LONGEST", 4)
    monkeypatch.setattr(warp, "SIMULATED", False)
    monkeypatch.setattr(neighbours, "to_device", lambda array: array)
    of = window(distinct)
    towards, away = sides(of, neighbours.Arrays.of(of.graph).to_device())
    features, weights = numbers(12, columns), numbers(120)
    module.aggregate(towards, features)
    module.aggregate(towards, features, weights)
    module.sampled(away, features, features)
    module.self_loops(away)
    assert len(found) == 3 + 3 + 1 + 1
    for text in found:
        assert ".target sm_90" in text
        assert "atom." not in text  # sums are in one order
