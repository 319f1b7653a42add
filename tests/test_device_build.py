"""Whole builds on real devices: the same store as on the CPU; skipped where there is none, or no cuDF."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from conftest import build, real_feed
from headway.cluster.devices import cuda_device
from test_build_workers import contents
from tiny import feed

trouble = cuda_device().trouble or ("" if importlib.util.find_spec("cudf") else "cuDF is not installed")
pytestmark = pytest.mark.skipif(bool(trouble), reason=trouble)

ALONE = {"build__frames": "cudf"}
WORKERS = {"workers__kind": "cuda"}
DAYS = {"bart": "2023-04-13", "nyc_mta_subway": "2026-09-30"}


@pytest.mark.parametrize("how", [ALONE, WORKERS], ids=["threads", "workers"])
def test_a_small_feed(how: dict, tmp_path: Path) -> None:
    path = feed(tmp_path, "one: A 8:00, B 8:10, C 8:20\ntwo: C 9:00, B 9:10, A 9:20\nthree: A 8:30, B 8:40")
    assert contents(build([path], "2026-06-10", **how)) == contents(build([path], "2026-06-10"))


@pytest.mark.parametrize("how", [ALONE, WORKERS], ids=["threads", "workers"])
@pytest.mark.parametrize("name", DAYS)
def test_real_feeds(how: dict, name: str) -> None:
    paths = [real_feed(name)]
    for options in ({}, {"walk__mode": "none", "build__subtrips": "sqrt-mean"}):
        assert contents(build(paths, DAYS[name], **options, **how)) == contents(build(paths, DAYS[name], **options))
