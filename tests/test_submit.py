"""`headway submit`: jobs of a Ray cluster with files in a bucket, followed, left, stopped, and gone on with."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import fsspec
import numpy as np
import pandas as pd
import pytest
import typer
from command import done, refused, tiny_store
from headway.cluster.jobs import Job, _Output
from headway.pipeline.cli import app
from headway.pipeline.submit_command import _entrypoint
from headway.storage.errors import HeadwayError
from s3 import BUCKET, nobody_listens, objects, s3_server, uploaded

BIN = Path(sys.executable).parent
SLOW = ("--algorithm", "connection", "--set", "threads=1")


@pytest.fixture(scope="module")
def job(tmp_path_factory) -> Iterator[Path]:
    """A store and queries for three parts in a bucket, and answers on disk."""
    folder = tmp_path_factory.mktemp("submit")
    with s3_server(folder / "cache"):
        tiny_store(folder)
        random = np.random.default_rng(7)
        frame = pd.DataFrame(
            {"origin": random.choice(list("ABCX?"), 150_000), "departure": random.integers(25000, 36000, 150_000)}
        )
        frame.to_parquet(folder / "q.parquet")
        uploaded(folder / "the.store")
        uploaded(folder / "q.parquet")
        done(*words(folder, folder / "whole"))
        yield folder


@pytest.fixture(scope="module")
def head(job: Path) -> Iterator[dict[str, str]]:
    """A Ray with a dashboard and a token of its own; the environment of its users."""
    folder = Path(tempfile.mkdtemp(prefix="hw"))  # names of sockets must be short
    (folder / "token").write_text("f" * 64)
    ports = []
    for _ in range(3):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            ports.append(str(free.getsockname()[1]))
    environment = os.environ | {
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(folder / "token"),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    command = [BIN / "ray", "start", "--head", "--block", "--num-cpus=2", "--include-dashboard=true"]
    command += ["--node-ip-address=127.0.0.1", f"--temp-dir={folder}", "--object-store-memory=200000000"]
    command += [f"--port={ports[0]}", f"--dashboard-port={ports[1]}", f"--ray-client-server-port={ports[2]}"]
    command += ["--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0"]
    log = (folder / "log").open("w+")
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        while "runtime started" not in (folder / "log").read_text():
            assert process.poll() is None, (folder / "log").read_text()
            time.sleep(0.1)
        yield environment | {"RAY_API_SERVER_ADDRESS": f"http://127.0.0.1:{ports[1]}"}
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def words(where: Path | str, output: Path | str) -> tuple:
    return ("query", f"{where}/the.store", f"{where}/q.parquet", "--answer", "reach", "-o", output)


def submit(head: dict[str, str], *said: object, **options) -> subprocess.Popen:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([BIN / "headway", "submit", *map(str, said)], env=head, **pipes, **options)


def actors_of(head: dict[str, str]) -> list[int]:
    """Processes of this cluster's actors."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"_Worker" in (place / "cmdline").read_bytes():
                mine = f"RAY_AUTH_TOKEN_PATH={head['RAY_AUTH_TOKEN_PATH']}\0".encode()
                found += [int(place.name)] if mine in (place / "environ").read_bytes() else []
    return found


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_same_bytes_as_in_process(head: dict[str, str], job: Path) -> None:
    """Its log comes here, without what Ray adds; actors are the cluster's, though the profile says local ones."""
    process = submit(head, *words(BUCKET, f"{BUCKET}/a"), "--profile", "gpu-node")
    out, err = process.communicate()
    assert (process.returncode, out) == (0, ""), err
    first, *lines = err.splitlines()
    assert re.fullmatch(r"job raysubmit_\w+ at http://127.0.0.1:\d+", first)
    assert "headway: query.workers auto: no node of the cluster that is there has a GPU; the CPU answers" in lines
    assert re.fullmatch(rf"{BUCKET}/a: 150,000 queries, .* of them errors .* on 1 Ray actor, .*", lines[-1])
    assert not [line for line in lines if "INFO" in line or "entrypoint" in line]
    assert objects(f"{BUCKET}/a") == content(job / "whole")


def test_paths_of_the_cluster(head: dict[str, str], job: Path, tmp_path: Path) -> None:
    """A job that fails ends here with its line and its status."""
    process = submit(head, "--", *words(job, tmp_path / "none" / "a"))
    out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    line = f"headway: {tmp_path}/none/a: the folder {tmp_path}/none does not exist; create it first"
    assert err.splitlines()[1:] == [line]


def test_left_stopped_and_gone_on_with(head: dict[str, str], job: Path) -> None:
    """Ctrl-C leaves the job; who stops it by the command that was named can go on."""
    output = f"{BUCKET}/left"
    process = submit(head, *words(BUCKET, output), *SLOW, start_new_session=True)
    files = fsspec.filesystem("s3")
    for _ in range(1200):
        files.invalidate_cache()
        if files.exists(f"{output}/part-00000.parquet"):
            break
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    paused = [pid for pid in actors_of(head) if not os.kill(pid, signal.SIGSTOP)]  # or the job is over too soon
    assert paused
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    *_, way, last = err.splitlines()
    assert last == "headway: interrupted"
    follow, stop = re.fullmatch(r"headway: job \w+ goes on: `(.*)`, `(.*)`", way).groups()  # type: ignore[union-attr]
    follower = subprocess.Popen([BIN / "ray", *shlex.split(follow)[1:]], env=head, stdout=subprocess.DEVNULL)
    assert subprocess.run([BIN / "ray", *shlex.split(stop)[1:]], env=head, capture_output=True).returncode == 0
    follower.communicate(timeout=60)
    left = objects(output)
    assert "job.json" in left
    assert "errors.parquet" not in left
    again = submit(head, *words(BUCKET, output), "--resume")
    _, err = again.communicate()
    assert again.returncode == 0, err
    assert objects(output) == content(job / "whole")


def test_stopped_while_it_is_followed(head: dict[str, str]) -> None:
    process = submit(head, *words(BUCKET, f"{BUCKET}/stopped"), *SLOW)
    assert process.stderr is not None
    name = process.stderr.readline().split()[1]
    subprocess.run([BIN / "ray", "job", "stop", name], env=head, capture_output=True, check=True)
    _, err = process.communicate()
    assert process.returncode == 2
    assert err.splitlines()[-1] == f"headway: job {name} was stopped; go on with --resume"


def test_a_cluster_that_takes_no_jobs(head: dict[str, str], job: Path) -> None:
    process = submit(head | {"RAY_AUTH_MODE": "disabled"}, *words(BUCKET, f"{BUCKET}/b"))
    assert re.fullmatch(r"headway: --address \S+: Ray asks for its token: RAY_AUTH_MODE=.*\n", process.communicate()[1])
    assert process.returncode == 2
    bucket = os.environ["AWS_ENDPOINT_URL"]
    assert f"{bucket}: no Ray cluster that takes jobs" in refused("submit", "--address", bucket, *words("/x", "/y"))
    nobody = nobody_listens()
    line = refused("submit", "--address", nobody, *words("/x", "/y"))
    assert line == f"headway: --address {nobody}: no Ray cluster answers there; see docs/cloud.md"


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (("--address", "head:8265", *words("/x", "/y")), "--address head:8265: write the URL of Ray's dashboard"),
        (("--address", "http://", *words("/x", "/y")), "--address http://: write the URL of Ray's dashboard"),
        (words("x", "/y"), "x/the.store: write where the cluster finds it, s3://bucket/... or a path from / on"),
        ((*words("/x", "/y"), "--profile", "my.yaml"), "my.yaml: write where the cluster finds it"),
        ((*words("/x", "/y"), "--anser", "od"), "No such option: --anser"),
        (("build", "feed.zip", "-o", "x"), "a cluster takes query; run other commands where the files are"),
        ((), "Missing argument"),
    ],
)
def test_wrong_words_are_not_sent(said: tuple, line: str) -> None:
    assert line in refused("submit", *said)


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (None, "headway: the cluster has no headway, this is headway 0.1.0; install the same there\n"),
        ("headway 0.0.9", "headway: the cluster has headway 0.0.9, this is headway 0.1.0; install the same there\n"),
        ("headway 0.1.0", ""),
    ],
)
def test_another_version_there(tmp_path: Path, there: str | None, said: str) -> None:
    """What the shell of a cluster's head makes of it; words stay as they are."""
    if there is not None:
        (tmp_path / "headway").write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo {there} || printf "%s|" "$@"\n')
        (tmp_path / "headway").chmod(0o755)
    line = _entrypoint(typer.main.get_command(app), [*words("/a b", "/$y")])
    ended = subprocess.run(["/bin/sh", "-c", line], env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (2 if said else 0, said)
    sent = ["query", "--set", "query.workers=auto", *words("/a b", "/$y")[1:]]
    assert ended.stdout == ("" if said else "".join(f"{word}|" for word in sent))


@pytest.mark.parametrize(
    ("status", "code", "ends"),
    [
        ("SUCCEEDED", 0, 0),
        ("FAILED", 2, 2),
        ("FAILED", 137, 137),
        ("FAILED", -9, "job j failed: The driver was killed.; go on with --resume"),
        ("FAILED", None, "job j failed: The driver was killed.; go on with --resume"),
        ("STOPPED", None, "job j was stopped; go on with --resume"),
    ],
)
def test_how_a_job_ends(status: str, code: int | None, ends: int | str) -> None:
    info = SimpleNamespace(status=status, driver_exit_code=code, message="The driver was killed.\nMore of it")
    job = SimpleNamespace(name="j")
    if isinstance(ends, int):
        assert Job._status(job, info) == ends  # type: ignore[arg-type]
    else:
        with pytest.raises(HeadwayError, match=f"^{re.escape(ends)}$"):
            Job._status(job, info)  # type: ignore[arg-type]


def test_output_that_comes_again() -> None:
    """After a lost connection it is sent from its beginning, cut anywhere; each line is shown once."""
    shown: list[str] = []
    output = _Output(shown.append)
    text = "2026-11-30 20:55:09,897\tINFO job_manager.py:581 -- Runtime env is set up.\none\ntwo\nthree\n"
    for sent in (text[:90], text[:40], text):
        output.again()
        for at in range(0, len(sent), 7):
            output.add(sent[at : min(at + 7, len(sent))])
    assert shown == ["one", "two", "three"]


@pytest.mark.parametrize("whole", ["one\ntwo\n", "one\ntwo", "one\n", ""])
def test_a_last_line_without_an_end(whole: str) -> None:
    """Of whatever the shell of the cluster says last; nothing comes after it."""
    shown: list[str] = []
    output = _Output(shown.append)
    output.add(whole[:5])
    output.last(whole)
    assert shown == whole.splitlines()
