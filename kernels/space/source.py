"""Generated text as functions, under a name by which tracebacks and profilers find its lines."""

from __future__ import annotations

import ast
import linecache
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

PARSING = threading.RLock()  # CPython 3.11 counts the depth of syntax trees for all threads together


@cache
def _file_of(source: str) -> str:
    name = f"<headway kernel {len(linecache.cache)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    return name


def load(
    source: str, change: Callable[[ast.Module], ast.Module] = lambda tree: tree, /, **names: Any
) -> dict[str, Any]:
    """The functions of a text, in a fresh namespace that holds `names`; `change` is made to it before."""
    namespace = dict(names)
    file = _file_of(source)
    with PARSING:
        code = compile(change(ast.parse(source, file)), file, "exec")
    exec(code, namespace)
    return namespace
