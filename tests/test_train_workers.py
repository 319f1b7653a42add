"""Training over several workers: one step is the step of one device, and what happens when a worker is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from itertools import product
from multiprocessing import active_children
from pathlib import Path

import numpy as np
import pytest
from dynamic_graphs import graph_of
from headway.cluster import devices
from headway.cluster.torch import together
from headway.pipeline.dynamic_graph import DTCSR
from headway.pipeline.learning.options import Epoch, Options
from headway.pipeline.settings import Settings, load_settings
from headway.pipeline.train import train
from headway.storage.errors import HeadwayError

torch = pytest.importorskip("torch")

from team_cases import Case, differences, too_much  # noqa: E402

WORKERS = 4
GPUS = 0 if devices.cuda_device().trouble else devices.cuda_device().count
CASES = [
    *(Case("even", n, layer, 2, 4) for n, layer in product((1, 2, 3, 4), ("TGCN", "GConvGRU"))),
    *(Case("even", n, layer, dtype="float32") for n, layer in product((2, 4), ("TGCN", "GConvGRU"))),
    *(Case("uneven", n, layer, 3, distinct=True) for n, layer in product((2, 3), ("TGCN", "GConvGRU"))),
    *(Case("empty at borders", n, layer) for n, layer in product((2, 4), ("TGCN", "GConvGRU"))),
    *(Case("few", 4, layer, truncated=1) for layer in ("TGCN", "GConvGRU")),  # more workers than snapshots
    *(Case("even", 3, layer, length=8, truncated=2) for layer in ("TGCN", "GConvGRU")),  # windows longer than a part
    *(Case("even", 3, "TGCN", 2, 5, task) for task in ("nodes", "links")),
    *(Case(name, n, inputs=12) for name, n in (("even", 2), ("uneven", 3), ("few", 4))),  # learned before convolved
    Case("one node", 3),
]


def check(count: int, gpu: bool) -> None:
    """All cases in one job: its processes take seconds to start."""
    cases = [case for case in CASES if case.workers <= count]
    found = together(count, gpu, 1, differences, (cases,), lambda what: None)
    assert len(found) == len(cases) + 1
    for case, (gradient, loss) in zip([*cases, Case("even", count)], found, strict=True):
        bound = 1e-10 if case.dtype == "float64" else 1e-5
        assert gradient < bound, (case, gradient)
        assert loss < bound, (case, loss)


def test_one_step_is_the_step_of_one_device() -> None:
    check(WORKERS, gpu=False)


@pytest.mark.skipif(GPUS < 2, reason="two GPUs are not here")
def test_one_step_on_gpus() -> None:
    check(min(WORKERS, GPUS), gpu=True)


@pytest.mark.skipif(GPUS < 2, reason="two GPUs are not here")
def test_gpus_and_then_the_cpu(tmp_path: Path) -> None:
    """A run on all GPUs goes on without."""
    out, options = tmp_path / "model", Options(hidden=4, truncated=100)
    curve = train(periodic(), out, options, 2, "cuda", settings=load_settings("gpu-node"))
    more = train(periodic(), out, options, 3, "cpu", resume=True)
    whole = train(periodic(), tmp_path / "whole", options, 3, "cpu")
    assert more[:2] == curve
    for one, other in zip(more, whole, strict=True):
        assert one.learned == pytest.approx(other.learned, rel=1e-4)


def periodic(ticks: int = 40) -> DTCSR:
    return graph_of([(u, tick % 2, tick) for tick in range(ticks) for u in range(6)], 6)


def spread(count: int) -> Settings:
    return load_settings("laptop", [f"train.workers={count}", "threads=1"])


def test_a_lost_worker_and_a_run_that_goes_on(tmp_path: Path) -> None:
    """Killed within the second epoch: one line; resumed by another number of workers, the numbers of one alone."""
    options, out = Options(task="links", hidden=4, truncated=7), tmp_path / "model"
    heard: list[Epoch] = []
    shares: list[tuple[int, float]] = []

    def kill(epoch: Epoch) -> None:
        heard.append(epoch)
        os.kill(active_children()[-1].pid or 0, signal.SIGKILL)

    begun = time.monotonic()
    with pytest.raises(HeadwayError, match=r"worker \d of 2 was killed \(SIGKILL\).*--resume, with any number of work"):
        train(periodic(), out, options, 1000, settings=spread(2), told=kill, dealt=lambda *one: shares.append(one))
    assert [workers for workers, _ in shares] == [2]
    assert 0.5 < shares[0][1] < 0.8  # half of each step's ticks, and the one after
    assert time.monotonic() - begun < 60
    assert heard[0].epoch == 1
    assert {path.name for path in out.iterdir()} - {"checkpoint.pt.tmp"} == {"checkpoint.pt"}
    done = len(torch.load(out / "checkpoint.pt", weights_only=True)["curve"])
    assert done >= len(heard)
    curve = train(periodic(), out, options, done + 1, resume=True, settings=spread(3))
    whole = train(periodic(), tmp_path / "whole", options, done + 1)
    assert [one.epoch for one in curve] == [one.epoch for one in whole]
    for one, other in zip(curve, whole, strict=True):
        assert one.learned == pytest.approx(other.learned, rel=1e-5)
        assert one.held_out == pytest.approx(other.held_out, rel=1e-5)
    one = train(periodic(), out, options, done + 2, resume=True)
    assert one[:-1] == curve  # and by one alone


def test_who_cannot_be_told_ends_the_job(tmp_path: Path) -> None:
    """Not one epoch after another that nobody hears of."""

    def leave(epoch: Epoch) -> None:
        raise BrokenPipeError

    begun = time.monotonic()
    with pytest.raises(BrokenPipeError):
        train(periodic(), tmp_path / "model", Options(hidden=4), 10**6, settings=spread(2), told=leave)
    assert time.monotonic() - begun < 60
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"checkpoint.pt"}


@pytest.mark.parametrize("later", [2.0, 0.0])
def test_ctrl_c(later: float, tmp_path: Path) -> None:
    """It reaches a terminal's whole process group, workers amid their imports, too: one line, nothing half made."""
    periodic().save(tmp_path / "graph")
    words = ["train", "graph", "-o", "model", "--epochs", "1000000", "--set", "train.workers=2", "--set", "threads=1"]
    code = "from headway.pipeline.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=tmp_path,
    )
    assert process.stdout is not None
    for _ in range(1 if later else 2):
        assert process.stdout.readline()
    time.sleep(later)
    os.killpg(process.pid, signal.SIGINT)
    begun = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - begun < 20
    assert process.returncode == 130
    way_out = "" if later else "; go on with --resume"
    placed, *others = [line for line in err.splitlines() if " ticks, " not in line]
    assert placed.startswith("trains on cpu")
    assert others == [f"headway: interrupted{way_out}"]
    assert {path.name for path in (tmp_path / "model").iterdir()} - {"checkpoint.pt.tmp"} == (
        set() if later else {"checkpoint.pt"}
    )


def test_what_is_wrong_with_several_workers(tmp_path: Path) -> None:
    out = tmp_path / "model"
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    with pytest.raises(HeadwayError, match=r"give numbers \[6, columns\]"):
        train(periodic(), out, Options(features=str(tmp_path / "x.npy")), 1, settings=spread(2))
    assert not out.exists()
    np.save(tmp_path / "x.npy", np.full((6, 2), np.nan))
    with pytest.raises(HeadwayError, match="epoch 1: the loss is nan"):
        train(periodic(), out, Options(features=str(tmp_path / "x.npy")), 1, settings=spread(2))
    assert not list(out.iterdir())  # so that it may be begun again
    train(periodic(6), out, Options(hidden=2), 1)


@pytest.mark.parametrize("array", ["tensor", "array"])
def test_a_worker_without_memory(array: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One line with what PyTorch or NumPy says, no traceback, and no temporary folder stays."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(
        HeadwayError, match=r"worker 0: .*allocate.*; give it less, or go on with more workers"
    ) as raised:
        together(1, False, 1, too_much, (array,), lambda what: None)
    assert "\n" not in str(raised.value)
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(("torchelastic", "headway"))] == []


def test_gpus_that_are_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(devices, "cuda_device", lambda: devices.Found("a GPU", count=2))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(HeadwayError, match=r"train.workers 3: there are 2 GPUs"):
        train(periodic(), tmp_path / "model", Options(), 1, "auto", settings=spread(3))
