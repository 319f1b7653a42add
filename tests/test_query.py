"""Batches: what files may hold, the same bytes from every engine, and a run killed at each of its steps."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Barrier
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from conftest import build
from headway.pipeline.answers import answer
from headway.pipeline.asked import Answer, Weights, asked_for, weights_of
from headway.pipeline.cpu import CpuEngine
from headway.pipeline.engines import ALGORITHMS, Engine, Piece
from headway.pipeline.parts import Advance, Found, Lost, Part, in_process
from headway.pipeline.query import run_queries
from headway.pipeline.query_file import Queries, open_queries
from headway.pipeline.unfinished import replace
from headway.storage.errors import HeadwayError
from headway.storage.store import Store
from hypothesis import given
from hypothesis import strategies as st

DAY = 86_400
FEED = {
    "stops.txt": "stop_id,stop_name,stop_lat,stop_lon,location_type,parent_station\n"
    "A,Alpha,52,13,,S\nB,Beta,52,14,,\nC,Gamma,52,15,,\nD,Delta,53,15,,\nS,Central,52,13,1,\nX,Lone,52,13,1,\n",
    "trips.txt": "route_id,service_id,trip_id\nR,D,t1\nR,D,t2\n",
    "stop_times.txt": "trip_id,arrival_time,departure_time,stop_id,stop_sequence\n"
    "t1,8:00:00,8:00:00,A,1\nt1,8:10:00,8:10:00,B,2\nt1,8:30:00,8:30:00,C,3\n"
    "t2,9:00:00,9:00:00,A,1\nt2,9:10:00,9:10:00,B,2\n",
    "calendar_dates.txt": "service_id,date,exception_type\nD,20260610,1\n",
}


def write_files(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_text(content)
    return folder


@pytest.fixture(scope="module")
def feed(tmp_path_factory) -> Path:
    return write_files(tmp_path_factory.mktemp("feeds") / "town", FEED)


@pytest.fixture(scope="module")
def store(feed: Path) -> Store:
    return build([feed])


@pytest.fixture(scope="module")
def engine(store: Store) -> CpuEngine:
    return CpuEngine(store)


@pytest.fixture
def ask(store: Store, engine: Engine, tmp_path: Path):
    """Answer queries, a path or the text of a CSV file, into a new output; returns its path."""
    count = iter(range(1000))

    def run(queries: str | Path, kind: str = "arrivals", output: str | None = None, **options) -> Path:
        if isinstance(queries, str):
            path = tmp_path / f"queries{next(count)}.csv"
            path.write_text(queries)
            queries = path
        out = tmp_path / (output or f"answers{next(count)}")
        asked = options.pop("asked", None) or asked_for(store, kind, options.pop("cutoffs", None), None)
        options = {"fingerprint": "f", "threads": 1, "engine": engine} | options
        answered = in_process(store, options.pop("engine"), asked, options.pop("threads"))
        run_queries(store, answered, queries, out, asked, **options)
        return out

    return run


def read(folder: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(part) for part in sorted(folder.glob("part-*.parquet"))])


def errors(folder: Path) -> list[tuple[int | None, str]]:
    table = pq.read_table(folder / "errors.parquet")
    assert table.schema.equals(pa.schema([("query_id", pa.int64()), ("error", pa.string())]))
    return [(row["query_id"], row["error"]) for row in table.to_pylist()]


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def refused(call, *words: str) -> None:
    with pytest.raises(HeadwayError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    assert all(word in text for word in words), text


# What is written


def test_bad_rows_of_numbers(ask, tmp_path: Path) -> None:
    """Parquet with integers, floats and nulls: the same rules."""
    ids, origins = [1, None, 1, 2, 3, 4, 5, 6], ["A", "A", "A", None, "A", "A", "A", "A"]
    for kind, leave in (
        (pa.int64(), [0, 0, 0, 0, -1, None, 2**40, 2 * DAY]),
        (pa.float64(), [0.0, 0.0, 0.0, 0.0, -1.0, 0.5, float("nan"), 2.0 * DAY]),
    ):
        path = tmp_path / f"{kind}.parquet"
        table = {"query_id": pa.array(ids, pa.int64()), "origin": origins, "departure": pa.array(leave, kind)}
        pq.write_table(pa.table(table), path)
        out = ask(path)
        assert set(read(out)["query_id"].to_pylist()) == {1}
        assert [number for number, _ in errors(out)] == [None, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint64(), pa.float64(), pa.string(), pa.dictionary(pa.int8(), pa.string())]
)
def test_types_of_query_id(ask, tmp_path: Path, kind: pa.DataType) -> None:
    path = tmp_path / "queries.parquet"
    text = pa.array(["3", "1", "2"])
    ids = text.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else text.cast(kind)
    pq.write_table(pa.table({"departure": [0, 0, 0], "query_id": ids, "origin": ["D"] * 3}), path)
    assert read(ask(path))["query_id"].to_pylist() == [3, 1, 2]


def test_too_large_unsigned_ids_are_errors(ask, tmp_path: Path) -> None:
    path = tmp_path / "queries.parquet"
    pq.write_table(
        pa.table({"query_id": pa.array([2**63, 5], pa.uint64()), "origin": ["D", "D"], "departure": [1, 1]}), path
    )
    out = ask(path)
    assert read(out)["query_id"].to_pylist() == [5]
    assert errors(out) == [(None, "row 1: the query_id is null or no integer")]


def test_csv_as_people_write_it(ask) -> None:
    """BOM, CRLF, blanks, quotes, columns in any order, columns of others, blank lines."""
    text = '\ufeff departure , note,"origin"\r\n 08:00 ,"x, y", A \r\n\r\n28800,,"B"\r\n'
    assert set(read(ask(text))["origin"].to_pylist()) == {"A", "B"}


@pytest.mark.parametrize("kind", ["arrivals", "od", "reach"])
def test_algorithms_and_threads_write_the_same_bytes(ask, store: Store, kind: str) -> None:
    random = np.random.default_rng(5)
    text = "origin,destination,departure\n" + "".join(
        f"{random.choice(list('ABCDSX'))},{random.choice(list('ABCDSX'))},{random.integers(25_000, 35_000)}\n"
        for _ in range(300)
    )
    found = [
        content(ask(text, kind, engine=CpuEngine(store, name), threads=threads))
        for name in sorted(ALGORITHMS)
        for threads in (1, 2)
    ]
    assert all(other == found[0] for other in found[1:])


def test_pieces_do_not_show_in_the_answers(store: Store, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    places = np.arange(6, dtype=np.int32)
    queries = Queries(np.arange(6), places, places[::-1].copy(), np.full(6, 20_000, np.int32))
    for asked in (Answer("arrivals"), Answer("od"), Answer("reach", np.array([60, 6000], np.int32), Weights())):
        whole = pa.concat_tables(answer(store, engine, queries, asked, 1, lambda rows: None))
        for size in (1, 4, 5):
            for name, value in (("FEWEST", size), ("MOST", size), ("CELLS", size * 4)):
                monkeypatch.setattr(f"headway.pipeline.cpu.{name}", value)
            assert pa.concat_tables(answer(store, engine, queries, asked, 2, lambda rows: None)).equals(whole)


@pytest.mark.filterwarnings("error")
def test_weights_of_any_size(store: Store, engine: Engine) -> None:
    """Sums don't depend on the order of stops; numbers that can't be added up are refused."""
    stops = store.stops
    queries = Queries(np.arange(1), np.zeros(1, np.int32), np.zeros(1, np.int32), np.full(1, 20_000, np.int32))
    (_, compute), *_ = engine.pieces(queries, Answer("arrivals"))
    reached = np.flatnonzero(compute()[0, : len(stops)] != 2**31 - 1).tolist()
    assert len(reached) > 1
    for scale in (1e-300, 0.1, 1.0, 2.0**51, 1e300):
        table = pa.table({"stop": stops, "jobs": [scale * (k + 1) for k in range(len(stops))]})
        asked = Answer("reach", np.array([10**6], np.int32), weights_of(table, "weights", store))
        row = pa.concat_tables(answer(store, engine, queries, asked, 1, lambda rows: None)).to_pylist()[0]
        assert row["jobs"] == pytest.approx(sum(scale * (k + 1) for k in reached), rel=1e-15)
    table = pa.table({"stop": stops, "jobs": [1.7e308] * len(stops)})
    refused(lambda: weights_of(table, "weights", store), "too large to be added up; scale them down")


# Outputs in the way


def test_existing_csv(ask, tmp_path: Path) -> None:
    """Neither the answers nor the errors of another run are replaced unasked."""
    text = "origin,departure\nA,8:00\n"
    (tmp_path / "x.errors.csv").write_text("mine")
    refused(lambda: ask(text, output="x.csv"), "x.errors.csv exists", "--overwrite")
    ask(text, output="x.csv", overwrite=True)
    (tmp_path / "x.errors.csv").unlink()
    refused(lambda: ask(text, output="x.csv"), "x.csv exists", "--overwrite")


def test_overwrite_replaces_nothing_but_answers(ask, tmp_path: Path) -> None:
    """A file, a folder of other things, answers with a note beside them, the queries: all stay as they are."""
    text = "origin,departure\nA,8:00\n"
    (tmp_path / "file").write_text("mine")
    write_files(tmp_path / "folder", {"note.txt": "mine"})
    write_files(tmp_path / "folder.csv", {"note.txt": "mine"})
    ask(text, output="noted")
    (tmp_path / "noted" / "note.txt").write_text("mine")
    for name in ("file", "folder", "folder.csv", "noted"):
        refused(lambda name=name: ask(text, output=name, overwrite=True), name, "it is not replaced")
    queries = tmp_path / "q.csv"
    queries.write_text(text)
    refused(lambda: ask(queries, output="q.csv", overwrite=True), "q.csv is the file of queries")
    assert queries.read_text() == text
    assert (tmp_path / "file").read_text() == "mine"
    for name in ("folder", "folder.csv", "noted"):
        assert (tmp_path / name / "note.txt").read_text() == "mine"
    assert not list(tmp_path.glob("*.partial")) + list(tmp_path.glob(".*"))


def test_bad_input_leaves_nothing(ask, tmp_path: Path) -> None:
    """After the header is mended the same command works, without --resume or --overwrite."""
    refused(lambda: ask("from,departure\nA,8:00\n", output="out"), "row 1", "no column origin")
    assert not list(tmp_path.glob("out*"))
    ask("origin,departure\nA,8:00\n", output="out")


# Stopped runs; parts of nine queries


QUERIES = "query_id,origin,departure,destination\n" + "".join(
    f"{100 - k},{'ABZ'[k % 3]},{k * 1000},{'CD'[k % 2]}\n" for k in range(18)
)


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "queries.csv"
    path.write_text(QUERIES)
    return path


def script(text: str, *arguments: object) -> subprocess.Popen:
    """A Python process that can call the command line."""
    start = """
        import os, shutil, signal, sys
        from pathlib import Path
        from headway.pipeline import cli, query_file

        def headway(*arguments):
            sys.argv = ["headway", *map(str, arguments)]
            cli.main()
    """
    code = textwrap.dedent(start) + textwrap.dedent(text)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], **pipes)


def test_killed_at_any_step(queries: Path, store: Store, tmp_path: Path) -> None:
    """A run is killed (SIGKILL) at each change that it makes to the file system in turn, then resumed.

    The bytes are those of an undisturbed run, or the run had already finished; new, replacing, and CSV.
    """
    store.save(tmp_path / "town.store")
    process = script(
        """
        home = Path(sys.argv[1])
        EVENTS = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree")
        query_file.PART = 9
        from headway.pipeline.cpu import CpuEngine
        from headway.pipeline.single import one_query  # what is compiled here is there in each fork
        from headway.storage.store import load
        town = load(home / "town.store")
        one_query(town, CpuEngine(town), "A", "8:00", "B")

        def files(*names):
            found = {}
            for name in names:
                path = home / name
                for file in sorted(path.iterdir()) if path.is_dir() else [path]:
                    found[str(file.relative_to(home)).replace(name.split(".")[0], "out", 1)] = file.read_bytes()
            return found

        def fork(work):
            child = os.fork()
            if not child:
                status = 1
                try:
                    os.fsync = lambda handle: None  # nobody pulls the plug here
                    work()
                    status = 0
                except SystemExit as stopped:
                    status = stopped.code
                finally:
                    os._exit(status)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

        def run(name, *options):
            command = ("query", home / "town.store", home / "queries.csv", "-o", home / name, "--answer", "od", "-q")
            headway(*command, *options, "--set", "threads=1")

        def dying(step, name, *options):
            seen = 0

            def kill(event, arguments):
                nonlocal seen
                seen += event in EVENTS and str(home) in str(arguments[0])
                if seen == step:
                    os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(kill)
            run(name, *options)

        assert fork(lambda: run("plain")) == 0
        assert fork(lambda: run("plain.csv")) == 0
        total = 0
        for name, old in (("a", False), ("b", True), ("c.csv", False)):
            stem, suffix = name.split(".")[0], ".csv" if name.endswith("csv") else ""
            expected = files("plain" + suffix, *(["plain.errors.csv"] if suffix else []))
            for step in range(1, 100):
                one = f"{stem}{step}{suffix}"
                if old:
                    shutil.copytree(home / "plain", home / one)
                if fork(lambda: dying(step, one, *(["--overwrite"] if old else []))) == 0:
                    break
                total += 1
                status = fork(lambda: run(one, "--resume", *(["--overwrite"] if old else [])))
                found = files(one, *([f"{stem}{step}.errors.csv"] if suffix else []))
                assert status in (0, 2), (one, status)
                assert found == expected, (one, status, sorted(found))
            else:
                raise AssertionError("never finished")
        print(total)
        """,
        tmp_path,
    )
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err[-3000:]
    assert int(out) > 25


class OnDevice:
    """An engine that waits for a second part before it answers the first."""

    keeps_order = True

    def __init__(self, engine: Engine) -> None:
        self._engine, self._both = engine, Barrier(2)

    def pieces(self, queries: Queries, asked: Answer) -> Iterator[Piece]:
        self._both.wait(20)
        return self._engine.pieces(queries, asked)


def test_a_device_has_several_parts_at_once(
    queries: Path, store: Store, engine: Engine, ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the files are those of one after the other."""
    monkeypatch.setattr("headway.pipeline.query_file.PART", 3)
    one, several = (ask(queries, "reach", engine=which) for which in (engine, OnDevice(engine)))
    assert len(content(one)) > 3
    assert content(one) == content(several)


def test_lost_queries_stay_among_the_errors(
    queries: Path, store: Store, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a part that is finished nobody asks again, and nothing in the file of queries tells of them."""
    monkeypatch.setattr("headway.pipeline.query_file.PART", 9)
    asked = Answer("od")
    plain = in_process(store, engine, asked, 1)

    def losing(parts: Iterator[Part], advance: Advance) -> Iterator[tuple[int, Found]]:
        for part in parts:
            if part.number:
                raise KeyboardInterrupt
            yield 0, Lost(part.queries.query_id[:1], "it is lost")
            yield from plain(iter([Part(0, part.queries.take(slice(1, None)))]), advance)

    with pytest.raises(KeyboardInterrupt):
        run_queries(store, losing, queries, tmp_path / "out", asked, fingerprint="f")
    done = run_queries(store, plain, queries, tmp_path / "out", asked, fingerprint="f", resume=True)
    found = errors(tmp_path / "out")
    assert [number for number, cause in found if cause == "it is lost"] == [100]
    assert done.errors == len(found) > 1
    assert sorted(read(tmp_path / "out")["query_id"].to_pylist() + [number for number, _ in found]) == [*range(83, 101)]


def test_a_query_lost_in_a_part_that_never_came_is_answered(
    store: Store, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run killed between the errors of a part and its answers leaves no word of either."""
    valid = tmp_path / "valid.csv"
    valid.write_text("origin,departure,destination\nA,8:00,B\nB,8:00,C\n")
    asked = Answer("od")
    plain = in_process(store, engine, asked, 1)

    def losing(parts: Iterator[Part], advance: Advance) -> Iterator[tuple[int, Found]]:
        for part in parts:
            yield 0, Lost(part.queries.query_id[:1], "it is lost")
            yield from plain(iter([Part(0, part.queries.take(slice(1, None)))]), advance)

    def killed(file: Path, write: Callable[[Path], object]) -> None:
        if file.name.startswith("part-"):
            write(file.with_name(file.name + ".tmp"))
            raise KeyboardInterrupt
        replace(file, write)

    monkeypatch.setattr("headway.pipeline.sink.replace", killed)
    with pytest.raises(KeyboardInterrupt):
        run_queries(store, losing, valid, tmp_path / "out", asked, fingerprint="f")
    monkeypatch.undo()
    assert (tmp_path / "out.partial" / "errors-00000.parquet").exists()
    done = run_queries(store, plain, valid, tmp_path / "out", asked, fingerprint="f", resume=True)
    assert (done.errors, errors(tmp_path / "out")) == (0, [])
    assert read(tmp_path / "out")["query_id"].to_pylist() == [0, 1]


def test_a_lost_cluster_is_no_full_disk(queries: Path, store: Store, tmp_path: Path) -> None:
    """Ray's client says so by an OSError; `cluster.ray.actors` words it."""

    def lost(parts: Iterator[Part], advance: Advance) -> Iterator[tuple[int, Found]]:
        yield next(parts).number, None
        raise ConnectionError("the channel is closed")

    with pytest.raises(ConnectionError, match="the channel is closed"):
        run_queries(store, lost, queries, tmp_path / "out", Answer("od"), fingerprint="f")


@given(st.lists(st.none() | st.integers(-3, 9), min_size=1, max_size=40), st.booleans())
def test_repeated_ids(ids: list[int | None], in_order: bool) -> None:
    """Whatever their order, and in however many pieces a file is read; of each, the first counts."""
    if in_order:
        ids = sorted(ids, key=lambda number: (number is None, number))
    table = pa.table({"query_id": pa.array(ids, pa.int64()), "origin": ["A"] * len(ids), "departure": [0] * len(ids)})
    known = [number for number in ids if number is not None]
    expected = [row for row, number in enumerate(ids) if number is not None and number in ids[:row]]
    with tempfile.TemporaryDirectory() as folder, mock.patch("headway.pipeline.query_file.PART", 7):
        path = Path(folder) / "q.parquet"
        pq.write_table(table, path, row_group_size=5)
        file = open_queries(path, False)
    assert file.repeated.tolist() == expected
    assert (file.rows, len(expected)) == (len(ids), len(known) - len(set(known)))
