"""A folder with a plan of `headway nightly`, for tests."""

from __future__ import annotations

import json
import os
from datetime import date
from pathlib import Path

import yaml
from command import Result, headway
from headway.storage.store import load
from tiny import DAILY, tables, write

TIMETABLE = "t: A 8:00, B 8:10, C 8:20\nu: A 9:00, B 9:10"
LATER = TIMETABLE.replace("9:00", "9:05")


class Place:
    """A folder with feeds `a.zip` and `b.zip`, a plan for the first, and the plan's output `out`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out, self.file = folder, folder / "out", folder / "plan.yaml"
        self.feed("a")
        self.feed("b")
        self.keys = {"feeds": ["a.zip"], "dates": date(2026, 6, 10), "output": "out"}
        self.plan()

    def feed(self, name: str, timetable: str = TIMETABLE, zone: str = "Europe/Berlin", **files: str) -> Path:
        files = {"calendar": DAILY} | files
        return write(self.folder / f"{name}.zip", tables(timetable, zone, **files))

    def plan(self, **keys) -> None:
        self.keys |= keys
        self.file.write_text(yaml.safe_dump(self.keys))

    def run(self, status: int = 0) -> Result:
        result = headway("nightly", self.file, "--quiet")
        assert result.status == status, result.err
        return result

    def night(self) -> dict:
        """What one more run reports; it must end well."""
        self.run()
        return self.report()

    def report(self) -> dict:
        return json.loads((self.out / "report.json").read_text())

    def current(self) -> str:
        """Name of the current store, which must be whole."""
        load(self.out / "current", verify=True)
        return os.readlink(self.out / "current")  # noqa: PTH115

    def stores(self) -> list[str]:
        return sorted(path.name for path in self.out.iterdir() if path.is_dir() and not path.is_symlink())
