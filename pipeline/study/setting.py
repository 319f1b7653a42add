"""On what a study was measured; no names of hosts, no paths."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import version
from pathlib import Path

from ...cluster.devices import cuda_device

PACKAGES = ("headway", "numba", "numpy")


def machine(devices: tuple[str, ...]) -> dict[str, str]:
    """Processor, cores and memory, and the GPU if it takes part."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    processor = _first("/proc/cpuinfo", r"^model name\s*:\s*(.+)$") or platform.processor() or platform.machine()
    found = {
        "processor": processor,
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "memory": f"{memory:.0f} GiB",
        "system": platform.system(),
    }
    if "cuda" in devices:
        found["GPU"] = cuda_device().name
    return found


def versions(devices: tuple[str, ...]) -> dict[str, str]:
    """Python, and the packages that the times depend on."""
    names = (*PACKAGES, "numba-cuda") if "cuda" in devices else PACKAGES
    return {"Python": platform.python_version()} | {name: version(name) for name in names}


def _first(file: str, pattern: str) -> str | None:
    """The first group of a pattern in a file of the system, if there is one."""
    try:
        found = re.search(pattern, Path(file).read_text(), re.MULTILINE)
    except OSError:
        return None
    return found.group(1).strip() if found else None
