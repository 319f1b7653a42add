"""Generated functions on the disk: what tells them apart, and what is there for the next process."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from headway.kernels import jit
from headway.kernels.space.source import njit

TEXT = "def kernel(x):\n    return twice(x) + zero\n\n\ndef other(x):\n    return x - zero\n"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(jit, "CACHE", str(tmp_path))
    return tmp_path


def made(name: str = "kernel", zero: object = 1.0, **options):
    return njit(TEXT, name, {"zero": zero}, {"twice": jit.numba.njit(lambda x: 2 * x)}, **options)


@pytest.mark.usefixtures("cache")
def test_compiled_once() -> None:
    first, again = made(), made()
    assert (first(3.0), again(3.0)) == (7.0, 7.0)
    assert (sum(first.stats.cache_hits.values()), sum(again.stats.cache_hits.values())) == (0, 1)
    for differs, value in (
        (made(zero=2.0), 8.0),
        (made(zero=np.float32(1)), 7.0),
        (made(zero=1), 7.0),
        (made("other"), 2.0),
        (made(fastmath={"reassoc"}), 7.0),
    ):
        assert differs(3.0) == value
        assert not differs.stats.cache_hits


def test_written_by_two_at_once(cache: Path) -> None:
    """Whose file is last in its place is no matter."""
    made()(3.0)
    (file,) = (cache / "generated").iterdir()
    file.rename(cache / "away")
    again = made()
    assert again(3.0) == 7.0
    assert sum(again.stats.cache_hits.values()) == 1
    assert file.read_text() == TEXT


def test_no_place_to_write(cache: Path) -> None:
    (cache / "generated").write_text("")
    assert made()(3.0) == 7.0


def test_a_disk_that_is_full(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel works, and half a file doesn't stay."""
    monkeypatch.setattr(os, "utime", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    assert made()(3.0) == 7.0
    assert list((cache / "generated").iterdir()) == []
