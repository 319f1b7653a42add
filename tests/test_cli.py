"""What the commands do and answer, as users and scripts depend on it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import TIMETABLE, done, headway, refused, tiny_store
from headway.kernels import relax
from headway.pipeline.engines import ALGORITHMS, ON_CONNECTIONS_ALONE
from tiny import feed

PART = 65_536
WALKING = sorted(set(ALGORITHMS) - ON_CONNECTIONS_ALONE)
QUICK = sorted(set(WALKING) - {*relax.ALGORITHMS})  # for thousands of queries
COMMANDS = ["build", "info", "stops", "query", "nightly", "snapshots", "config show"]


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    """t: A 8:00, B 8:10, C 8:20; u: A 9:00, B 9:10; B and C of station S, X alone, E a station without stops."""
    return tiny_store(tmp_path_factory.mktemp("cli"))


def answers(folder: Path) -> pd.DataFrame:
    """All parts, in order; text as plain text."""
    table = pa.concat_tables(pq.read_table(part) for part in sorted(folder.glob("part-*.parquet")))
    texts = {"origin", "stop", "destination"} & set(table.schema.names)
    return table.to_pandas().astype(dict.fromkeys(texts, "str"))


def printed(text: str) -> list[tuple[str, str]]:
    """Time and id of each line below the first that one query prints."""
    return [(line.split()[0], line.split(" min  ")[1].split("  ")[0]) for line in text.splitlines()[1:]]


def errors(folder: Path) -> list[tuple]:
    """Rows of errors.parquet."""
    return [tuple(row.values()) for row in pq.read_table(folder / "errors.parquet").to_pylist()]


def test_version() -> None:
    assert done("--version") == f"headway {version('headway')}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: str) -> None:
    text = done(*command.split(), "--help")
    assert f"headway {command}" in text.split("Example")[1]
    assert text == done(*command.split(), "-h")


def test_help_names_every_command() -> None:
    text = done("--help")
    assert [name for name in COMMANDS if name.split()[0] not in text] == []
    assert text == done()


def test_config_show() -> None:
    text = done("config", "show", "--set", "walk.radius_m=400", "--set", "build.subtrips=sqrt-trip")
    assert "radius_m: 400.0 " in text
    assert "subtrips: sqrt-trip " in text


def test_profile_of_ones_own(tmp_path: Path) -> None:
    """What `config show` prints is a profile; options overrule --set, which overrules the profile."""
    mine = tmp_path / "mine.yaml"
    mine.write_text(done("config", "show", "--set", "build.days=3", "--set", "walk.mode=none"))
    assert "days: 3" in done("config", "show", "--profile", mine)
    path = feed(tmp_path, TIMETABLE)
    words = ("--date", "2026-06-10", "--profile", mine, "--set", "build.days=4", "--days", "5", "--quiet")
    done("build", path, "-o", tmp_path / "s", *words)
    assert json.loads(done("info", tmp_path / "s", "--json"))["build"] == {
        "date": "2026-06-10",
        "days": 5,
        "cluster minutes": 60,
        "subtrips": "none",
        "walk": "none",
    }


def test_build_tells_what_was_left_out(tmp_path: Path) -> None:
    path = feed(tmp_path, TIMETABLE + "\nbad: A 8:00, B 7:00", agency="agency_id,agency_timezone\n1,UTC")
    (path / "agency.txt").write_bytes("agency_name,agency_timezone\nK\xf6ln,UTC".encode("latin-1"))
    result = headway("build", path, "-o", tmp_path / "s", "--date", "2026-06-10")
    assert (result.status, result.out) == (0, "")
    assert "warning: feed/agency.txt is not UTF-8: read as Latin-1\n" in result.err
    assert "left out, feed/stop_times.txt: 1 x a trip whose time runs backwards (first: bad)\n" in result.err
    text = done("info", tmp_path / "s")
    assert "left out, feed/stop_times.txt: 1 x a trip whose time runs backwards (first: bad)\n" in text


def test_quiet_is_silent(tmp_path: Path, store: Path) -> None:
    path = feed(tmp_path, TIMETABLE + "\nbad: A 8:00, B 7:00")
    queries = tmp_path / "q.csv"
    queries.write_text("origin,departure\nA,8:00\nnowhere,8:00\n")
    for words in (
        ("build", path, "-o", tmp_path / "s", "--date", "2026-06-10", "--quiet"),
        ("query", store, queries, "-o", tmp_path / "a", "-q"),
        ("stops", store, "-o", tmp_path / "stops.csv"),
    ):
        result = headway(*words)
        assert (result.status, result.out, result.err) == (0, "", "")


def test_same_input_same_bytes_and_overwrite(tmp_path: Path) -> None:
    path = feed(tmp_path, TIMETABLE)
    words = ("build", path, "--date", "2026-06-10", "--quiet", "-o")
    done(*words, tmp_path / "one")
    done(*words, tmp_path / "two")
    before = {file.name: file.read_bytes() for file in (tmp_path / "one").iterdir()}
    assert before == {file.name: file.read_bytes() for file in (tmp_path / "two").iterdir()}
    assert "exists; name another output, or replace it with --overwrite" in refused(*words, tmp_path / "one")
    done(*words, tmp_path / "one", "--overwrite", "--days", "1")
    assert json.loads(done("info", tmp_path / "one", "--json"))["build"]["days"] == 1
    assert sorted(file.name for file in tmp_path.iterdir()) == ["feed", "one", "two"]


def test_info(store: Path) -> None:
    facts = json.loads(done("info", store, "--json", "--verify"))
    assert facts["sources"][0] | {"sha256": ""} == {
        "name": "feed",
        "sha256": "",
        "timezone": "Europe/Berlin",
        "first_date": "2026-06-10",
        "last_date": "2026-06-10",
        "trips": 2,
        "active_trips": 2,
    }
    counts = {
        name: facts["counts"][name] for name in ("stops", "stations", "connections", "connection types", "horizon")
    }
    assert counts == {"stops": 4, "stations": 2, "connections": 3, "connection types": 2, "horizon": 172800}
    assert facts["counts"]["stops without departures"] == 2
    assert facts["bytes of raw departures"] == 12
    assert sum(facts["bytes"].values()) == sum(
        file.stat().st_size for file in store.iterdir() if file.name != "manifest.json"
    )
    text = done("info", store)
    for words in ("service 2026-06-10 to 2026-06-10, Europe/Berlin; 2 of 2 trips run", "horizon 172,800 s"):
        assert words in text


def test_stops(tmp_path: Path, store: Path) -> None:
    """On the screen, as CSV, as Parquet; stops first, then stations."""
    text = done("stops", store)
    assert text.splitlines()[0] == '"id","name","lat","lon","station"'
    done("stops", store, "-o", tmp_path / "s.csv")
    assert (tmp_path / "s.csv").read_text() == text
    done("stops", store, "-o", tmp_path / "s.parquet")
    found = pq.read_table(tmp_path / "s.parquet").to_pydict()
    assert found["id"] == ["A", "B", "C", "X", "S", "E"]
    assert found["station"] == ["", "S", "S", "", "", ""]
    assert found["lat"] == [50, 51, 52, None, 51, 53]
    done("stops", store, "-o", tmp_path / "s.csv", "--overwrite")


def test_paper_form(tmp_path: Path) -> None:
    """0 -> 1 at 10 for 5, 1 -> 2 at 15 for 0 and at 86400 for 1: a horizon of two days, vertex 3 alone."""
    file = tmp_path / "paper.txt"
    file.write_text("# n m\n4 3\n0 1 10 5\n\n1 2 15 0 # no time\n1\t2 86400  1\n")
    done("build", "--connections", file, "-o", tmp_path / "s", "--quiet")
    facts = json.loads(done("info", tmp_path / "s", "--json"))
    assert (facts["counts"]["stops"], facts["counts"]["horizon"], facts["build"]["walk"]) == (4, 172800, "none")
    assert "horizon 172,800 s" in done("info", tmp_path / "s")
    lines = done("query", tmp_path / "s", "--from", "0", "--at", "10").splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["0:00:10", "0:00:15", "0:00:15"]
    assert "24:00:01" in done("query", tmp_path / "s", "--from", "1", "--at", "16", "--to", "2")


@pytest.mark.parametrize("algorithm", WALKING)
def test_one_query(store: Path, algorithm: str) -> None:
    words = ("query", store, "--algorithm", algorithm, "--from", "A", "--at")
    text = done(*words, "8:00")
    assert text.startswith("from A at 8:00:00: 4 places reached\n")
    assert printed(text) == [("8:00:00", "A"), ("8:10:00", "B"), ("8:10:00", "S"), ("8:20:00", "C")]
    assert "9:10:00  +  69.9 min  B  b" in done(*words, "8:00:07", "--to", "B")
    assert done(*words, "32401", "--to", "C") == "C is not reached from A at 9:00:01\n"
    assert done("query", store, "--from", "S", "--at", "0", "--to", "C").splitlines()[1].split()[0] == "0:00:00"
    assert "0 places reached" in done("query", store, "--from", "E", "--at", "0")
    assert done("query", store, "--from", "A", "--at", "8:00", "--to", "E") == "E is not reached from A at 8:00:00\n"


@pytest.mark.parametrize("algorithm", WALKING)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_arrivals(tmp_path: Path, store: Path, algorithm: str, form: str) -> None:
    frame = pd.DataFrame(
        {"query_id": [7, -3, 5], "origin": ["A", "S", "X"], "departure": [28800, 29400, 0], "x": [1, 2, 3]}
    )
    queries = tmp_path / f"q.{form}"
    frame.to_csv(queries, index=False) if form == "csv" else frame.to_parquet(queries)
    done("query", store, queries, "-o", tmp_path / "a", "--algorithm", algorithm, "-q")
    schema = pq.read_schema(tmp_path / "a" / "part-00000.parquet")
    assert schema.names == ["query_id", "origin", "departure", "stop", "arrival"]
    kinds = ["int64", "dictionary<values=string, indices=int32, ordered=0>", "int32"]
    assert [str(kind) for kind in schema.types] == [*kinds, kinds[1], "int32"]
    assert [tuple(row) for row in answers(tmp_path / "a").to_numpy()] == [
        (7, "A", 28800, "A", 28800),
        (7, "A", 28800, "B", 29400),
        (7, "A", 28800, "C", 30000),
        (7, "A", 28800, "S", 29400),
        (-3, "S", 29400, "B", 29400),
        (-3, "S", 29400, "C", 29400),
        (-3, "S", 29400, "S", 29400),
        (5, "X", 0, "X", 0),
    ]
    assert errors(tmp_path / "a") == []
    assert sorted(file.name for file in (tmp_path / "a").iterdir()) == ["errors.parquet", "part-00000.parquet"]


def test_od(tmp_path: Path, store: Path) -> None:
    """A row a query, in order; null where unreachable. `-o x.csv` writes CSV and the errors beside it."""
    queries = tmp_path / "q.csv"
    queries.write_text("origin,departure,destination\nA,8:00,C\nA, 9:00:01 ,C\nA,8:01,S\nA,0,E\nE,0,A\nX,0,X\nA,0,Z\n")
    words = ("query", store, queries, "--answer", "od", "-q", "-o")
    done(*words, tmp_path / "a")
    table = pq.read_table(tmp_path / "a" / "part-00000.parquet")
    assert table.schema.names == ["query_id", "origin", "destination", "departure", "arrival"]
    assert table.schema.field("arrival").type == pa.int32()
    assert table["query_id"].to_pylist() == [0, 1, 2, 3, 4, 5]
    assert table["arrival"].to_pylist() == [30000, None, 33000, None, None, 0]
    assert errors(tmp_path / "a") == [(6, "row 8: unknown destination 'Z'")]
    done(*words, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text().splitlines()[:3] == [
        '"query_id","origin","destination","departure","arrival"',
        '0,"A","C",28800,30000',
        '1,"A","C",32401,',
    ]
    assert (tmp_path / "a.errors.csv").read_text() == '"query_id","error"\n6,"row 8: unknown destination \'Z\'"\n'
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "a.csv", "a.errors.csv", "q.csv"]
    (tmp_path / "a.csv").unlink()
    assert "a.errors.csv exists" in refused(*words, tmp_path / "a.csv")


@pytest.mark.parametrize("algorithm", WALKING)
def test_reach(tmp_path: Path, store: Path, algorithm: str) -> None:
    """Stops within 0, 10 and 20 minutes, the origin included, stations not; and sums of weights over them."""
    (tmp_path / "q.csv").write_text("origin,departure\nA,8:00\nA,7:59:59\nS,0\nE,0\n")
    (tmp_path / "w.csv").write_text("stop,jobs,share\nA,1,0.5\nC,100,0.25\nX,7,7\n")
    words = (
        "--answer",
        "reach",
        "--cutoffs",
        "0,10,20",
        "--weights",
        tmp_path / "w.csv",
        "--algorithm",
        algorithm,
        "-q",
    )
    done("query", store, tmp_path / "q.csv", "-o", tmp_path / "a", *words)
    found = answers(tmp_path / "a")
    assert list(found.columns) == ["query_id", "origin", "departure", "cutoff_s", "stops", "jobs", "share"]
    assert found["cutoff_s"].tolist() == [0, 600, 1200] * 4
    assert found["stops"].tolist() == [1, 2, 3, 1, 1, 2, 2, 2, 2, 0, 0, 0]
    assert found["jobs"].tolist() == [1, 1, 101, 1, 1, 1, 100, 100, 100, 0, 0, 0]
    assert found["share"].tolist() == [0.5, 0.5, 0.75, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0, 0, 0]


BAD = [
    # query_id, origin, departure, destination, error (None: answered)
    ("1", "A", "8:00", "B", None),
    ("2", "nowhere", "8:00", "B", "unknown origin 'nowhere'"),
    ("3", "", "8:00", "B", "unknown origin ''"),
    ("4", "A", "8:00", "nowhere", "unknown destination 'nowhere'"),
    ("", "A", "8:00", "B", "the query_id is null or no integer"),
    ("x", "A", "8:00", "B", "the query_id is null or no integer"),
    ("1.5", "A", "8:00", "B", "the query_id is null or no integer"),
    ("1", "A", "8:00", "B", "the query_id is repeated"),
    ("2", "A", "8:00", "B", "the query_id is repeated"),
    ("5", "A", "8", "B", None),
    ("6", "A", "8:5", "B", "malformed departure '8:5'"),
    ("7", "A", "", "B", "malformed departure ''"),
    ("8", "A", "-1", "B", "malformed departure '-1'"),
    ("9", "A", "48:00", "B", "departure 48:00 is outside [0, 172800)"),
    ("10", "A", "172800", "B", "departure 172800 is outside [0, 172800)"),
    ("11", "A", "47:59:59", "B", None),
    ("12", "A", "172799", "B", None),
    ("13", "A", "noon", "B", "malformed departure 'noon'"),
    ("14", "A", "99999999999", "B", "malformed departure '99999999999'"),
    ("15", "a", "8:00", "B", "unknown origin 'a'"),
]


def test_every_kind_of_bad_row(tmp_path: Path, store: Path) -> None:
    """Each goes to errors.parquet with its id and row; the others are answered; none is lost or answered twice."""
    lines = ["query_id,origin,departure,destination", *(",".join(row[:4]) for row in BAD)]
    (tmp_path / "q.csv").write_text("\n".join(lines))
    words = ("query", store, tmp_path / "q.csv", "--answer", "od", "-o", tmp_path / "a")
    result = headway(*words)
    assert f"{len(BAD):,} queries, 16 of them errors (see errors.parquet)" in result.err
    good = [int(row[0]) for row in BAD if row[4] is None]
    assert answers(tmp_path / "a")["query_id"].tolist() == good
    expect = [
        (int(row[0]) if row[0].isdigit() else None, f"row {number}: {row[4]}")
        for number, row in enumerate(BAD, 2)
        if row[4]
    ]
    assert errors(tmp_path / "a") == expect
    line = refused(*words, "--overwrite", "--strict")
    assert "q.csv: row 3: unknown origin 'nowhere'; mend it, or leave out --strict" in line
    assert errors(tmp_path / "a") == expect
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "q.csv"]


def test_bad_rows_of_parquet(tmp_path: Path, store: Path) -> None:
    """Nulls and numbers of every kind; row 1 is the first."""
    rows = {
        "query_id": pa.array([2**63, 1, None, 3, 4], pa.uint64()),
        "origin": pa.array(["A", None, "A", "A", "A"]).dictionary_encode(),
        "departure": pa.array([0.0, 0.0, 0.0, 0.5, float("nan")]),
    }
    pq.write_table(pa.table(rows), tmp_path / "q.parquet")
    done("query", store, tmp_path / "q.parquet", "-o", tmp_path / "a", "-q")
    assert [(query, error.split(": ")[0]) for query, error in errors(tmp_path / "a")] == [
        (None, "row 1"),
        (1, "row 2"),
        (None, "row 3"),
        (3, "row 4"),
        (4, "row 5"),
    ]


def test_no_queries(tmp_path: Path, store: Path) -> None:
    (tmp_path / "q.csv").write_text('"origin", "departure"\n')
    done("query", store, tmp_path / "q.csv", "-o", tmp_path / "a", "-q")
    assert errors(tmp_path / "a") == []


def test_parts_and_single_queries(tmp_path: Path, store: Path) -> None:
    """70,000 queries: part k holds queries 65,536 k on; both algorithms alike, and rows equal the single query."""
    random = np.random.default_rng(5)
    origin, departure = random.choice(list("ABCXSE"), 70_000), random.integers(25000, 36000, 70_000)
    frame = pd.DataFrame({"origin": origin, "departure": departure})
    frame.loc[[3, 65_536], "origin"] = "nowhere"
    frame.to_parquet(tmp_path / "q.parquet")
    for algorithm in QUICK:
        output = tmp_path / algorithm
        done("query", store, tmp_path / "q.parquet", "-o", output, "--algorithm", algorithm, "-q")
        parts = sorted(output.glob("part-*.parquet"))
        assert [part.name for part in parts] == ["part-00000.parquet", "part-00001.parquet"]
        assert set(pq.read_table(parts[0])["query_id"].to_numpy()) <= set(range(65_536))
        ids = pq.read_table(parts[1])["query_id"].to_numpy()
        assert (ids.min(), ids.max()) == (65_537, 69_999)
        assert [query for query, _ in errors(output)] == [3, 65_536]
    first, *others = [answers(tmp_path / algorithm) for algorithm in QUICK]
    assert all(first.equals(other) for other in others)
    for query in (0, 1, 65_535, 65_537):
        at = frame.loc[query, "departure"]
        text = done("query", store, "--from", frame.loc[query, "origin"], "--at", at)
        rows = first[first["query_id"] == query].sort_values("arrival", kind="stable")
        times = [f"{s // 3600}:{s // 60 % 60:02}:{s % 60:02}" for s in rows["arrival"]]
        assert printed(text) == list(zip(times, rows["stop"], strict=True))


def test_pipe_that_closes_early(store: Path) -> None:
    """`headway stops STORE | head -0`: no traceback."""
    program = Path(sys.executable).with_name("headway")
    run = subprocess.run(f"{program} stops {store} | true", shell=True, capture_output=True, text=True, check=False)
    assert run.stderr == ""
