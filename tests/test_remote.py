"""Stores, queries and answers at URLs: the same bytes as on disk, whole or absent, resumed, or a refusal in a line."""

from __future__ import annotations

import errno
import multiprocessing
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import fsspec
import numpy as np
import pandas as pd
import pytest
from command import done, headway, refused, tiny_store
from headway.pipeline.sink import Objects
from headway.storage import remote
from headway.storage.errors import HeadwayError
from headway.storage.store import fingerprint, local
from s3 import BUCKET, nobody_listens, objects, s3_server, uploaded

import headway as hw

PROGRAM = Path(sys.executable).with_name("headway")
QUERIES = 200_000


@pytest.fixture(scope="module")
def s3(tmp_path_factory) -> Iterator[dict[str, str]]:
    with s3_server(tmp_path_factory.mktemp("cache")) as environment:
        yield environment


@pytest.fixture(scope="module")
def job(s3, tmp_path_factory) -> Path:
    """A store and queries for four parts, here and in the bucket, and answers on disk."""
    folder = tmp_path_factory.mktemp("remote")
    tiny_store(folder)
    random = np.random.default_rng(7)
    origin, departure = random.choice(list("ABCXSE?"), QUERIES), random.integers(25000, 36000, QUERIES)
    frame = pd.DataFrame({"origin": origin, "departure": departure})
    frame.to_parquet(folder / "q.parquet")
    pd.DataFrame({"stop": ["A", "B"], "jobs": [3, 4]}).to_csv(folder / "jobs.csv", index=False)
    for name in ("the.store", "q.parquet", "jobs.csv"):
        uploaded(folder / name)
    done(*words(folder, folder / "whole", folder / "jobs.csv"))
    return folder


def words(where: Path | str, output: Path | str, weights: Path | str = f"{BUCKET}/jobs.csv") -> tuple:
    """The command, with files on disk or at a URL."""
    reach = ("--answer", "reach", "--weights", weights, "-q", "-o", output)
    return ("query", f"{where}/the.store", f"{where}/q.parquet", *reach)


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_all_of_it_at_urls(job: Path, s3: dict[str, str]) -> None:
    done(*words(BUCKET, f"{BUCKET}/all/"))
    assert objects(f"{BUCKET}/all") == content(job / "whole")
    copies = Path(s3["XDG_CACHE_HOME"]) / "headway" / "stores"
    assert [copy.name for copy in copies.iterdir()] == [fingerprint(job / "the.store")]
    assert content(next(copies.iterdir())) == content(job / "the.store")


def test_one_query_of_a_store_at_a_url(job: Path) -> None:
    assert "8:20" in done("query", f"{BUCKET}/the.store", "--from", "A", "--at", "8:00", "--to", "C")


def test_info_stops_and_load_of_a_store_at_a_url(job: Path) -> None:
    """As of the one on disk; "no such store" was said before."""
    url, path = f"{BUCKET}/the.store", str(job / "the.store")
    assert done("info", url, "--json") == done("info", path, "--json")
    assert done("stops", url) == done("stops", path)
    assert hw.load(url).facts == hw.load(path).facts


def test_one_query_says_what_it_waits_for(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that has to be brought first."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("headway.pipeline.progress.PLAIN_EVERY", -1)
    result = headway("query", f"{BUCKET}/the.store", "--from", "A", "--at", "8:00")
    assert (result.status, result.err[: len(BUCKET) + 6]) == (0, f"bring {BUCKET}")


def test_no_room_for_a_part_on_its_way(tmp_path: Path) -> None:
    def full(file: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(HeadwayError, match=r"part-00000.parquet: No space left on device; make room, or set TMPDIR"):
        Objects(f"{BUCKET}/full", b"").write("part-00000.parquet", full)


def test_answers_on_disk(job: Path, tmp_path: Path) -> None:
    done(*words(BUCKET, tmp_path / "a"))
    assert content(tmp_path / "a") == content(job / "whole")


def bring(url: str) -> str:
    return str(local(url))


def test_a_store_is_brought_once(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of a node that ask at once find one copy, which stays as it is."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        (copy,) = set(pool.map(bring, [f"{BUCKET}/the.store"] * 3, 1))
    before = Path(copy).stat()
    said: list[str] = []
    assert local(f"{BUCKET}/the.store/", said.append) == Path(copy)
    assert said == []
    assert Path(copy).stat().st_ino == before.st_ino
    assert [path.name for path in Path(copy).parent.iterdir()] == [Path(copy).name]


def test_a_store_that_is_damaged(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the bucket; nothing of it stays here."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shutil.copytree(job / "the.store", tmp_path / "bad.store")
    array = tmp_path / "bad.store" / "profile.departure.npy"
    array = array if array.exists() else next((tmp_path / "bad.store").glob("*.npy"))
    spoilt = bytearray(array.read_bytes())
    spoilt[-1] ^= 1
    array.write_bytes(spoilt)
    url = uploaded(tmp_path / "bad.store")
    assert re.search(
        rf"{url}/{re.escape(array.name)}: damaged, its checksum", refused("query", url, "--from", "A", "--at", "8:00")
    )
    fsspec.filesystem("s3").rm(f"{url}/{array.name}")
    with pytest.raises(HeadwayError, match="nothing is there"):
        local(url)
    assert list((tmp_path / "headway" / "stores").iterdir()) == []


def stopped(output: str, monkeypatch: pytest.MonkeyPatch, part: int) -> dict[str, bytes]:
    """Interrupt a run while a part is on its way; what it leaves, others that were on their way too among it."""
    with monkeypatch.context() as patch:
        put = remote.put

        def stop(file: Path, url: str) -> None:
            if url.endswith(f"/part-{part:05}.parquet"):
                raise KeyboardInterrupt
            put(file, url)

        patch.setattr(remote, "put", stop)
        result = headway(*words(BUCKET, output))
    assert result.status == 130
    assert result.err.endswith("headway: interrupted; go on with --resume\n")
    return objects(output)


@pytest.mark.parametrize("part", [0, 2])
def test_resume(job: Path, monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    output = f"{BUCKET}/resumed{part}"
    left = stopped(output, monkeypatch, part)
    assert "job.json" in left
    assert "errors.parquet" not in left
    missing = {f"part-{k:05}.parquet" for k in range(4)} - left.keys()
    assert f"part-{part:05}.parquet" in missing
    assert "is unfinished; go on with --resume, or begin again with --overwrite" in refused(*words(BUCKET, output))
    other = [word for word in words(BUCKET, output) if word not in ("--weights", f"{BUCKET}/jobs.csv")]
    assert "was begun with other weights; begin again with --overwrite" in refused(*other, "--resume")
    written = []
    put = remote.put
    monkeypatch.setattr(remote, "put", lambda file, url: (written.append(url), put(file, url)))
    done(*words(BUCKET, output), "--resume")
    assert {url.rpartition("/")[2] for url in written if "/part-" in url} == missing
    assert objects(output) == content(job / "whole")


@pytest.mark.parametrize("damaged", [b"", b"\xff", b"[]", b"7"])
def test_a_job_that_is_damaged(job: Path, damaged: bytes) -> None:
    """Nobody knows what its parts are: they are made anew."""
    output = f"{BUCKET}/damaged{damaged.hex()}"
    for name in ("job.json", "part-00000.parquet"):
        fsspec.filesystem("s3").pipe_file(f"{output}/{name}", damaged)
    done(*words(BUCKET, output), "--resume")
    assert objects(output) == content(job / "whole")


def test_overwrite(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers stay unless told; a run that goes on with others' parts would mix them."""
    output = f"{BUCKET}/replaced"
    done(*words(BUCKET, output))
    assert f"{output} exists; name another output" in refused(*words(BUCKET, output))
    with fsspec.open(f"{output}/part-00000.parquet", "wb") as file:
        file.write(b"rubbish")
    done(*words(BUCKET, output), "--overwrite")
    assert objects(output) == content(job / "whole")
    fsspec.filesystem("s3").pipe_file(f"{output}/mine.txt", b"mine")
    assert "also holds 'mine.txt'; name another output" in refused(*words(BUCKET, output), "--overwrite")
    assert len(objects(output)) == len(content(job / "whole")) + 1


def test_answers_killed_while_they_are_replaced(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old parts never count as new ones, or as answers."""
    output = f"{BUCKET}/halfway"
    done(*words(BUCKET, output))
    with monkeypatch.context() as patch:
        patch.setattr(remote, "put", lambda file, url: (_ for _ in ()).throw(KeyboardInterrupt))
        removed = remote.remove

        def remove(urls) -> None:
            for url in urls:
                removed([url])
                if url.endswith("part-00001.parquet"):
                    raise KeyboardInterrupt

        patch.setattr(remote, "remove", remove)
        assert headway(*words(BUCKET, output), "--overwrite").status == 130
    assert set(objects(output)) == {"part-00002.parquet", "part-00003.parquet"}
    assert "is unfinished" in refused(*words(BUCKET, output))
    for number in (2, 3):
        fsspec.filesystem("s3").pipe_file(f"{output}/part-{number:05}.parquet", b"old")
    done(*words(BUCKET, output), "--resume")
    assert objects(output) == content(job / "whole")


def test_an_output_taken_over(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose place another one begins anew stops, and leaves it alone."""
    output = f"{BUCKET}/taken"
    write = Objects.write

    def overtaken(sink: Objects, name: str, make) -> None:
        if name == "part-00001.parquet":
            monkeypatch.setattr(Objects, "write", write)
            done(*words(BUCKET, output), "--overwrite")
        write(sink, name, make)

    monkeypatch.setattr(Objects, "write", overtaken)
    assert f"{output} is at work in another process, begun later" in refused(*words(BUCKET, output))
    assert objects(output) == content(job / "whole")


@pytest.mark.parametrize("moment", ["write", "publish"])
def test_an_output_taken_over_by_a_run_that_has_just_begun(
    job: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """What the other one has put there stays, be it only who it is."""
    output = f"{BUCKET}/begun-{moment}"
    mark = b'{"run": "another"}'
    act = getattr(Objects, moment)

    def overtaken(sink: Objects, *told) -> None:
        fsspec.filesystem("s3").pipe_file(f"{output}/job.json", mark)
        act(sink, *told)

    monkeypatch.setattr(Objects, moment, overtaken)
    assert f"{output} is at work in another process, begun later" in refused(*words(BUCKET, output))
    assert objects(output)["job.json"] == mark


def test_killed(job: Path) -> None:
    """SIGKILL after the first part; with --resume it ends as if nothing had been."""
    output = f"{BUCKET}/killed"
    slow = ("--algorithm", "connection", "--set", "threads=1")
    process = subprocess.Popen([PROGRAM, *map(str, words(BUCKET, output)), *slow], stderr=subprocess.PIPE, text=True)
    files = fsspec.filesystem("s3")
    for _ in range(600):
        files.invalidate_cache()
        if files.exists(f"{output}/part-00000.parquet"):
            break
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.kill()
    process.communicate()
    assert "job.json" in objects(output)
    done(*words(BUCKET, output), "--resume")
    assert objects(output) == content(job / "whole")


def test_wrong_urls(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def line(store: str = f"{BUCKET}/the.store", queries: str = f"{BUCKET}/q.parquet", output: str = "x") -> str:
        return refused("query", store, queries, "-o", f"{BUCKET}/{output}", "--answer", "reach")

    assert "s3://transit/no.store: no manifest.json there: not a store" in line(f"{BUCKET}/no.store")
    assert "s3://none/the.store: no manifest.json there" in line("s3://none/the.store")
    assert "s3://transit/no.csv: nothing is there; check the address" in line(queries=f"{BUCKET}/no.csv")
    assert "a .csv is made on this machine's disk" in line(output="a.csv")
    assert "gs://bucket/q.csv: nothing here reads gs://; pip install headway[gcs]" in line(queries="gs://bucket/q.csv")
    assert "nowhere://x: Protocol not known: nowhere" in line(queries="nowhere://x")
    (tmp_path / "bad.csv").write_text("from,departure\nA,8:00\n")
    url = uploaded(tmp_path / "bad.csv")
    assert f"headway: {url}: " in (said := line(queries=url))
    assert "origin" in said
    assert "x/" not in " ".join(fsspec.filesystem("s3").find(f"{BUCKET}/x"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", nobody_listens())
    fsspec.filesystem("s3").clear_instance_cache()
    assert re.search("s3://transit/x: Could not connect to the endpoint URL.*; check the address", line())
    monkeypatch.undo()
    fsspec.filesystem("s3").clear_instance_cache()


def test_a_cache_that_cannot_be_written(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of this machine is at fault, not the network."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(HeadwayError, match=r"file/headway.*: Not a directory; set TMPDIR and XDG_CACHE_HOME"):
        local(f"{BUCKET}/the.store")
