"""Rare things on the command line: terminals of few letters, ids at the edge of int64, half-true manifests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import done, headway, refused, tiny_store
from headway.pipeline import options
from headway.pipeline.engines import NAMES
from tiny import feed


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_store(tmp_path_factory.mktemp("edges"))


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_names_that_a_terminal_can_t_show(tmp_path: Path, encoding: str) -> None:
    """The list of stops is UTF-8 wherever it goes, since queries must be; other output shows what it can."""
    path = feed(tmp_path, "t: A 8:00, B 8:10", stops="stop_id,stop_name\nA,Žižkov\nB,b")
    done("build", path, "-o", tmp_path / "s", "--date", "2026-06-10", "-q")
    program = Path(sys.executable).with_name("headway")
    env = os.environ | {"PYTHONIOENCODING": encoding}
    run = subprocess.run([program, "stops", tmp_path / "s"], capture_output=True, env=env, check=False)
    assert (run.returncode, run.stderr) == (0, b"")
    assert '"A","Žižkov"' in run.stdout.decode()
    one = [program, "query", tmp_path / "s", "--from", "A", "--at", "8:00"]
    run = subprocess.run(one, capture_output=True, env=env, check=False)
    assert (run.returncode, run.stderr) == (0, b"")
    assert b" min  A  " in run.stdout


def test_ids_at_the_edge_of_int64(store: Path, tmp_path: Path) -> None:
    """Every int64 that isn't too long is an id in CSV as in Parquet; one more is none."""
    ids = [2**63 - 1, 2**63, 10**18, -(10**17), 10**19]
    rows = "".join(f"{query},A,28800\n" for query in ids)
    (tmp_path / "q.csv").write_text(f"query_id,origin,departure\n{rows}")
    done("query", store, tmp_path / "q.csv", "-o", tmp_path / "a", "-q")
    found = pq.read_table(tmp_path / "a" / "part-00000.parquet")["query_id"].unique().to_pylist()
    assert found == [2**63 - 1, 10**18, -(10**17)]
    errors = pq.read_table(tmp_path / "a" / "errors.parquet").to_pylist()
    assert errors == [{"query_id": None, "error": f"row {row}: the query_id is null or no integer"} for row in (3, 6)]


@pytest.mark.parametrize("weight", [float("nan"), float("inf")])
def test_weights_that_are_no_number(store: Path, tmp_path: Path, weight: float) -> None:
    pq.write_table(pa.table({"stop": ["A", "B"], "jobs": [1.0, weight]}), tmp_path / "w.parquet")
    (tmp_path / "q.csv").write_text("origin,departure\nA,0\n")
    asked = ("query", store, tmp_path / "q.csv", "-o", tmp_path / "a", "--answer", "reach")
    assert "column jobs holds something that is no number" in refused(*asked, "--weights", tmp_path / "w.parquet")


@pytest.mark.parametrize("name", ["horizon", "vertices"])
def test_manifest_without_a_number(tmp_path: Path, name: str) -> None:
    file = tiny_store(tmp_path) / "manifest.json"
    manifest = json.loads(file.read_text())
    del manifest["meta"]["numbers"][name]
    file.write_text(json.dumps(manifest, sort_keys=True, indent=1))
    assert f"manifest.json: damaged, it has no {name};" in refused("info", file.parent)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("wlak.radius_m=3", "--set wlak.radius_m=3: "),
        ("walk=3", "--set walk=3: "),
        ("walk.radius=3", "--set walk.radius=3: "),
        ("threads=none", "--set threads=none: "),
    ],
)
def test_wrong_setting_is_named_as_typed(setting: str, words: str) -> None:
    assert words in refused("config", "show", "--set", setting, "--set", "build.days=3")


@pytest.mark.parametrize("text", ["[]", "0", "false", "''"])
def test_profile_that_holds_no_keys(tmp_path: Path, text: str) -> None:
    (tmp_path / "own.yaml").write_text(text)
    assert "keys and values are wanted" in refused("config", "show", "--profile", tmp_path / "own.yaml")


@pytest.mark.parametrize("option", [("--days", "3"), ("--subtrips", "sqrt-trip"), ("--walk", "default")])
def test_connections_take_no_options_of_feeds(option: tuple[str, str], tmp_path: Path) -> None:
    """They were ignored in silence."""
    (tmp_path / "c.txt").write_text("0 1 100 60\n")
    line = refused("build", "--connections", tmp_path / "c.txt", "-o", tmp_path / "c.store", *option)
    assert "--connections" in line
    assert not (tmp_path / "c.store").exists()


def test_one_query_writes_no_file(store: Path, tmp_path: Path) -> None:
    """Rather refused than left out without a word."""
    assert "no -o" in refused("query", store, "--from", "A", "--at", "8:00", "-o", tmp_path / "x.csv")


def test_where_errors_of_a_batch_are(store: Path, tmp_path: Path) -> None:
    queries = tmp_path / "q.csv"
    queries.write_text("origin,departure\nA,8:00\nnowhere,8:00\n")
    for output, words in (("x.csv", "(see x.errors.csv)"), ("x", "(see errors.parquet)")):
        assert words in headway("query", store, queries, "-o", tmp_path / output).err


def test_every_engine_has_its_name_on_the_command_line() -> None:
    assert [algorithm.value for algorithm in options.Algorithm] == list(NAMES)
