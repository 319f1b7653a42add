"""What every benchmark uses: timing, peak memory, commands in a process of their own, and results as JSON.

Results say on what they were measured, never where: no host names, no paths.
"""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
POLL = 0.005  # seconds between two looks at a running command
# Not all of these are there on every machine; those that are not are left out.
DEVICE_PACKAGES = ("cudf-cu13", "cugraph-cu13", "cupy-cuda13x", "dask-cuda", "numba-cuda", "ray")


@dataclass(frozen=True)
class Finished:
    """A command that ran to its end; times in seconds, memory in MiB."""

    returncode: int
    wall_s: float
    user_s: float
    system_s: float
    peak_rss_mib: float
    output: str

    def figures(self) -> dict[str, float]:
        """The numbers, as they go into results."""
        return {
            "wall_s": round(self.wall_s, 3),
            "user_s": round(self.user_s, 3),
            "system_s": round(self.system_s, 3),
            "peak_rss_mib": round(self.peak_rss_mib, 1),
        }


def timed(fn: Callable[[], object], repeats: int = 5) -> dict[str, float]:
    """Call `fn` so often; fastest, median and slowest in seconds. Warming up is the caller's business."""
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, not {repeats}")
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        fn()
        seconds.append(time.perf_counter() - start)
    return {
        "repeats": repeats,
        "min_s": min(seconds),
        "median_s": statistics.median(seconds),
        "max_s": max(seconds),
    }


def mib(maxrss: int) -> float:
    """The unit of ru_maxrss is KiB on Linux and bytes on macOS."""
    return maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def peak_rss_mib() -> float:
    """The most memory that this process has held so far, its children not included."""
    return mib(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def command(
    argv: Sequence[str | os.PathLike[str]], *, cwd: Path | None = None, env: dict[str, str] | None = None
) -> Finished:
    """Run a command and measure it: times by os.wait4, which counts that child alone; `env` adds variables.

    Output goes through a file: a pipe that nobody drains would stop the child. A command that fails raises
    CalledProcessError, which carries what it printed.
    """
    with tempfile.TemporaryFile() as sink:
        start = time.perf_counter()
        child = subprocess.Popen(
            [os.fspath(part) for part in argv],
            cwd=cwd,
            env=None if env is None else os.environ | env,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
        )
        peak = 0.0
        while True:
            ended, status, usage = os.wait4(child.pid, os.WNOHANG)
            if ended:
                break
            peak = max(peak, high_water_mib(child.pid))
            time.sleep(POLL)
        wall = time.perf_counter() - start
        # Popen must know that its child is gone, or it waits for a process that may be another's by then.
        child.returncode = os.waitstatus_to_exitcode(status)
        sink.seek(0)
        output = sink.read().decode(errors="replace")
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, list(argv), output=output)
    return Finished(child.returncode, wall, usage.ru_utime, usage.ru_stime, peak or mib(usage.ru_maxrss), output=output)


def high_water_mib(pid: int) -> float:
    """The most memory that a process has held since it began its program; 0 where the system doesn't say.

    Its ru_maxrss starts at what the process that made it held, so a large parent hides a small child.
    """
    found = first_match(f"/proc/{pid}/status", r"^VmHWM:\s*(\d+) kB")
    return int(found) / 2**10 if found else 0.0


def first_match(path: str, pattern: str) -> str | None:
    """The first group of a pattern in a file of the system, if there is one."""
    try:
        found = re.search(pattern, Path(path).read_text(), re.MULTILINE)
    except OSError:
        return None
    return found.group(1).strip() if found else None


def gpus() -> list[str]:
    """Names of the GPUs with memory and driver, as nvidia-smi tells them."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.strip().splitlines()


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": first_match("/proc/cpuinfo", r"^model name\s*:\s*(.+)$") or platform.processor() or platform.machine(),
        "cores": cores,
        "memory_gib": round(memory / 2**30, 1),
        "gpus": gpus(),
        "os": first_match("/etc/os-release", r'^PRETTY_NAME="?([^"\n]+)"?$') or platform.system(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def versions() -> dict[str, str]:
    """Headway's version and those of what it depends on, as installed."""
    found = {}
    try:
        needs = importlib.metadata.requires("headway") or []
        found["headway"] = importlib.metadata.version("headway")
    except importlib.metadata.PackageNotFoundError:
        text = (ROOT / "pyproject.toml").read_text()
        needs = re.findall(r'^    "([A-Za-z][\w.-]*)[<>=]', text, re.MULTILINE)
        found["headway"] = (re.search(r'^version = "(.+)"', text, re.MULTILINE) or ["", "unknown"])[1]
    names = {re.split(r"[\s<>=!~;\[(]", need, maxsplit=1)[0] for need in needs if "extra" not in need}
    for name in sorted(names | {"llvmlite"} | set(DEVICE_PACKAGES)):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def git(*args: str) -> str | None:
    """What git says about this checkout; None without git or outside one."""
    try:
        done = subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def commit() -> dict[str, Any]:
    """The commit that was measured; dirty when anything but results differs from it."""
    changes = git("status", "--porcelain", "--", ".", ":(exclude)benchmarks/results")
    return {"commit": git("rev-parse", "HEAD"), "dirty": None if changes is None else bool(changes)}


def plain(value: object) -> object:
    """NumPy scalars and arrays as JSON knows them. A path is refused: it would name this machine."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no place in results: {value!r}")


def record(name: str, results: dict[str, Any], *, config: dict[str, Any]) -> Path:
    """Write benchmarks/results/<name>.json: what was found, with which settings, on what, at which commit."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise ValueError(f"a result's name is made of a-z, 0-9, _ and -, not {name!r}")
    whole = {
        "config": config,
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "git": commit(),
        "machine": machine(),
        "results": results,
        "versions": versions(),
    }
    text = json.dumps(whole, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False, default=plain)
    if found := next((part for part in (str(ROOT), str(Path.home())) if part != "/" and part in text), None):
        raise ValueError(f"results name a path of this machine: {found}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(text + "\n")
    return path
