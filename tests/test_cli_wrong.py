"""Wrong arguments and wrong input: exit status 2 and one line that says what and what to do; never a traceback."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import STORE, headway, refused, tiny_store
from tiny import tables, write

DATE = "--date 2026-06-10"
LONG = "x" * 300


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with a feed, a store, queries and things that are none of these."""
    folder = tmp_path_factory.mktemp("wrong")
    tiny_store(folder)
    (folder / "q.csv").write_text("origin,departure\nA,8:00\n")
    (folder / "empty").mkdir()
    (folder / "exists").mkdir()
    (folder / "exists" / "mine").write_text("mine")
    for name in ("zero", "zero.zip", "zero.csv", "zero.parquet"):
        (folder / name).write_bytes(b"")
    (folder / "text.txt").write_text("hello\n")
    (folder / "text.zip").write_text("hello\n")
    (folder / "binary.csv").write_bytes(bytes(range(256)) * 4)
    (folder / "latin.csv").write_bytes("origin,departure\nKöln,8:00\n".encode("latin-1"))
    (folder / "utf16.csv").write_text("origin,departure\nA,8:00\n", encoding="utf-16")
    (folder / "columns.csv").write_text("from,departure\nA,8:00\n")
    (folder / "header.csv").write_text("origin,when\n")
    table = pa.table({"origin": ["A"], "departure": [28800]})
    pq.write_table(table, folder / "good.parquet")
    (folder / "cut.parquet").write_bytes((folder / "good.parquet").read_bytes()[:-20])
    (folder / "magic.parquet").write_bytes(b"PAR1")
    pq.write_table(pa.table({"origin": [1, 2], "departure": [0, 1]}), folder / "int_ids.parquet")
    pq.write_table(pa.table({"origin": ["A"]}), folder / "no_departure.parquet")
    pq.write_table(pa.table({"origin": [["A"]], "departure": [1]}), folder / "list_ids.parquet")
    pq.write_table(pa.table({"origin": ["A"], "departure": [[1]]}), folder / "list_times.parquet")
    (folder / "w_text.csv").write_text("stop,jobs\nA,many\n")
    (folder / "w_unknown.csv").write_text("stop,jobs\nA,1\nnowhere,2\n")
    (folder / "w_twice.csv").write_text("stop,jobs\nA,1\nA,2\n")
    (folder / "w_station.csv").write_text("stop,jobs\nS,1\n")
    (folder / "w_nothing.csv").write_text("stop\nA\n")
    (folder / "w_no_stop.csv").write_text("id,jobs\nA,1\n")
    (folder / "w_clash.csv").write_text("stop,stops\nA,1\n")
    (folder / "w_columns.csv").write_text("stop,jobs,jobs\nA,1,2\n")
    (folder / "w_ragged.csv").write_text("stop,jobs\nA,1,2\n")
    (folder / "w_null.csv").write_text("stop,jobs\nA,1\nB,\n")
    (folder / "list.yaml").write_text("- a\n- b\n")
    (folder / "broken.yaml").write_text("walk: [\n")
    (folder / "date.yaml").write_text("threads: 2026-99-99\n")
    (folder / "unknown.yaml").write_text("walking: {}\n")
    (folder / "type.yaml").write_text("walk: {radius_m: far}\n")
    (folder / "section.yaml").write_text("walk: 5\n")
    (folder / "latin.yaml").write_bytes("threads: ö\n".encode("latin-1"))
    (folder / "number.yaml").write_text("1: 2\n")
    return folder


WRONG = [
    # (arguments, words of the line)
    ("nothing", "nothing"),
    ("build", "Missing option|--output"),
    ("build feed", "--output"),
    ("build feed -o new --date", "--date|requires an argument"),
    ("build feed -o new", "no --date given|YYYY-MM-DD|feed has service from 2026-06-10 to 2026-06-10"),
    ("build feed -o new --date tomorrow", "--date 'tomorrow'|YYYY-MM-DD|2026-06-10"),
    ("build feed -o new --date 2026-06-31", "--date '2026-06-31'|2026-06-10"),
    ("build feed -o new --date 2026-06-11", "outside its service|2026-06-10|--date"),
    (f"build -o new {DATE}", "no feed given"),
    (f"build nofeed -o new {DATE}", "nofeed: no such file"),
    (f"build {LONG} -o new {DATE}", LONG),
    (f"build empty -o new {DATE}", "empty: no stop_times.txt"),
    (f"build zero.zip -o new {DATE}", "zero.zip: not a readable zip"),
    (f"build text.zip -o new {DATE}", "text.zip: not a readable zip"),
    (f"build the.store -o new {DATE}", "the.store: no stop_times.txt"),
    (f"build feed feed -o new {DATE}", "two feeds are named feed"),
    (f"build feed/ -o exists {DATE}", "exists exists"),
    (f"build feed -o exists --overwrite {DATE}", "exists is not a store"),
    (f"build feed -o text.txt --overwrite {DATE}", "text.txt is a file"),
    (f"build feed -o no/folder/new {DATE}", "does not exist"),
    (f"build feed -o text.txt/new {DATE}", "text.txt"),
    (f"build feed -o {LONG} {DATE}", LONG),
    (f"build feed -o new --days 0 {DATE}", "--days 0"),
    (f"build feed -o new --days two {DATE}", "--days|integer"),
    (f"build feed -o new --days 100000 {DATE}", "--days 100000"),
    (f"build feed -o new --walk far {DATE}", "far|default|none"),
    (f"build feed -o new --walk-radius -1 {DATE}", "--walk-radius -1"),
    (f"build feed -o new --walk-radius nan {DATE}", "--walk-radius nan"),
    (f"build feed -o new --walk-speed 0 {DATE}", "--walk-speed 0"),
    (f"build feed -o new --walk-detour inf {DATE}", "--walk-detour inf"),
    (f"build feed -o new --cluster-minutes 0 {DATE}", "--cluster-minutes 0"),
    (f"build feed -o new --cluster-minutes 1.5 {DATE}", "--cluster-minutes|integer"),
    (f"build feed -o new --subtrips all {DATE}", "all|sqrt-trip"),
    (f"build feed -o new --set walk.radius {DATE}", "--set walk.radius|key=value"),
    (f"build feed -o new --set walk.radios=1 {DATE}", "--set walk.radios=1"),
    (f"build feed -o new --set walk.radius_m=far {DATE}", "--set walk.radius_m=far"),
    (f"build feed -o new --set walk.radius_m=[ {DATE}", "--set walk.radius_m=["),
    (f"build feed -o new --set threads=2026-99-99 {DATE}", "--set threads=2026-99-99"),
    (f"build feed -o new --set walk.radius_m.x=1 {DATE}", "--set walk.radius_m.x=1"),
    (f"build feed -o new --set =1 {DATE}", "--set =1"),
    (f"build feed -o new --set build=3 {DATE}", "--set build=3"),
    (f"build feed -o new --set threads=0 {DATE}", "--set threads=0"),
    (f"build feed -o new --unknown {DATE}", "--unknown"),
    ("build feed -o new --connections q.csv", "--connections takes no feeds"),
    (f"build -o new --connections q.csv {DATE}", "--connections takes no feeds, --date"),
    ("build -o new --connections q.csv --walk-radius 400", "--connections knows no trips and no places"),
    ("build -o new --connections nofile", "nofile: No such file"),
    ("build -o new --connections empty", "empty: Is a directory"),
    ("build -o new --connections zero", "zero: no connections in it"),
    ("build -o new --connections text.txt", "text.txt: row 1: 1 fields"),
    ("build -o new --connections binary.csv", "binary.csv: row"),
    ("config", "command"),
    ("config show --profile none", "--profile none: no such profile|laptop"),
    ("config show --profile none.yaml", "none.yaml: no such profile"),
    ("config show --profile ../conf", "no such profile"),
    (f"config show --profile {LONG}", LONG),
    ("config show --profile list.yaml", "list.yaml: keys and values are wanted"),
    ("config show --profile broken.yaml", "broken.yaml: not a readable YAML file"),
    ("config show --profile date.yaml", "date.yaml: not a readable YAML file"),
    ("config show --profile latin.yaml", "latin.yaml: not a readable YAML file"),
    ("config show --profile unknown.yaml", "unknown.yaml: walking"),
    ("config show --profile type.yaml", "type.yaml: walk.radius_m"),
    ("config show --profile section.yaml", "section.yaml: walk"),
    ("config show --profile number.yaml", "number.yaml: 1"),
    ("info", "STORE"),
    ("info none", "none: no such store"),
    ("info text.txt", "text.txt is a file, not a store"),
    ("info empty --json", "empty: no manifest.json"),
    ("info the.store more", "more"),
    (f"info {LONG}", LONG),
    ("stops none", "none: no such store"),
    ("stops the.store -o text.txt", "text.txt exists"),
    ("stops the.store -o text.txt/new.csv", "text.txt/new.csv|does not exist"),
    ("stops the.store -o no/new.csv", "no/new.csv"),
    ("stops the.store -o empty --overwrite", "empty"),
    ("stops the.store -o . --overwrite", "."),
    ("stops the.store -o / --overwrite", "/"),
    (f"stops the.store -o {LONG}", LONG),
    ("query", "STORE"),
    ("query the.store", "give a file of queries and -o"),
    ("query the.store q.csv", "-o ANSWERS"),
    ("query none q.csv -o new", "none: no such store"),
    ("query the.store none.csv -o new", "none.csv: No such file"),
    ("query the.store empty -o new", "empty: Is a directory"),
    ("query the.store zero -o new", "zero: row 1: no column origin"),
    ("query the.store zero.parquet -o new", "zero.parquet: row 1: no column origin"),
    ("query the.store text.txt -o new", "text.txt: row 1: no column origin (it has hello)"),
    ("query the.store binary.csv -o new", "binary.csv"),
    ("query the.store latin.csv -o new", "latin.csv: not UTF-8"),
    ("query the.store utf16.csv -o new", "utf16.csv: row 1: UTF-16"),
    ("query the.store columns.csv -o new", "columns.csv: row 1: no column origin (it has from, departure)"),
    ("query the.store header.csv -o new", "header.csv: row 1: no column departure (it has origin, when)"),
    ("query the.store q.csv -o new --answer od", "q.csv: row 1: no column destination"),
    ("query the.store cut.parquet -o new", "cut.parquet"),
    ("query the.store magic.parquet -o new", "magic.parquet"),
    ("query the.store int_ids.parquet -o new", "int_ids.parquet: column origin is int64; ids are text"),
    ("query the.store list_ids.parquet -o new", "list_ids.parquet: column origin is list"),
    ("query the.store list_times.parquet -o new", "list_times.parquet: column departure is list"),
    ("query the.store no_departure.parquet -o new", "no_departure.parquet: row 1: no column departure"),
    ("query the.store q.csv -o new --answer all", "all|reach"),
    ("query the.store q.csv -o new --algorithm magic", "magic"),
    ("query the.store q.csv -o new --algorithm edge-32 --device cpu", "edge-32 runs on a GPU alone"),
    ("query the.store --from A --at 8:00 --algorithm edge-2", "edge-2 runs on a GPU alone"),
    ("query the.store q.csv -o new --device tpu", "tpu"),
    ("query the.store q.csv -o exists", "exists exists"),
    ("query the.store q.csv -o exists --overwrite", "exists is a folder that holds no answers"),
    ("query the.store q.csv -o text.txt --overwrite", "text.txt"),
    ("query the.store q.csv -o q.csv --overwrite", "q.csv"),
    ("query the.store q.csv -o no/new", "does not exist"),
    ("query the.store q.csv -o text.txt/new", "text.txt"),
    ("query the.store q.csv -o . --overwrite", "."),
    ("query the.store q.csv -o / --overwrite", "/"),
    (f"query the.store q.csv -o {LONG}", LONG),
    *[
        (f"query the.store q.csv -o new --answer reach --cutoffs {cutoffs}", f"--cutoffs {cutoffs}: write minutes")
        for cutoffs in ("x", "15,,30", "-5", "nan", "inf", "1e300", "15;30", ",")
    ],
    ("query the.store q.csv -o new --weights w_text.csv", "--weights goes with --answer reach"),
    ("query the.store q.csv -o new --answer od --cutoffs 15", "--cutoffs goes with --answer reach, not od"),
    *[
        (f"query the.store q.csv -o new --answer reach --weights {file}", f"{file}{words}")
        for file, words in {
            "none.csv": ": |No such file",
            "empty": ": ",
            "zero.csv": ": ",
            "zero.parquet": ": ",
            "cut.parquet": ": ",
            "binary.csv": ": ",
            "w_text.csv": ": column jobs holds something that is no number",
            "w_unknown.csv": ": row 3: 'nowhere' is no stop",
            "w_twice.csv": ": row 3: 'A' is repeated",
            "w_station.csv": ": row 2: 'S' is no stop",
            "w_nothing.csv": ": |`stop` and a numeric column",
            "w_no_stop.csv": ": |it has id, jobs",
            "w_clash.csv": ": column stops would clash",
            "w_columns.csv": ": two columns have one name (it has stop, jobs, jobs)",
            "w_ragged.csv": ": ",
            "w_null.csv": ": column jobs",
        }.items()
    ],
    ("query the.store --from A", "--from and --at"),
    ("query the.store --at 8:00", "--from and --at"),
    ("query the.store --to A", "--from and --at"),
    ("query the.store q.csv --from A --at 8:00", "no file of queries"),
    *[
        (f"query the.store --from A --at 8:00 {words}", "--answer, --cutoffs and --weights are for a file of queries")
        for words in ("--answer reach", "--cutoffs 15", "--weights w_text.csv")
    ],
    ("query the.store --from a --at 8:00", "no stop or station 'a'"),
    ("query the.store --from A --at 8:00 --to AA", "no stop or station 'AA' in the store; did you mean A"),
    ("query the.store --from A --at noon", "--at noon: not a time"),
    ("query the.store --from A --at -5", "-5"),
    ("query the.store --from A --at 48:00", "--at 48:00 is second 172800, outside the store's [0, 172800)"),
    ("query the.store --from A --at 99999999999999999999", "not a time"),
    ("query none --from A --at 8:00", "none: no such store"),
    ("query the.store q.csv -o new --profile none", "--profile none"),
]


@pytest.mark.parametrize(("words", "expect"), WRONG, ids=[words[:90] for words, _ in WRONG])
def test_one_line(made: Path, monkeypatch: pytest.MonkeyPatch, words: str, expect: str) -> None:
    """And nothing is left behind, nothing is changed."""
    monkeypatch.chdir(made)
    before = sorted(made.rglob("*"))
    line = refused(*words.split())
    assert [word for word in expect.split("|") if word not in line] == [], line
    assert sorted(made.rglob("*")) == before
    assert (made / "q.csv").read_text() == "origin,departure\nA,8:00\n"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("0 1 2", "row 1: 3 fields instead of `u v t lambda`"),
        ("# nothing\n\n", "no connections in it"),
        ("3 0", "no connections in it"),
        ("0 1 10 5\n0 1 x 5", "row 2: 'x' is not an integer"),
        ("0 1 10 5\n\n# note\n0 1 -1 5", "row 4: '-1' is not an integer"),
        ("0 1 10 1.5", "row 1: '1.5' is not an integer"),
        ("0 1 10 5\n0 1 10 5 6", "row 2: 5 fields"),
        ("0 1 2147483648 5", "row 1: '2147483648' is not an integer"),
        ("0 1 99999999999999999999 5", "row 1: '99999999999999999999' is not an integer"),
        ("2 1\n0 2 10 5", "vertex 2 is outside 0..1 of row 1"),
        ("3 2\n0 2 10 5", "row 1 promises 2 connections, and 1 follow"),
        ("3 x\n0 2 10 5", "row 1: 'x' is not an integer"),
        ("0 2147483647 1 1", "2147483647"),
        ("0 1 2147483647 2147483647", "row 1"),
        ("0 1 2147483646 5", "row 1"),
    ],
)
def test_wrong_connections(tmp_path: Path, lines: str, words: str) -> None:
    file = tmp_path / "paper.txt"
    file.write_text(lines)
    line = refused("build", "--connections", file, "-o", tmp_path / "new")
    assert str(file) in line
    assert words in line


DAMAGES = {
    "no manifest": lambda store: (store / "manifest.json").unlink(),
    "manifest cut": lambda store: _cut(store / "manifest.json"),
    "manifest empty": lambda store: (store / "manifest.json").write_text(""),
    "manifest list": lambda store: (store / "manifest.json").write_text("[]"),
    "other kind": lambda store: _edit(store, lambda manifest: manifest.update(kind="graph")),
    "other version": lambda store: _edit(store, lambda manifest: manifest.update(version=99)),
    "no numbers": lambda store: _edit(store, lambda manifest: manifest["meta"].pop("numbers")),
    "no facts": lambda store: _edit(store, lambda manifest: manifest["meta"].pop("facts")),
    "array lost": lambda store: (store / "profile.word.npy").unlink(),
    "array cut": lambda store: _cut(store / "profile.word.npy"),
    "array unlisted": lambda store: _edit(store, lambda manifest: manifest["files"].pop("profile.word.npy")),
    "array header": lambda store: _flip(store / "profile.word.npy", 3),
    "table lost": lambda store: (store / "places.parquet").unlink(),
    "table cut": lambda store: _cut(store / "places.parquet"),
    "table flipped": lambda store: _flip(store / "places.parquet", 40),
    "table unlisted": lambda store: _edit(store, lambda manifest: manifest["files"].pop("places.parquet")),
}


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _flip(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 0xFF
    file.write_bytes(data)


def _edit(store: Path, change) -> None:
    manifest = json.loads((store / "manifest.json").read_text())
    change(manifest)
    (store / "manifest.json").write_text(json.dumps(manifest, sort_keys=True, indent=1))


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_store(made: Path, tmp_path: Path, damage: str) -> None:
    """Every command that reads a store names it and what is wrong."""
    store = tmp_path / STORE
    shutil.copytree(made / STORE, store)
    DAMAGES[damage](store)
    output = tmp_path / "new"
    for words in (
        ("info", store),
        ("info", store, "--json", "--verify"),
        ("stops", store),
        ("query", store, "--from", "A", "--at", "8:00"),
        ("query", store, made / "q.csv", "-o", output),
    ):
        line = refused(*words)
        assert str(store) in line
        assert "; " in line
    assert not output.exists()


def test_verify_says_that_all_is_well(made: Path) -> None:
    assert headway("info", made / STORE, "--verify").err == f"headway: {made / STORE}: every checksum is right\n"
    assert headway("info", made / STORE).err == ""


def test_verify_finds_a_flipped_byte(made: Path, tmp_path: Path) -> None:
    store = tmp_path / STORE
    shutil.copytree(made / STORE, store)
    file = store / "cluster_ap.start.npy"
    _flip(file, file.stat().st_size - 1)
    assert "cluster_ap.start.npy: damaged" in refused("info", store, "--verify")


def test_real_process(made: Path) -> None:
    """The program itself: status, one line, no traceback."""
    program = Path(sys.executable).with_name("headway")
    run = subprocess.run([program, "info", made / "none"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == f"headway: {made / 'none'}: no such store; check the path, or build it first\n"


def test_strict_build(tmp_path: Path) -> None:
    files = tables("good: A 8:00, B 8:30\nbad: A 8:00, B 7:30")
    line = refused("build", write(tmp_path / "feed", files), "-o", tmp_path / "new", *DATE.split(), "--strict")
    assert "feed/stop_times.txt: a trip whose time runs backwards (bad); build without --strict" in line
    assert not (tmp_path / "new").exists()


def test_zip_bomb(tmp_path: Path) -> None:
    path = write(tmp_path / "bomb.zip", tables("t: A 8:00, B 8:30"))
    data = path.read_bytes()
    place = data.rfind(b"PK\1\2", 0, data.rfind(b"stop_times.txt"))
    path.write_bytes(data[: place + 24] + struct.pack("<I", 2**32 - 2) + data[place + 28 :])
    assert "bomb.zip: refused: it would unpack to 4 GB" in refused("build", path, "-o", tmp_path / "new", *DATE.split())
