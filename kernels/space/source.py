"""Generated text as functions, under a name by which tracebacks and profilers find its lines."""

from __future__ import annotations

import linecache
from functools import cache
from typing import Any


@cache
def _file_of(source: str) -> str:
    name = f"<headway kernel {len(linecache.cache)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    return name


def load(source: str, **names: Any) -> dict[str, Any]:
    """The functions of a text, in a fresh namespace that holds `names`."""
    namespace = dict(names)
    exec(compile(source, _file_of(source), "exec"), namespace)
    return namespace
