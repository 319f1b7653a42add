"""`headway train`: what it learns, where it stops and goes on, and what it says of wrong input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command import done, headway, refused
from dynamic_graphs import graph_of
from headway.cluster import devices
from headway.pipeline import progress, train_command
from headway.pipeline.dynamic_graph import DTCSR
from headway.pipeline.train import Epoch, Options, train
from headway.storage.errors import HeadwayError

torch = pytest.importorskip("torch")

from headway.pipeline.learning.snapshots import Snapshots  # noqa: E402
from headway.pipeline.learning.tasks import Features  # noqa: E402


def periodic(nodes: int = 6, ticks: int = 24) -> DTCSR:
    """Even ticks: everyone to node 0; odd ones: everyone to node 1."""
    return graph_of([(u, tick % 2, tick) for tick in range(ticks) for u in range(nodes)], nodes)


@pytest.mark.parametrize(("task", "share"), [("nodes", 0.3), ("links", 0.75)])
def test_it_learns(task: str, share: float, tmp_path: Path) -> None:
    """A pattern that a constant can't tell; also on ticks that it never saw. Random pairs are among those that meet."""
    curve = train(periodic(), tmp_path / "model", Options(task=task, hidden=8, lr=0.03), 60)
    assert [one.epoch for one in curve] == list(range(1, 61))
    assert curve[-1].learned < share * curve[0].learned
    assert curve[-1].held_out < share * curve[0].held_out
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert names == {"checkpoint.pt", "curve.csv", "curve.png"}


def test_resumed_is_as_if_never_stopped(tmp_path: Path) -> None:
    options = Options(task="links", hidden=4, seed=3)
    whole = train(periodic(), tmp_path / "whole", options, 4)
    train(periodic(), tmp_path / "parts", options, 2)
    assert train(periodic(), tmp_path / "parts", options, 4, resume=True) == whole
    text = [(tmp_path / name / "curve.csv").read_text() for name in ("whole", "parts")]
    assert text[0] == text[1]


def test_files_of_features_and_targets(tmp_path: Path) -> None:
    """The target is the feature of the tick before, unknown for one node."""
    graph = periodic()
    features = np.random.default_rng(0).normal(size=(graph.ticks, 6, 2)).astype(np.float32)
    targets = np.roll(features[:, :, 0], 1, axis=0)
    targets[:, 5] = np.nan
    np.save(tmp_path / "x.npy", features)
    np.save(tmp_path / "y.npy", targets)
    options = Options(features=str(tmp_path / "x.npy"), targets=str(tmp_path / "y.npy"), hidden=8, lr=0.03)
    curve = train(graph, tmp_path / "model", options, 25)
    assert np.isfinite(curve[-1].held_out)
    assert curve[-1].learned < curve[0].learned


def test_wrong_input(tmp_path: Path) -> None:
    graph, out = periodic(), tmp_path / "model"
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    with pytest.raises(HeadwayError, match=r"give numbers \[6, columns\]"):
        train(graph, out, Options(features=str(tmp_path / "x.npy")), 1)
    with pytest.raises(HeadwayError, match="targets are for --task nodes"):
        train(graph, out, Options(task="links", targets=str(tmp_path / "x.npy")), 1)
    with pytest.raises(HeadwayError, match="needs 3"):
        train(graph_of([(0, 1, 0)], 2), out, Options(), 1)
    with pytest.raises(HeadwayError, match="--resume out to begin"):
        train(graph, out, Options(), 1, resume=True)
    for wrong, what in (({"hidden": 0}, "--hidden 0"), ({"lr": 0.0}, "--lr"), ({"window": 0}, "--window 0")):
        with pytest.raises(HeadwayError, match=what):
            Options(**wrong)
    for wrong, what in (
        ({"task": "edges"}, "--task 'edges'; there are nodes and links"),
        ({"model": "gru"}, "--model"),
    ):
        with pytest.raises(HeadwayError, match=what):
            Options(**wrong)
    with pytest.raises(HeadwayError, match="device 'gpu'; there are auto, cpu and cuda"):
        train(graph, out, Options(), 1, device="gpu")
    train(graph, out, Options(), 1)
    with pytest.raises(HeadwayError, match="--resume to go on"):
        train(graph, out, Options(), 1)
    with pytest.raises(HeadwayError, match="has --hidden 32, not 8"):
        train(graph, out, Options(hidden=8), 2, resume=True)
    (out / "checkpoint.pt").write_bytes(b"no zip")
    with pytest.raises(HeadwayError, match="no checkpoint"):
        train(graph, out, Options(), 2, resume=True)


def test_the_command(tmp_path: Path) -> None:
    periodic().save(tmp_path / "graph")
    words = ("train", tmp_path / "graph", "-o", tmp_path / "model", "--hidden", "4")
    assert [line.partition(":")[0] for line in done(*words, "--epochs", "2").splitlines()] == ["epoch 1", "epoch 2"]
    assert done(*words, "--epochs", "3", "--resume").startswith("epoch 3: loss ")
    assert done(*words, "--epochs", "3", "--resume", "--quiet") == ""
    assert "--overwrite to begin anew" in refused(*words)


def test_the_command_says_where_it_computes_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a profile asks for all GPUs and none works: nobody waits for a GPU that isn't there."""
    monkeypatch.setattr(devices, "cuda_device", lambda: devices.Found(trouble="no NVIDIA driver"))
    periodic().save(tmp_path / "graph")
    words = ("train", tmp_path / "graph", "-o", tmp_path / "model", "--hidden", "4", "--epochs", "1", "--overwrite")
    for more, where in (
        (["--profile", "gpu-node"], "cpu: no NVIDIA driver"),
        (["--device", "cpu"], "cpu, as told"),
    ):
        assert headway(*words, *more).err.splitlines()[0] == f"trains on {where}"
    assert headway(*words, "--quiet").err == ""


def test_begun_anew_and_stopped(tmp_path: Path) -> None:
    """No curve of the run before lies beside the checkpoint of this one."""
    out = tmp_path / "model"
    train(periodic(), out, Options(hidden=4), 1)

    def stop(epoch: Epoch) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(periodic(), out, Options(hidden=4, seed=1), 2, overwrite=True, told=stop)
    assert [path.name for path in out.iterdir()] == ["checkpoint.pt"]


@pytest.mark.parametrize(("epochs", "way_out"), [(0, ""), (1, "; go on with --resume")])
def test_ctrl_c_says_whether_there_is_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epochs: int, way_out: str
) -> None:
    periodic().save(tmp_path / "graph")
    told: list[Epoch] = []

    def stop(*given: object) -> None:
        if len(told) == epochs:
            raise KeyboardInterrupt

    monkeypatch.setattr(progress.Counter, "advance", stop)
    monkeypatch.setattr(train_command, "_say", told.append)
    result = headway("train", tmp_path / "graph", "-o", tmp_path / "model", "--epochs", "3")
    assert (result.status, result.err.splitlines()[-1]) == (130, f"headway: interrupted{way_out}")
    assert (tmp_path / "model" / "checkpoint.pt").exists() == bool(epochs)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
def test_a_full_disk(tmp_path: Path) -> None:
    """One line, and the checkpoint of before."""
    out, beside = tmp_path / "model", tmp_path / "model" / "checkpoint.pt.tmp"
    out.mkdir()
    beside.symlink_to("/dev/full")
    with pytest.raises(HeadwayError, match=r"checkpoint.pt: No space left on device; make room, then begin again"):
        train(periodic(), out, Options(hidden=4), 1, overwrite=True)
    assert not list(out.iterdir())
    train(periodic(), out, Options(hidden=4), 1)
    held = (out / "checkpoint.pt").read_bytes()
    beside.symlink_to("/dev/full")
    with pytest.raises(HeadwayError, match="go on with --resume"):
        train(periodic(), out, Options(hidden=4), 2, resume=True)
    assert (out / "checkpoint.pt").read_bytes() == held


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("name", ["curve.csv", "curve.png"])
def test_a_disk_that_is_full_of_the_curve(tmp_path: Path, name: str) -> None:
    """One line, nothing half written, and all epochs are there."""
    out = tmp_path / "model"
    out.mkdir()
    (out / f"{name}.tmp").symlink_to("/dev/full")
    with pytest.raises(HeadwayError, match=f"^{out}: No space left on device; make room, then go on with --resume$"):
        train(periodic(), out, Options(hidden=4), 1, overwrite=True)
    assert not list(out.glob(f"{name}*"))
    assert len(train(periodic(), out, Options(hidden=4), 1, resume=True)) == 1
    assert sorted(left.name for left in out.iterdir()) == ["checkpoint.pt", "curve.csv", "curve.png"]


def test_what_a_killed_run_leaves_before_its_first_epoch(tmp_path: Path) -> None:
    """It is not in the way, and goes; what is somebody else's stays."""
    out = tmp_path / "model"
    (out / "parts").mkdir(parents=True)
    (out / "parts" / "0.npy").write_text("")
    (out / "checkpoint.pt.tmp").write_text("")
    train(periodic(), out, Options(hidden=4), 1)
    assert sorted(path.name for path in out.iterdir()) == ["checkpoint.pt", "curve.csv", "curve.png"]
    (tmp_path / "other" / "parts").mkdir(parents=True)
    (tmp_path / "other" / "letter.txt").write_text("")
    with pytest.raises(HeadwayError, match="--overwrite to begin anew"):
        train(periodic(), tmp_path / "other", Options(hidden=4), 1)


def test_features_that_do_not_change_are_read_once(tmp_path: Path) -> None:
    graph = periodic()
    np.save(tmp_path / "x.npy", np.arange(graph.nodes * 2).reshape(-1, 2))
    features = Features(graph, tmp_path / "x.npy", 0, torch.device("cpu"))
    one, other = (features(Snapshots(graph).of(graph.snapshot(tick))) for tick in (0, 1))
    assert one is other
    assert one.tolist() == np.arange(graph.nodes * 2).reshape(-1, 2).tolist()
