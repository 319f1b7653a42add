"""The wheel holds one package, `headway`, with every room in it."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import headway

ROOT = Path(__file__).parents[1]
ROOMS = ("cluster", "conf", "headway", "kernels", "pipeline", "storage")
MAY_IMPORT = {
    "cluster": {"storage.errors"},
    "kernels": {"storage"},
    "pipeline": {"cluster", "kernels", "storage"},
    "storage": set(),
}


def test_every_folder_of_a_room_is_in_the_one_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert {name.partition(".")[0] for name in settings["packages"]} == {"headway"}
    folders = {file.parent.relative_to(ROOT).as_posix() for room in ROOMS for file in (ROOT / room).rglob("*.py")}
    assert {settings["package-dir"][name] for name in settings["packages"]} == folders
    assert set(settings["package-dir"]) == set(settings["packages"])


def other_rooms(file: Path) -> set[str]:
    """Modules of other rooms that a file imports, anywhere in it; all imports of ours are relative."""
    inside = file.relative_to(ROOT).parent.parts
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level > len(inside):
            found |= {node.module} if node.module else {name.name for name in node.names}
        elif isinstance(node, ast.Import):
            assert not any(name.name.partition(".")[0] == "headway" for name in node.names), file
    return found


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_arrows_between_rooms_run_one_way(room: str) -> None:
    for file in (ROOT / room).rglob("*.py"):
        for module in other_rooms(file):
            assert module in MAY_IMPORT[room] or module.partition(".")[0] in MAY_IMPORT[room], (file, module)


def test_a_room_is_imported_alone() -> None:
    """Workers and writers of bundles start in a fraction of the time that all of the package takes."""
    code = "import sys; import headway.cluster.dask, headway.storage.bundle; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"headway", "headway.storage.bundle"} <= set(found)
    assert not {"numba", "pandas", "scipy", "headway.pipeline.api"} & set(found)


def test_names_of_the_package() -> None:
    assert set(headway.__all__) <= set(dir(headway))
    assert all(getattr(headway, name).__name__ == name for name in headway.__all__)
    with pytest.raises(AttributeError, match="module 'headway' has no attribute 'lod'"):
        headway.lod  # noqa: B018
