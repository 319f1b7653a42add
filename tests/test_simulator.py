"""GPU kernels without a GPU: what the CUDA simulator runs, in a process of its own, and PTX from NVVM."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import connections_store
from headway.cluster.devices import cuda_device
from headway.storage.store import Store

pytest.importorskip("numba_cuda")

SIMULATOR = Path(__file__).with_name("simulator")
BATCH = str(SIMULATOR / "test_batch.py")


@pytest.mark.parametrize("tests", [[BATCH], [str(SIMULATOR), f"--ignore={BATCH}"]], ids=["batch", "others"])
def test_kernels_in_the_simulator(tests: list[str]) -> None:
    """Which is chosen when Numba is imported; what takes as long as all others is a test of its own."""
    paths = f"pythonpath={SIMULATOR.parent} {SIMULATOR.parent / 'space'}"
    options = ["-q", "-p", "no:xdist", "-o", "addopts=", "-o", paths]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def store_of(wide: bool) -> Store:
    """Of one connection, in words of 64 bits or 32."""
    store = connections_store([(0, 1, 100, 2**22 if wide else 5)], 2)
    assert (store.profile.word.dtype == np.uint64) == wide
    return store


@pytest.mark.skipif(not cuda_device().trouble, reason="a GPU compiles its kernels itself")
@pytest.mark.parametrize(("narrow", "walking"), list(product([True, False], repeat=2)))
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", ["arrivals", "od", "reach"])
def test_ptx(kind: str, wide: bool, narrow: bool, walking: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every shape of the kernels compiles for the architecture that figures are measured on."""
    from headway.kernels import batch
    from headway.kernels.block import Shape
    from headway.pipeline.asked import Answer
    from headway.pipeline.gpu import host_arrays, query_arrays
    from headway.pipeline.query_file import Queries
    from numba import cuda, typeof, types
    from numba.cuda import dispatcher

    monkeypatch.setattr(dispatcher, "get_current_device", lambda: SimpleNamespace(compute_capability=(9, 0)))
    store = store_of(wide)
    one = np.zeros(1, np.int32)
    asked = Answer(kind, np.array([60], np.int32) if kind == "reach" else one)
    fixed = {name: typeof(array) for name, array in host_arrays(store).items()}
    some = Queries(np.zeros(1, np.int64), one, one, one)
    given = {name: typeof(array) for name, array in query_arrays(store, some, asked, one.view(np.uint32), one).items()}
    word, sizes = fixed["word"].dtype, [types.uint32] * 4
    lists = (fixed["index"], fixed["word"])
    scratch, out, sums = types.uint32[::1], types.int32[:, ::1], types.int64[:, :, ::1]
    kernel = batch.make(Shape(narrow, wide, walking, kind))
    ptx, _ = cuda.compile_ptx(
        kernel.py_func,
        types.void(
            types.uint32, fixed["vertex_edges"], fixed["edge"], types.Array(word, 1, "C"), *sizes, *lists, word,
            fixed["vertex_foot"], fixed["foot"], fixed["place"], fixed["place_vertex"], types.int32,
            types.uint32, given["chain"], given["row"], given["leave"], given["limit"], given["source_offset"],
            given["source"], given["target"], given["target_vertex"], given["cutoffs"], given["weights"], scratch,
            types.uint32, types.uint32[::1], out, sums,
        ),
        cc=(9, 0),
    )  # fmt: skip
    assert ".target sm_90" in ptx


@pytest.mark.skipif(not cuda_device().trouble, reason="a GPU compiles its kernels itself")
@pytest.mark.parametrize("wide", [False, True])
def test_ptx_of_sectors(wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.kernels import sectors
    from headway.pipeline.gpu import host_arrays
    from numba import cuda, typeof, types
    from numba.cuda import dispatcher

    monkeypatch.setattr(dispatcher, "get_current_device", lambda: SimpleNamespace(compute_capability=(9, 0)))
    _, fill, _ = sectors.make(wide)
    fixed, sizes = {name: typeof(array) for name, array in host_arrays(store_of(wide)).items()}, [types.uint32] * 4
    word, lists = fixed["word"].dtype, (fixed["index"], fixed["word"])
    signature = types.void(types.Array(word, 1, "C"), *sizes, *lists, types.uint32, word, types.uint64[::1])
    assert ".target sm_90" in cuda.compile_ptx(fill.py_func, signature, cc=(9, 0))[0]


@pytest.mark.skipif(not cuda_device().trouble, reason="a GPU compiles its kernels itself")
def test_ptx_of_the_dependency_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.kernels.device_dependency_graph import relax
    from numba import cuda, types
    from numba.cuda import dispatcher

    monkeypatch.setattr(dispatcher, "get_current_device", lambda: SimpleNamespace(compute_capability=(9, 0)))
    vertices, times = types.uint32[::1], types.int32[::1]
    signature = types.void(types.uint64, types.uint32, vertices, vertices, times, times, times, times)
    ptx, _ = cuda.compile_ptx(relax.py_func, signature, cc=(9, 0))
    assert ".target sm_90" in ptx
    assert "atom.global.min.s32" in ptx


@pytest.mark.skipif(not cuda_device().trouble, reason="a GPU compiles its kernels itself")
def test_ptx_of_a_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.kernels import device_connections, device_cover, device_profiles
    from numba import cuda, types
    from numba.cuda import dispatcher

    monkeypatch.setattr(dispatcher, "get_current_device", lambda: SimpleNamespace(compute_capability=(9, 0)))
    vertex, second, place, flag = types.uint32[::1], types.int32[::1], types.int64[::1], types.uint8[::1]
    number, columns = types.int64, (types.uint32[::1], types.uint32[::1], second, second, vertex)
    trips = (place, vertex, second, second, flag, place, second, number, place)
    kernels = [
        (device_connections.fill, (*trips, place, place, *columns)),
        (device_cover.few, (place, place, second, second, second)),
        (device_cover.many, (place, place, second, number, second, second)),
        (device_profiles.mark, (place, second, second, types.boolean[::1])),
        (device_profiles.count, (place, second, number, number, place)),
        *(
            (device_profiles.by_slot, (place, second, second, number, number, word, word, place, word[::1]))
            for word in (types.uint32, types.uint64)
        ),
    ]
    for kernel, signature in kernels:
        ptx, _ = cuda.compile_ptx(kernel.py_func, types.void(*signature), cc=(9, 0))
        assert ".target sm_90" in ptx
        assert ".f64" not in ptx  # signed and unsigned words mixed
