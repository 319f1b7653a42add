"""Interrupted, resumed and concurrent batches: the same bytes as an undisturbed run, or a refusal."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import done, headway, refused, tiny_store
from headway.pipeline import sink
from headway.pipeline.sink import Folder

PROGRAM = Path(sys.executable).with_name("headway")
QUERIES = 280_000


@pytest.fixture(scope="module")
def job(tmp_path_factory) -> Path:
    """A store, queries for three and for five parts with errors in each, and undisturbed answers."""
    folder = tmp_path_factory.mktemp("runs")
    tiny_store(folder)
    random = np.random.default_rng(7)
    origin, departure = random.choice(list("ABCXSE?"), QUERIES), random.integers(25000, 36000, QUERIES)
    frame = pd.DataFrame({"origin": origin, "departure": departure, "destination": "C"})
    frame.to_parquet(folder / "many.parquet")
    frame[:140_000].to_parquet(folder / "q.parquet")
    done(*words(folder, folder / "whole"))
    done(*words(folder, folder / "many", "many.parquet"))
    return folder


def words(folder: Path, output: Path, queries: str = "q.parquet") -> tuple:
    return ("query", folder / "the.store", folder / queries, "--answer", "od", "-q", "-o", output)


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def stopped(job: Path, output: Path, monkeypatch: pytest.MonkeyPatch, parts: int) -> Path:
    """Interrupt a run once so many parts are done; what it leaves."""
    with monkeypatch.context() as patch:
        whole = Folder.write

        def write(sink: Folder, name: str, make) -> None:
            if name == f"part-{parts:05}.parquet":
                (sink.path / f"{name}.tmp").write_text("half")
                raise KeyboardInterrupt
            whole(sink, name, make)

        patch.setattr(Folder, "write", write)
        result = headway(*words(job, output))
    assert (result.status, result.err) == (130, "headway: interrupted; go on with --resume\n")
    assert not output.exists()
    return output.with_name(output.name + ".partial")


@pytest.mark.parametrize("parts", [0, 2])
def test_resume_after_an_interruption(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    output = tmp_path / "a"
    partial = stopped(job, output, monkeypatch, parts)
    kept = {file.name: file.stat().st_mtime_ns for file in partial.glob("part-*.parquet")}
    assert len(kept) == parts
    assert "is unfinished; go on with --resume, or begin again with --overwrite" in refused(*words(job, output))
    done(*words(job, output), "--resume")
    assert content(output) == content(job / "whole")
    assert kept.items() <= {file.name: file.stat().st_mtime_ns for file in output.iterdir()}.items()
    assert list(tmp_path.iterdir()) == [output]


def test_interrupted_while_modules_are_imported() -> None:
    """The first half second of every command; it was a traceback."""
    stop = "class Stop:\n def find_spec(self, name, *_):\n  if name == 'numpy': raise KeyboardInterrupt\n"
    code = f"import sys\n{stop}sys.meta_path.insert(0, Stop())\nfrom headway.pipeline.start import main\nmain()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "headway: interrupted\n")


def test_what_needs_no_timetable_is_there_soon() -> None:
    """Help, versions and refusals load neither Numba nor pandas, which take a second."""
    code = "import headway.pipeline.cli, sys; print(sorted({'numba', 'pandas'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_interrupted_with_nothing_to_resume(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a batch begins, after it is published, and where there is only one query."""

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def after(*given: object) -> None:
        publish(*given)
        stop()

    publish = sink.publish
    one = ("query", job / "the.store", "--from", "A", "--at", "8:00")
    places = [("answering.answering", words(job, tmp_path / "a")), ("single.one_query", one)]
    for place, command in places:
        with monkeypatch.context() as patch:
            patch.setattr(f"headway.pipeline.{place}", stop)
            result = headway(*command)
        assert (result.status, result.err) == (130, "headway: interrupted\n")
        assert list(tmp_path.iterdir()) == []
    with monkeypatch.context() as patch:
        patch.setattr(sink, "publish", after)
        result = headway(*words(job, tmp_path / "a"))
    assert (result.status, result.err) == (130, "headway: interrupted\n")
    assert content(tmp_path / "a") == content(job / "whole")


@pytest.mark.parametrize("lost", ["part-00000.parquet", "errors-00000.parquet", "errors-00001.parquet", "job.json"])
def test_resume_without_a_file(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    """Whatever a run that was killed at its end had removed already."""
    (stopped(job, tmp_path / "a", monkeypatch, 2) / lost).unlink()
    done(*words(job, tmp_path / "a"), "--resume")
    assert content(tmp_path / "a") == content(job / "whole")


def test_overwrite_begins_again(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partial = stopped(job, tmp_path / "a", monkeypatch, 1)
    (partial / "part-00000.parquet").write_text("rubbish")
    done(*words(job, tmp_path / "a"), "--overwrite")
    done(*words(job, tmp_path / "a"), "--overwrite")
    assert content(tmp_path / "a") == content(job / "whole")
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


def test_resume_with_other_arguments(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other answers or queries are refused and nothing is lost; another algorithm gives the same bytes."""
    output = tmp_path / "a"
    partial = stopped(job, output, monkeypatch, 1)
    before = content(partial)
    base = words(job, output)
    assert "begun with other answer;" in refused(*base[:3], "-o", output, "--resume")
    assert "begun with other queries;" in refused(*words(job, output, "many.parquet"), "--resume")
    assert content(partial) == before
    done(*base, "--resume", "--algorithm", "connection-scan")
    assert content(output) == content(job / "whole")


def test_resume_with_nothing_to_resume(job: Path, tmp_path: Path) -> None:
    done(*words(job, tmp_path / "a"), "--resume")
    assert content(tmp_path / "a") == content(job / "whole")


def test_strangers_in_the_way(job: Path, tmp_path: Path) -> None:
    """Someone's own folder or file of that name stays."""
    (tmp_path / "a.partial").mkdir()
    (tmp_path / "a.partial" / "mine").write_text("mine")
    for option in ("--resume", "--overwrite", "-q"):
        assert "a.partial is in the way and holds 'mine'" in refused(*words(job, tmp_path / "a"), option)
    (tmp_path / "b.partial").write_text("mine")
    assert "b.partial" in refused(*words(job, tmp_path / "b"), "--overwrite")
    assert content(tmp_path / "a.partial") == {"mine": b"mine"}
    assert (tmp_path / "b.partial").read_text() == "mine"


def started(job: Path, output: Path, *more: str) -> subprocess.Popen:
    """A process that has finished a part, and has others to do."""
    command = [PROGRAM, *map(str, words(job, output, "many.parquet")), *more]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    first = output.with_name(output.name + ".partial") / "part-00000.parquet"
    deadline = time.monotonic() + 60
    while not first.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    return process


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_stopped_process(job: Path, tmp_path: Path, how: signal.Signals) -> None:
    output = tmp_path / "a"
    process = started(job, output)
    process.send_signal(how)
    _, said = process.communicate(timeout=60)
    if how == signal.SIGINT:
        assert (process.returncode, said) == (130, "headway: interrupted; go on with --resume\n")
    assert not output.exists()
    done(*words(job, output, "many.parquet"), "--resume")
    assert content(output) == content(job / "many")
    assert list(tmp_path.iterdir()) == [output]


def test_two_processes_on_one_output(job: Path, tmp_path: Path) -> None:
    """The second is refused while the first works, whatever it asks for."""
    output = tmp_path / "a"
    process = started(job, output)
    process.send_signal(signal.SIGSTOP)
    try:
        for option in ("--resume", "--overwrite", "-q"):
            line = refused(*words(job, output, "many.parquet"), option)
            assert "is at work in another process; wait for it or name another output" in line
    finally:
        process.send_signal(signal.SIGCONT)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert content(output) == content(job / "many")


def test_strict_keeps_what_is_finished(job: Path, tmp_path: Path) -> None:
    """A bad query in the second part stops the run; the first part was thrown away with it."""
    frame = pd.read_parquet(job / "q.parquet")
    good = frame.assign(origin="A")
    good.loc[70_000, "origin"] = "?"
    good.to_parquet(job / "late.parquet")
    output = tmp_path / "a"
    assert "row 70001: unknown origin '?'" in refused(*words(job, output, "late.parquet"), "--strict")
    part = output.with_name("a.partial") / "part-00000.parquet"
    before = part.stat().st_mtime_ns
    done(*words(job, output, "late.parquet"), "--resume")
    assert (output / part.name).stat().st_mtime_ns == before
    done(*words(job, tmp_path / "b", "late.parquet"))
    assert content(output) == content(tmp_path / "b")
