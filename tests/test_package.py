"""The wheel holds one package, `headway`, with every room in it."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("cluster", "conf", "headway", "kernels", "pipeline", "storage")


def test_every_folder_of_a_room_is_in_the_one_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert {name.partition(".")[0] for name in settings["packages"]} == {"headway"}
    folders = {file.parent.relative_to(ROOT).as_posix() for room in ROOMS for file in (ROOT / room).rglob("*.py")}
    assert {settings["package-dir"][name] for name in settings["packages"]} == folders
    assert set(settings["package-dir"]) == set(settings["packages"])
