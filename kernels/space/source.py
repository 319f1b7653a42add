"""Generated text as functions, under a name by which tracebacks and profilers find its lines.

Numba's cache asks for a file that a function comes from, so what it compiles for CPU threads is written to one.
"""

from __future__ import annotations

import ast
import hashlib
import linecache
import os
import threading
from collections.abc import Callable, Mapping, Set
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numba

from .. import jit

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
    return _run(source, _file_of(source), names, change)


def njit(
    source: str, name: str, constants: Mapping[str, Any], shared: Mapping[str, Any], fastmath: Set[str] = frozenset()
) -> Any:
    """A function of a text, compiled by Numba once for all processes, where a file can be written.

    `constants` tell kernels of one text apart, so their `repr` says all of them; `shared` is what every kernel knows.
    """
    told = repr((source, sorted(constants.items()), sorted(fastmath)))
    digest = hashlib.sha256(told.encode()).hexdigest()[:32]
    file = _written(source, digest)
    names = {"__name__": __name__, **shared, **constants}  # what is cached is of a module that can be imported
    function = _run(source, file or _file_of(source), names, lambda tree: tree)[name]
    function.__qualname__ = f"{name}_{digest}"  # names of machine code are made of it, and two alike are taken for one
    compiler = jit.njit if file else partial(numba.njit, nogil=True, error_model="numpy")
    return compiler(function, fastmath=set(fastmath))


def _run(
    source: str, file: str, names: Mapping[str, Any], change: Callable[[ast.Module], ast.Module]
) -> dict[str, Any]:
    namespace = dict(names)
    with PARSING:
        code = compile(change(ast.parse(source, file)), file, "exec")
    exec(code, namespace)
    return namespace


def _written(source: str, digest: str) -> str:
    """The file of a text; Numba looks at its age, which is always the same. Empty where none can be written."""
    file = Path(jit.CACHE) / "generated" / f"{digest}.py"
    try:
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=file.parent) as folder:
                part = Path(folder) / file.name
                part.write_text(source)
                os.utime(part, (0, 0))
                part.replace(file)
    except OSError:
        return ""
    return str(file)
