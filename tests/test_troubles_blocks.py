"""Troubles of files that are read in several blocks: the same store as from one block."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from conftest import build
from headway.kernels.text import line_ends
from headway.pipeline import blocks
from headway.pipeline.gtfs.report import Report
from headway.storage.errors import HeadwayError
from hypothesis import given
from hypothesis import strategies as st
from tiny import STOP_TIMES, reached, tables, times, write

PLAIN = tables("t: A 8:00, B 8:30")
EXPECT = times(A="8:00", B="8:30")


def contents(path: Path) -> dict:
    """What a build makes of a feed: stops, trips, footpaths, drops, warnings."""
    report = Report()
    table = build([path], report=report).timetable
    found = {name: value.tolist() for name, value in vars(table.trips).items() if isinstance(value, np.ndarray)}
    found |= {f"walk {name}": value.tolist() for name, value in vars(table.footpaths).items()}
    found["ids"] = table.trips.ids.to_pylist()
    dropped = [(entry.file, entry.cause, entry.count, entry.first) for entry in report.dropped.values()]
    return found | {"places": table.places.table.to_pydict(), "dropped": dropped, "warnings": report.warnings}


# Two trips; names with quotes, line breaks and blanks; ragged and empty lines; t's second line twice, u dropped.
STOPS = (
    'stop_id,stop_name,stop_lat,stop_lon\nA,"the ""first"",\n\nof two",50,8\n\nB, "x, ""y"" ",51,8,9\nC,5" pipe\nD,\n'
)
ROWS = (
    f"{STOP_TIMES},headsign\nt,A,8:00:00,8:00:00,1,\nu,A,7:00:00,,1\nt,B,8:30:00,8:30:00,2,x\nt,B,8:30:00,8:30:00,2,x\n"
    't,C,9:00:00,9:00:00,3,"to\nD"\nu,B,8:05,,2,\nt,,,,4\nghost,A,,,1\nt,D,9:10:00,,5,"a, ""b"""\n'
)
FULL = PLAIN | {"stops": STOPS, "stop_times": ROWS, "trips": "service_id,trip_id\nD,t\nD,u\n"}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("block", [1, 2, 7, 40])
def test_blocks_of_a_few_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, end: str) -> None:
    """t: A 8:00, B 8:30, C 9:00, D 9:10; what is dropped and named is the same too."""
    path = write(tmp_path / "feed", {name: text.replace("\n", end).encode() for name, text in FULL.items()})
    whole = contents(path)
    assert whole["ids"] == ["t"]
    assert whole["departure"] == [28800, 30600, 32400, 33000]
    assert whole["places"]["name"] == [f'the "first",{end}{end}of two', 'x, "y"', '5" pipe', ""]
    assert len(whole["dropped"]) == 3
    monkeypatch.setattr(blocks, "BLOCK", block)
    assert contents(path) == whole


def test_bare_quote_before_a_quoted_line_break(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """5" is no opening quote, so the line break in b's name is inside and no block ends there."""
    path = write(tmp_path / "feed", PLAIN | {"stops": 'stop_id,stop_name\nA,5" pipe\nB,"x\ny"\n'})
    monkeypatch.setattr(blocks, "BLOCK", 4)
    assert contents(path)["places"]["name"] == ['5" pipe', "x\ny"]


def test_long_file_after_a_bare_quote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One 5" at the front is no quote that never closes, however long the file."""
    monkeypatch.setattr(blocks, "BLOCK", 100)
    monkeypatch.setattr(blocks, "LONGEST_LINE", 1000)
    lines = ['stop_id,stop_name\nA,5" pipe\nB,b', *(f"S{n},s" for n in range(1000))]
    path = write(tmp_path / "feed", PLAIN | {"stops": "\n".join(lines)})
    assert len(contents(path)["places"]["id"]) == 1002
    path = write(tmp_path / "feed", PLAIN | {"stops": "\n".join(lines).replace("S9,s", 'S9,"s')})
    with pytest.raises(HeadwayError, match=r"^feed/stops.txt: row \d+ is longer than .* quote that never closes"):
        contents(path)


@pytest.mark.parametrize("block", [30, 8 << 20])
@pytest.mark.parametrize("table", ["stops", "stop_times"])
def test_latin_1_after_the_first_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, block: int) -> None:
    """The bad byte comes when lines were taken already, before t's twofold line: A 8:00, B 8:30; one warning."""
    rows = "t,A,8:00:00,8:00:00,1,\nu,A,8:05:00,,1,\nu,B,8:40:00,,2,Köln\n" + "t,B,8:30:00,8:30:00,2,\n" * 2
    files = FULL | {"stops": "stop_id,stop_name\nA,\nB,b\nC,c\nD,Köln\n", "stop_times": f"{STOP_TIMES},x\n{rows}"}
    monkeypatch.setattr(blocks, "BLOCK", block)
    path = write(
        tmp_path / "feed",
        {name: text.encode("latin-1" if name == table else "utf-8") for name, text in files.items()},
    )
    found = contents(path)
    assert found["dropped"] == []
    assert found["ids"] == ["t", "u"]
    assert found["places"]["name"][3] == "Köln"
    assert found["warnings"] == [f"feed/{table}.txt is not UTF-8: read as Latin-1"]
    assert reached(path, "A", "8:00", "connection-scan") == EXPECT


def test_latin_1_after_eight_mebibytes(tmp_path: Path) -> None:
    """The same with the block as it is: 100,000 lines of a trip that nothing names, then a bad byte."""
    rows = [PLAIN["stop_times"] + ",x", *["none,A,8:00:00,8:00:00,1," + "x" * 70] * 90_000, "none,A,,,1,Köln\n"]
    assert sum(map(len, rows)) > blocks.BLOCK
    path = write(tmp_path / "feed", PLAIN | {"stop_times": "\n".join(rows).encode("latin-1")})
    found = contents(path)
    assert found["departure"] == [28800, 30600]
    assert found["warnings"] == ["feed/stop_times.txt is not UTF-8: read as Latin-1"]
    assert found["dropped"][0][2:] == (90_001, ["none"] * 5)


@pytest.mark.parametrize("start", ["\n", "\r\n\r\n", "\r", "\ufeff\n\n"])
def test_empty_lines_before_the_header(tmp_path: Path, start: str) -> None:
    path = write(tmp_path / "feed", {name: (start + text).encode() for name, text in PLAIN.items()})
    assert reached(path, "A", "8:00", "connection-scan") == EXPECT


def test_line_break_in_the_header(tmp_path: Path) -> None:
    path = write(tmp_path / "feed", PLAIN | {"stops": '"stop\nname, ""x""",stop_id\nx,A\ny,B'})
    assert reached(path, "A", "8:00", "connection-scan") == EXPECT


def test_line_feed_in_quotes_where_lines_end_in_carriage_returns(tmp_path: Path) -> None:
    path = write(tmp_path / "feed", PLAIN | {"stops": b'stop_name,stop_id\r"x\nz",A\ry,B\r'})
    assert contents(path)["places"]["name"] == ["x\nz", "y"]


def test_nul_bytes(tmp_path: Path) -> None:
    """In a name they stay; a time with one is malformed; a file of nothing else has no columns."""
    path = write(tmp_path / "feed", PLAIN | {"stops": "stop_id,stop_name\nA,a\0b\nB,\0", "transfers": b"\0" * 100})
    assert contents(path)["places"]["name"] == ["a\0b", "\0"]
    assert reached(path, "A", "8:00", "connection-scan") == EXPECT
    late = "\nu,A,7:00:00,7:00:00,1\nu,B,7:30:00\0,,2"
    found = contents(
        write(path, PLAIN | {"stop_times": PLAIN["stop_times"] + late, "trips": "service_id,trip_id\nD,t\nD,u"})
    )
    assert found["dropped"] == [("feed/stop_times.txt", "a trip with a malformed time", 1, ["u"])]
    write(path, PLAIN | {"stops": b"\0" * 100 + b"\n\0"})
    with pytest.raises(HeadwayError, match=r"^feed/stops.txt: row 1: no column stop_id"):
        contents(path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("table", sorted(PLAIN))
def test_utf_16_with_and_without_bom(tmp_path: Path, table: str, encoding: str) -> None:
    path = write(tmp_path / "feed", PLAIN | {table: PLAIN[table].encode(encoding)})
    with pytest.raises(HeadwayError, match=rf"^feed/{table}.txt: row 1: UTF-16 text; save the file as UTF-8$"):
        contents(path)


PIECES = st.lists(
    st.sampled_from(["a", ",", "\n", "\r\n", '"', '""', ' "', '"x\ny"', '"x, ""y"', " ", "é"]), max_size=30
)


def parsed(data: bytes, block: int) -> list[dict]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", block)
        found = list(blocks.read_blocks(io.BytesIO(b"p,q,r\n" + data), "x"))
    assert [part.first for part in found] == [number == 0 for number in range(len(found))]
    return [row for part in found for row in part.parse(dict.fromkeys("pqr", pa.string())).to_pylist()]


@given(PIECES, st.integers(1, 9))
def test_any_text_in_blocks_is_that_text(pieces: list[str], block: int) -> None:
    """Rows of small blocks are those of one block, and a line ends where Python's reader sees it end."""
    data = "".join(pieces).encode()
    if line_ends(np.frombuffer(data, np.uint8))[2]:
        for size in (block, 1 << 20):
            with pytest.raises(HeadwayError, match="a quote opens and never closes; mend the file"):
                parsed(data, size)
        return
    assert parsed(data, block) == parsed(data, 1 << 20)
    whole = list(blocks._rows(data))
    for cut in line_ends(np.frombuffer(data + b" ", np.uint8))[:2]:
        assert [*blocks._rows(data[:cut]), *blocks._rows(data[cut:])] == whole


def test_quote_that_never_closes(tmp_path: Path) -> None:
    """It swallowed the rest of a small file in silence: A's name, and stop B with it."""
    feed = write(tmp_path / "feed", PLAIN | {"stops": 'stop_id,stop_name\nA,"open\nB,b'})
    with pytest.raises(HeadwayError, match=r"^feed/stops\.txt: row 2 or after: a quote opens and never closes; mend"):
        build([feed])


@pytest.mark.parametrize(("table", "header"), [("stops", "stop_id"), ("trips", "trip_id,service_id")])
def test_required_table_without_lines(tmp_path: Path, table: str, header: str) -> None:
    """It ended in "no departure", which is no way out."""
    for number, text in enumerate(("", header)):
        feed = write(tmp_path / str(number), PLAIN | {table: text})
        with pytest.raises(HeadwayError, match=f"^{number}/{table}.txt: it holds no lines; fetch the feed again$"):
            build([feed])
