"""What the driver says of a GPU, and that a CPU does without CUDA packages."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from types import SimpleNamespace

import pytest
from conftest import connections_store
from headway.cluster import devices
from headway.cluster.devices import cuda_device
from headway.pipeline.device import open_engine
from headway.pipeline.settings import Settings
from headway.storage.errors import HeadwayError


def driver(init: int = 0, count: int = 1, opens: int = 0) -> SimpleNamespace:
    """A driver that answers so."""

    def write_count(pointer) -> int:
        pointer._obj.value = count
        return 0

    def write_name(buffer, size: int, device) -> int:
        buffer.value = b"Some GPU"
        return 0

    return SimpleNamespace(
        cuInit=lambda flags: init,
        cuDeviceGetCount=write_count,
        cuDeviceGet=lambda pointer, number: opens,
        cuDeviceGetName=write_name,
    )


@pytest.mark.parametrize(
    ("made", "trouble"),
    [
        (None, "no NVIDIA driver"),
        (driver(init=100), "the NVIDIA driver does not start, error 100"),
        (driver(count=0), "the NVIDIA driver sees no GPU"),
        (driver(opens=1), "the NVIDIA driver does not open the GPU"),
    ],
)
def test_trouble(made: SimpleNamespace | None, trouble: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is told in a line, by `auto` as the reason and by `cuda` as the error."""

    def load(name: str) -> SimpleNamespace:
        if made is None:
            raise OSError("not there")
        return made

    monkeypatch.setattr(ctypes, "CDLL", load)
    assert cuda_device().trouble == trouble
    store = connections_store([(0, 1, 10, 5)], 2)
    assert open_engine(store, "auto", "edge-profile", Settings())[1] == f"cpu: {trouble}"
    with pytest.raises(HeadwayError, match=f"--device cuda: {trouble}; leave it out, or use --device cpu"):
        open_engine(store, "cuda", "edge-profile", Settings())


def test_algorithms_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a device lacks is told in a line."""
    store, wide = connections_store([(0, 1, 10, 5)], 2), "--algorithm edge-32 runs on a GPU alone"
    with pytest.raises(HeadwayError, match=f"{wide}, and not with --device cpu; use --device cuda where there is one"):
        open_engine(store, "cpu", "edge-32", Settings())
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver(count=0))
    for device in ("auto", "cuda"):
        with pytest.raises(HeadwayError, match=f"{wide}, the NVIDIA driver sees no GPU; .* or --algorithm edge"):
            open_engine(store, device, "edge-32", Settings())
    assert open_engine(store, "auto", "cluster-ap", Settings())[1] == "cpu: the NVIDIA driver sees no GPU"
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver())
    assert open_engine(store, "auto", "label-correcting", Settings())[1] == (
        "cpu: algorithm label-correcting is for the CPU"
    )
    with pytest.raises(HeadwayError, match="--device cuda: algorithm connection-scan is for the CPU"):
        open_engine(store, "cuda", "connection-scan", Settings())


def test_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver(count=3))
    monkeypatch.setattr(devices.importlib.util, "find_spec", lambda name: None)
    assert cuda_device().trouble == "numba-cuda is not installed: pip install headway[gpu]"
    monkeypatch.setattr(devices.importlib.util, "find_spec", lambda name: object())
    assert cuda_device() == devices.Found("Some GPU", count=3)


def test_a_cpu_imports_no_cuda_package() -> None:
    code = """
import sys
import headway as hw
from headway.pipeline.cli import main
from headway.pipeline.device import open_engine
import headway.pipeline.query
import numpy as np, scipy.sparse
from headway.kernels.space import Tensor
from headway.kernels.tensor import spmv
spmv(Tensor.from_scipy(scipy.sparse.csr_matrix(np.eye(2))), np.ones(2))
found = [name for name in sys.modules if name.split(".")[0] in ("cuda", "cudf", "cupy") or "numba.cuda" in name]
print(found)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
