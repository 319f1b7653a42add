"""Batches on actors of Ray: the same bytes as in process, whoever is killed, and poisoned queries among the errors."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from command import done, headway, tiny_store
from headway.cluster.devices import cuda_device
from headway.cluster.ray import actors
from headway.pipeline import sharded
from headway.pipeline.asked import Answer, asked_for
from headway.pipeline.query import run_queries
from headway.pipeline.settings import Settings
from headway.pipeline.sharded import Replica, Sharded
from headway.storage.errors import HeadwayError
from headway.storage.store import fingerprint, load
from replicas import Mapped, Poisoned, Slow

QUERIES = 150_000
PROGRAM = Path(sys.executable).with_name("headway")
RAY = ("--set", "query.workers=ray", "--set", "threads=1")
ONE = (*RAY, "--set", "query.count=1")


@pytest.fixture(scope="module")
def job(tmp_path_factory) -> Path:
    """A store, queries for three parts with errors in each, fewer of them, and undisturbed answers in process."""
    folder = tmp_path_factory.mktemp("sharded")
    tiny_store(folder)
    random = np.random.default_rng(7)
    origin, departure = random.choice(list("ABCXSE?"), QUERIES), random.integers(25000, 36000, QUERIES)
    frame = pd.DataFrame({"origin": origin, "departure": departure, "destination": "C"})
    frame.to_parquet(folder / "q.parquet")
    frame[:5000].to_parquet(folder / "few.parquet")
    for kind in ("arrivals", "od", "reach"):
        done(*words(folder, folder / kind, kind), "--set", "threads=1")
    done(*words(folder, folder / "few", "reach", "few.parquet"))
    return folder


def words(folder: Path, output: Path, kind: str, queries: str = "q.parquet") -> tuple:
    return ("query", folder / "the.store", folder / queries, "--answer", kind, "-q", "-o", output)


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def store_in_memory(smaps: str, job: Path) -> dict[tuple[str, str], dict[str, str]]:
    """Of each file of the store, by path and inode: what the system says of its part of a process's memory."""
    found, here = {}, {}
    for line in smaps.splitlines():
        if mapped := re.match(r"[0-9a-f]+-[0-9a-f]+ (\S+) \S+ \S+ (\d+)\s*(.*)", line):
            here = {"perms": mapped[1]}
            if mapped[3].startswith(str(job / "the.store")):
                found[mapped[3], mapped[2]] = here
        else:
            key, _, value = line.partition(":")
            here[key] = value.split()[0] if value.split() else ""
    return found


def answer(job: Path, output: Path, replica: type[Replica], queries: str, kind: str, **given) -> None:
    """Answer a file on two actors of a kind."""
    store = load(job / "the.store")
    asked = asked_for(store, kind, None, None)
    mark = fingerprint(job / "the.store")
    made = replica(job / "the.store", mark, asked, "edge-profile", Settings(), **given)
    with actors("ray", 2, False, 1, made) as pool:
        run_queries(store, Sharded(store, pool, asked), job / queries, output, asked, fingerprint=mark)


def run(job: Path, output: Path) -> subprocess.Popen:
    """The command in a session of its own, slow enough to be caught in the middle."""
    command = [PROGRAM, *words(job, output, "od"), *RAY, "--algorithm", "connection"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*map(str, command)], start_new_session=True, **pipes)


def begun(output: Path, process: subprocess.Popen) -> None:
    """Wait for the first part."""
    part = output.with_name(output.name + ".partial") / "part-00000.parquet"
    for _ in range(1200):
        if part.exists():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("no part was written")


def started_by(process: subprocess.Popen) -> list[int]:
    """What it runs: daemons and actors. Ray's agents of a killed daemon try to tell it so for a minute, then go."""
    found, more = [], [process.pid]
    while more:
        children = Path(f"/proc/{more[0]}/task").glob("*/children")
        new = [int(child) for file in children for child in file.read_text().split()]
        found += [pid for pid in new if "Agent" not in Path(f"/proc/{pid}/cmdline").read_text()]
        more = more[1:] + new
    return found


def gone(pids: list[int]) -> None:
    """Wait for all of them to end."""
    for _ in range(300):
        left = [pid for pid in pids if state(pid) != "Z"]
        if not left:
            return
        time.sleep(0.1)
    raise AssertionError(f"{left} of {pids} are left")


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


@pytest.mark.usefixtures("_ray")
class TestSharded:
    @pytest.mark.parametrize("kind", ["arrivals", "od", "reach"])
    def test_same_bytes_as_in_process(self, job: Path, tmp_path: Path, kind: str) -> None:
        """Chunks begin small and become whole parts; arrivals stay chunks."""
        done(*words(job, tmp_path / "a", kind), *RAY)
        assert content(tmp_path / "a") == content(job / kind)

    @pytest.mark.parametrize("kind", ["arrivals", "reach"])
    def test_same_bytes_from_small_chunks(
        self, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        monkeypatch.setattr(sharded, "SECONDS", 0.02)
        answer(job, tmp_path / "a", Replica, "q.parquet", kind)
        assert content(tmp_path / "a") == content(job / kind)

    def test_one_copy_of_the_store(self, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Actors of a machine map the same files, and have no page of them for themselves."""
        monkeypatch.setattr(sharded, "SECONDS", 0.02)
        answer(job, tmp_path / "a", Mapped, "q.parquet", "reach", notes=tmp_path)
        first, second = (store_in_memory(note.read_text(), job) for note in tmp_path.glob("[0-9]*"))
        assert first.keys() == second.keys()
        arrays = {path.name for path in (job / "the.store").glob("*.npy") if path.stat().st_size > 128}
        assert {Path(file).name for file, _ in first} >= arrays
        for mine, theirs in zip(first.values(), second.values(), strict=True):
            assert mine["perms"] == theirs["perms"] == "r--s"
            assert mine["Private_Dirty"] == theirs["Private_Dirty"] == "0"

    def test_says_why_there_is_no_gpu(self, job: Path, tmp_path: Path) -> None:
        """Before the work and after it, in a line each; nobody is told who asked for the CPU."""
        if not (nothing_there := cuda_device().trouble):
            pytest.skip("there is a GPU")
        for options, lines in (((), 2), (("--device", "cpu"), 1), (("--algorithm", "connection-scan"), 2)):
            loud = [word for word in words(job, tmp_path / "a", "reach", "few.parquet") if word != "-q"]
            said = headway(*loud, *ONE, "--overwrite", *options)
            assert said.status == 0
            trouble = "algorithm connection-scan is for the CPU" if "--algorithm" in options else nothing_there
            assert (f"headway: query.workers ray: {trouble}; the CPU answers\n" in said.err) == (lines == 2)
            assert (f"each (cpu: {trouble})\n" in said.err) == (lines == 2)

    def test_nothing_to_answer(self, job: Path, tmp_path: Path) -> None:
        for name, text in (("none", ""), ("bad", "?,8:00\n")):
            (tmp_path / f"{name}.csv").write_text(f"origin,departure\n{text}")
            for output, options in (("a", ()), ("b", ONE)):
                done("query", job / "the.store", tmp_path / f"{name}.csv", "-o", tmp_path / (name + output), *options)
            assert content(tmp_path / f"{name}a") == content(tmp_path / f"{name}b")

    def test_killed_actors(self, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two of them in the middle of a batch (SIGKILL); others take over."""
        notes = tmp_path / "notes"
        notes.mkdir()
        killed: set[int] = set()
        advance = Sharded._adapt

        def adapt(self: Sharded, rate: float) -> None:
            advance(self, rate)
            alive = {int(note.name) for note in notes.iterdir()} - killed
            if len(killed) < 2 and alive:
                killed.add(min(alive))
                os.kill(min(alive), signal.SIGKILL)

        monkeypatch.setattr(Sharded, "_adapt", adapt)
        answer(job, tmp_path / "a", Slow, "q.parquet", "reach", notes=notes)
        assert content(tmp_path / "a") == content(job / "reach")
        assert len(killed) == 2
        assert len(list(notes.iterdir())) >= 3

    def test_poisoned_queries(
        self, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
    ) -> None:
        """They end among the errors, all others are answered; nothing is said of what died."""
        for name, value in (("FIRST", 4), ("LEAST", 4), ("SECONDS", 0)):  # bisected twice
            monkeypatch.setattr(sharded, name, value)
        whole = pq.read_table(job / "few" / "part-00000.parquet").to_pandas()
        poison = tuple(int(number) for number in whole["query_id"].unique()[[10, 300]])
        answer(job, tmp_path / "a", Poisoned, "few.parquet", "reach", poison=poison)
        found = pq.read_table(tmp_path / "a" / "part-00000.parquet").to_pandas()
        pd.testing.assert_frame_equal(found, whole[~whole["query_id"].isin(poison)].reset_index(drop=True))
        before, after = (pq.read_table(path / "errors.parquet").to_pylist() for path in (job / "few", tmp_path / "a"))
        assert after[: len(before)] == before
        assert [(row["query_id"], row["error"]) for row in after[len(before) :]] == [
            (number, "the process that answered it died, twice; the other queries are answered") for number in poison
        ]
        assert capfd.readouterr() == ("", "")

    def test_too_many_poisoned_queries(self, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sharded, "MOST_LOST", 1)
        (tmp_path / "q.csv").write_text("origin,departure\n" + "A,8:00\n" * 2)
        with pytest.raises(
            HeadwayError, match=r"more than 1 queries killed the processes that answered them.*--resume"
        ):
            answer(job, tmp_path / "a", Poisoned, str(tmp_path / "q.csv"), "reach", poison=(0, 1))

    def test_another_store_there(self, job: Path) -> None:
        made = Replica(job / "the.store", "other", Answer("od"), "edge-profile", Settings())
        with pytest.raises(
            HeadwayError, match=r"the.store: a node has another store there; copy the same to all of them"
        ):
            actors("ray", 1, False, 1, made).__enter__()

    def test_killed_driver(self, job: Path, tmp_path: Path) -> None:
        """Its actors and Ray's daemons go with it; what was finished is kept."""
        output = tmp_path / "a"
        process = run(job, output)
        begun(output, process)
        theirs = started_by(process)
        assert len(theirs) >= 3
        process.kill()
        process.communicate()
        gone(theirs)
        assert not output.exists()
        first = output.with_name("a.partial") / "part-00000.parquet"
        kept = first.stat().st_mtime_ns
        done(*words(job, output, "od"), *RAY, "--resume")
        assert content(output) == content(job / "od")
        assert (output / first.name).stat().st_mtime_ns == kept


def test_ctrl_c(job: Path, tmp_path: Path) -> None:
    """It reaches a terminal's whole process group: one line, soon, and nothing is left running."""
    output = tmp_path / "a"
    process = run(job, output)
    begun(output, process)
    theirs = started_by(process)
    os.killpg(process.pid, signal.SIGINT)
    began = time.monotonic()
    assert process.communicate(timeout=60) == ("", "headway: interrupted; go on with --resume\n")
    assert time.monotonic() - began < 20
    assert process.returncode == 130
    gone(theirs)
    assert (output.with_name("a.partial") / "part-00000.parquet").exists()
