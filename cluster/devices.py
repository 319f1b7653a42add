"""What there is to compute on."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Found:
    """The `name` of the first of `count` CUDA devices, or the `trouble` that keeps this process from using one."""

    name: str = ""
    trouble: str = ""
    count: int = 1


def cuda_device() -> Found:
    """The first CUDA device, as the driver tells; importing a CUDA package tells nothing, and is slow.

    Never raises.
    """
    if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
        return Found("CUDA simulator")
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Found(trouble="no NVIDIA driver")
    if status := driver.cuInit(0):
        return Found(trouble=f"the NVIDIA driver does not start, error {status}")
    count, device, name = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(256)
    if driver.cuDeviceGetCount(ctypes.byref(count)) or count.value == 0:
        return Found(trouble="the NVIDIA driver sees no GPU")
    if driver.cuDeviceGet(ctypes.byref(device), 0) or driver.cuDeviceGetName(name, len(name), device):
        return Found(trouble="the NVIDIA driver does not open the GPU")
    if importlib.util.find_spec("numba_cuda") is None:
        return Found(trouble="numba-cuda is not installed: pip install headway[gpu]")
    return Found(name.value.decode(errors="replace"), count=count.value)
