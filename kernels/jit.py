"""Compile for CPU threads, cached on disk.

Numba's own cache looks at the file of a function only and misses changes in the functions that it calls, so
the cache folder is named after the content of every kernel.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import config


def _cache_folder() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return str(Path(home) / "headway" / digest.hexdigest()[:16])


CACHE = os.environ.get("NUMBA_CACHE_DIR") or _cache_folder()


_DECORATING = threading.Lock()


def njit(function: Callable[..., Any], **options: Any) -> Any:
    """Numba's `njit` without the GIL, with C division, cached in this project's folder."""
    with _DECORATING:
        before, config.CACHE_DIR = config.CACHE_DIR, CACHE  # read once, when the decorator runs
        try:
            return numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)
        finally:
            config.CACHE_DIR = before
