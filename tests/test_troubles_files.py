"""Troubles of files: zips, encodings, line ends, quotes, sizes; and `--strict` on each cause of a drop."""

from __future__ import annotations

import contextlib
import struct
import time
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from conftest import build
from headway.pipeline.gtfs.reading import scan
from headway.pipeline.gtfs.report import Report
from headway.pipeline.gtfs.source import open_source
from headway.storage.errors import HeadwayError
from tiny import DAILY, STOP_TIMES, feed, reached, tables, times, write

PLAIN = tables("t: A 8:00, B 8:30")
EXPECT = times(A="8:00", B="8:30")


def check(path: Path) -> None:
    """Whatever the wrapping: A 8:00, B 8:30."""
    assert reached(path, "A", "8:00", "connection-scan") == EXPECT


def refused(path: Path, *words: str) -> str:
    """Building raises one line with these words; returned for more checks."""
    with pytest.raises(HeadwayError) as error:
        build([path])
    line = str(error.value)
    assert "\n" not in line
    assert [word for word in words if word not in line] == []
    return line


def test_bom_in_every_file(tmp_path: Path) -> None:
    check(write(tmp_path / "feed", PLAIN, encoding="utf-8-sig"))


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n\n", "\r\n\r\n"])
def test_line_ends(tmp_path: Path, end: str) -> None:
    check(write(tmp_path / "feed", {name: text.replace("\n", end).encode() for name, text in PLAIN.items()}))


def test_no_line_end_at_the_end(tmp_path: Path) -> None:
    check(write(tmp_path / "feed", {name: text.encode() for name, text in PLAIN.items()}))


@pytest.mark.parametrize("end", ["\n", "\r"])
@pytest.mark.parametrize("blank", ["", " ", "\t  "])
def test_quotes_and_blanks_before_them(tmp_path: Path, blank: str, end: str) -> None:
    """Every field in quotes, the header's too, with blanks before each."""

    def quoted(text: str) -> bytes:
        lines = [",".join(f'{blank}"{field}"' for field in line.split(",")) for line in text.split("\n")]
        return end.join(lines).encode()

    check(write(tmp_path / "feed", {name: quoted(text) for name, text in PLAIN.items()}))


def test_blank_before_the_first_quote_alone(tmp_path: Path) -> None:
    """Only the first line after the header has a blank before its quote."""
    check(write(tmp_path / "feed", PLAIN | {"stops": 'stop_id\n "A"\nB'}))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_breaks_and_quotes_in_quotes(tmp_path: Path, end: str) -> None:
    stops = f'stop_name,stop_id{end}"the ""first"",{end}{end}of two",A{end}"x,y",B'
    path = write(tmp_path / "feed", PLAIN | {"stops": stops.encode()})
    check(path)
    names = build([path]).timetable.places.table["name"].to_pylist()
    assert names == [f'the "first",{end}{end}of two', "x,y"]


def test_bare_quotes_in_fields(tmp_path: Path) -> None:
    """5" is a plain field that holds a quote."""
    check(write(tmp_path / "feed", PLAIN | {"stops": 'stop_name,stop_id\nat 5" pipe,A\nsize 5",B'}))


def test_short_and_long_lines(tmp_path: Path) -> None:
    """Missing fields are blank, fields beyond the header ignored; empty lines, columns without name."""
    files = PLAIN | {
        "stops": "stop_id,stop_name,,stop_lat,\nA\n\nB,b,,51,8,9,10,,,",
        "trips": "trip_id,service_id,block\nt,D\nu,D,,\n,,,,",
        "stop_times": f"{STOP_TIMES},pickup_type,drop_off_type\nt,A,8:00:00,8:00:00,1\nt,B,8:30:00,,2,0,0,,,9",
    }
    check(write(tmp_path / "feed", files))


def test_blanks_around_headers_and_values(tmp_path: Path) -> None:
    def spaced(text: str) -> str:
        return "\n".join(", \t".join(f" {field} " for field in line.split(",")) for line in text.split("\n"))

    check(write(tmp_path / "feed", {name: spaced(text) for name, text in PLAIN.items()}))


def test_unknown_and_repeated_columns(tmp_path: Path) -> None:
    """Of two columns of one name the first counts."""
    check(write(tmp_path / "feed", PLAIN | {"stops": "extra,stop_id,stop_id\nx,A,C\ny,B,D"}))


@pytest.mark.parametrize("table", ["stops", "agency", "stop_times"])
def test_latin_1(tmp_path: Path, table: str) -> None:
    """Read as Latin-1, with one warning that names the file."""
    stop_times = PLAIN["stop_times"].replace(",B,", ",Bö,")
    files = PLAIN | {"stops": "stop_id,stop_name\nA,Köln\nBö,b", "stop_times": stop_times}
    files |= {"agency": "agency_id,agency_name,agency_timezone\n1,Köln,Europe/Berlin"}
    texts = {name: text.encode("latin-1" if name == table else "utf-8") for name, text in files.items()}
    report = Report()
    path = write(tmp_path / "feed", texts)
    store = build([path], report=report)
    assert store.timetable.places.table.select(["id", "name"]).to_pydict() == {"id": ["A", "Bö"], "name": ["Köln", "b"]}
    assert report.warnings == [f"feed/{table}.txt is not UTF-8: read as Latin-1"]
    assert reached(path, "A", "8:00", "cluster-ap")["Bö"] == EXPECT["B"]


def test_utf_16(tmp_path: Path) -> None:
    refused(
        write(tmp_path / "feed", PLAIN | {"stops": "stop_id\nA\nB".encode("utf-16")}), "feed/stops.txt: row 1", "UTF-8"
    )


def test_macosx_and_subfolder(tmp_path: Path) -> None:
    """The shallowest folder with stop_times.txt, wherever the resource forks lie."""
    path = write(tmp_path / "feed.zip", PLAIN, inside="city/gtfs/")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("__MACOSX/stop_times.txt", b"\0\1")
        archive.writestr("__MACOSX/city/gtfs/._stop_times.txt", b"\0\1")
        archive.writestr("city/gtfs/old/deep/stop_times.txt", "trip_id\n")
        archive.writestr("city/readme.md", "hello")
    check(path)
    check(write(tmp_path / "folder", PLAIN, inside="inner/"))


def test_zip_in_a_zip(tmp_path: Path) -> None:
    """Alone it is no feed; beside the tables it is passed over."""
    inner = write(tmp_path / "inner.zip", PLAIN).read_bytes()
    with zipfile.ZipFile(path := tmp_path / "outer.zip", "w") as archive:
        archive.writestr("inner.zip", inner)
    refused(path, "outer.zip: no stop_times.txt in it: not a GTFS feed")
    with zipfile.ZipFile(path := write(tmp_path / "feed.zip", PLAIN), "a") as archive:
        archive.writestr("inner.zip", inner)
    check(path)


def patched(path: Path, offset: int, value: bytes) -> Path:
    """Overwrite bytes of every entry of a zip's central directory."""
    data = bytearray(path.read_bytes())
    place = data.find(b"PK\1\2")
    while place >= 0:
        data[place + offset : place + offset + len(value)] = value
        place = data.find(b"PK\1\2", place + 1)
    path.write_bytes(data)
    return path


def test_zip_that_would_unpack_to_hundreds_of_gigabytes(tmp_path: Path) -> None:
    """The sizes that its directory declares: 5 members of 4 GiB, and one of 300 GB in zip64."""
    path = write(tmp_path / "bomb.zip", PLAIN)
    patched(path, 24, struct.pack("<I", 2**32 - 2))
    refused(path, "bomb.zip: refused: it would unpack to 21 GB")
    with zipfile.ZipFile(path := tmp_path / "huge.zip", "w") as archive:
        for name, text in PLAIN.items():
            archive.writestr(f"{name}.txt", text)
        archive.getinfo("stop_times.txt").file_size = 300 * 10**9
    refused(path, "huge.zip: refused: it would unpack to 300 GB", "unpack it and give the folder")


def test_bits_that_are_no_deflate(tmp_path: Path) -> None:
    """Every byte of the packed table spoilt in turn, but the last, which is filled up with bits of no meaning."""
    lines = [STOP_TIMES, *(f"t{n * n % 97},A,8:00:00,8:00:00,{n}" for n in range(30))]
    with zipfile.ZipFile(path := tmp_path / "feed.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in (PLAIN | {"stop_times": "\n".join(lines)}).items():
            archive.writestr(f"{name}.txt", text)
        info = archive.getinfo("stop_times.txt")
    data = path.read_bytes()
    begin = info.header_offset + 30 + len("stop_times.txt")
    for place in range(begin, begin + info.compress_size - 1):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        with pytest.raises(HeadwayError, match=r"feed/stop_times\.txt: damaged at row 1 or after"):
            list(scan(open_source(path), "stop_times.txt", Report()))


def test_zip_that_holds_more_than_it_declares(tmp_path: Path) -> None:
    with zipfile.ZipFile(path := tmp_path / "feed.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in PLAIN.items():
            archive.writestr(f"{name}.txt", text)
        archive.getinfo("stop_times.txt").file_size = 70
    refused(path, "feed/stop_times.txt: damaged")


@pytest.mark.parametrize("member", ["../stops.txt", "a/../../x", "/etc/passwd", "..\\x.txt", "\\x.txt"])
def test_zip_with_members_outside(tmp_path: Path, member: str) -> None:
    path = write(tmp_path / "feed.zip", PLAIN)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(member, "x")
    refused(path, "feed.zip: refused: its member", "points outside the archive")


def test_encrypted_zip(tmp_path: Path) -> None:
    path = patched(write(tmp_path / "feed.zip", PLAIN), 8, b"\1\0")
    refused(path, "feed.zip: agency.txt is encrypted; unpack it")


def test_zip_of_a_method_that_python_lacks(tmp_path: Path) -> None:
    path = patched(write(tmp_path / "feed.zip", PLAIN), 10, b"\x63\0")
    refused(path, "feed/agency.txt")


@pytest.mark.parametrize("keep", [0, 1, 10, 200, -30, -1])
def test_truncated_zip(tmp_path: Path, keep: int) -> None:
    path = write(tmp_path / "feed.zip", PLAIN)
    path.write_bytes(path.read_bytes()[:keep])
    refused(path, "feed.zip: not a readable zip", "give the folder")


def test_flipped_bytes_in_a_zip(tmp_path: Path) -> None:
    """A line, or the right answer; never anything else."""
    whole = write(tmp_path / "feed.zip", PLAIN).read_bytes()
    for place in range(0, len(whole), 37):
        data = bytearray(whole)
        data[place] ^= 0xFF
        path = tmp_path / "bad.zip"
        path.write_bytes(data)
        with contextlib.suppress(HeadwayError):
            assert build([path]).facts["counts"]["connections"] == 1


@pytest.mark.parametrize("form", ["feed", "feed.zip"])
@pytest.mark.parametrize("table", ["stops", "trips", "stop_times", "calendar_dates"])
def test_missing_required_file(tmp_path: Path, table: str, form: str) -> None:
    files = {name: text for name, text in PLAIN.items() if name != table}
    line = refused(write(tmp_path / form, files), form)
    assert table in line


@pytest.mark.parametrize("table", ["stops", "trips", "stop_times"])
@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf"])
def test_required_file_of_zero_bytes(tmp_path: Path, table: str, content: bytes) -> None:
    refused(write(tmp_path / "feed", PLAIN | {table: content}), "feed", ";")


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("stops", "stop_id"),
        ("trips", "trip_id"),
        ("trips", "service_id"),
        ("stop_times", "trip_id"),
        ("stop_times", "stop_id"),
        ("stop_times", "stop_sequence"),
        ("stop_times", "arrival_time"),
        ("stop_times", "departure_time"),
        ("calendar_dates", "service_id"),
        ("calendar_dates", "date"),
        ("calendar_dates", "exception_type"),
        ("calendar", "service_id"),
        ("calendar", "start_date"),
        ("calendar", "end_date"),
    ],
)
def test_missing_required_column(tmp_path: Path, table: str, column: str) -> None:
    files = tables("t: A 8:00, B 8:30", calendar=DAILY)
    files[table] = files[table].replace(column, "wrong", 1)
    refused(write(tmp_path / "feed", files), f"feed/{table}.txt: row 1: no column {column} (it has ", "add it")


def test_folder_where_a_table_should_be(tmp_path: Path) -> None:
    path = write(tmp_path / "feed", PLAIN)
    (path / "transfers.txt").mkdir()
    refused(path, "feed/transfers.txt")


def test_line_of_100_megabytes(tmp_path: Path) -> None:
    """One line that names file and row, after at most some 40 MB were read."""
    path = write(tmp_path / "feed", PLAIN)
    with (path / "stops.txt").open("w") as file:
        file.write("stop_id\nA\nB\n")
        for _ in range(100):
            file.write("x" * 1_000_000)
        file.write("\nC\n")
    tracemalloc.start()
    begun = time.perf_counter()
    refused(path, "feed/stops.txt: row 4 is longer than 32 MiB", "mend the file")
    assert time.perf_counter() - begun < 5
    assert tracemalloc.get_traced_memory()[1] < 200_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("quote", ["", '"', ' "'])
@pytest.mark.parametrize("row", [1, 2, 3])
def test_field_of_a_megabyte(tmp_path: Path, row: int, quote: str) -> None:
    """A long field, in quotes or not, is no trouble."""
    lines = ["stop_id,stop_name", "A,a", "B,b"]
    lines[row - 1] += f",{quote}{'x' * 1_000_000}{quote.strip()}"
    check(write(tmp_path / "feed", PLAIN | {"stops": "\n".join(lines)}))


def test_damage_far_inside_names_a_row(tmp_path: Path) -> None:
    """The checksum of stop_times.txt is wrong, which shows at its end: thousands of lines are read before."""
    lines = [STOP_TIMES, *(f"t,A,8:00:00,8:00:00,{n:080}" for n in range(100_000))]
    path = write(tmp_path / "feed.zip", PLAIN | {"stop_times": "\n".join(lines)})
    data = path.read_bytes()
    place = data.rfind(b"PK\1\2", 0, data.rfind(b"stop_times.txt"))
    path.write_bytes(data[: place + 16] + b"\1\2\3\4" + data[place + 20 :])
    line = refused(path, "feed/stop_times.txt: damaged at row", "fetch it again")
    assert 70_000 < int(line.split("at row ")[1].split()[0]) < 100_000


TWO = "good: A 8:00, B 8:30\n"
CAUSES = {
    "malformed time": ("stop_times", {"stop_times": "bad,A,8:05,8:05,1\nbad,B,9:00:00,9:00:00,2"}, "bad"),
    "unknown or no stop": ("stop_times", {"stop_times": "bad,A,8:05:00,,1\nbad,Z,9:00:00,,2"}, "bad"),
    "malformed stop_sequence": ("stop_times", {"stop_times": "bad,A,8:05:00,,x\nbad,B,9:00:00,,2"}, "bad"),
    "two different lines of one stop_sequence": (
        "stop_times",
        {"stop_times": "bad,A,8:05:00,,2\nbad,B,9:00:00,,2"},
        "bad",
    ),
    "first or last stop is untimed": ("stop_times", {"stop_times": "bad,A,8:05:00,,1\nbad,B,,,2"}, "bad"),
    "backwards": ("stop_times", {"stop_times": "bad,A,8:05:00,,1\nbad,B,8:04:00,,2"}, "bad"),
    "without stop_id": ("stop_times", {"stop_times": "bad,,8:05:00,,1"}, "bad"),
    "trips.txt lacks": ("stop_times", {"stop_times": "ghost,A,8:05:00,,1"}, "ghost"),
    "repeated stop_id": ("stops", {"stops": "A,1,1"}, "A"),
    "repeated trip_id": ("trips", {"trips": "R,E,good"}, "good"),
    "exception_type": ("calendar_dates", {"calendar_dates": "D,20260611,3"}, "D"),
    "malformed date": ("calendar_dates", {"calendar_dates": "D,20260231,1"}, "D"),
    "malformed date in calendar": ("calendar", {"calendar": "E,1,1,1,1,1,1,1,20260101,2026-12-31"}, "E"),
    "bad line": ("frequencies", {"frequencies": "good,8:00:00,9:00:00,-5"}, "good"),
    "transfer_type": ("transfers", {"transfers": "A,B,9"}, "A"),
    "stop that is unknown": ("transfers", {"transfers": "A,Z,2"}, "A"),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_strict_on_each_cause(tmp_path: Path, cause: str) -> None:
    """Without --strict it is counted once with its id; with it, one line that names file, cause and id."""
    table, lines, first = CAUSES[cause]
    files = tables(
        TWO,
        calendar=DAILY,
        trips="route_id,service_id,trip_id\nR,D,good\nR,D,bad",
        frequencies="trip_id,start_time,end_time,headway_secs",
        transfers="from_stop_id,to_stop_id,transfer_type",
    )
    files |= {name: f"{files[name]}\n{text}" for name, text in lines.items()}
    path = write(tmp_path / "feed", files)
    report = Report()
    build([path], report=report)
    (entry,) = report.dropped.values()
    assert (entry.file, entry.count, entry.first) == (f"feed/{table}.txt", 1, [first])
    assert cause.removesuffix(" in calendar") in entry.cause
    with pytest.raises(HeadwayError) as error:
        build([path], report=Report(strict=True))
    assert str(error.value).startswith(f"feed/{table}.txt: ")
    assert f"({first}); build without --strict" in str(error.value)


def test_more_drops_than_ids_in_the_report(tmp_path: Path) -> None:
    """Seven trips with `8:05`: all are counted, the first five named in order; --strict names the first."""
    bad = "".join(f"\nbad{n},A,8:05,,1\nbad{n},B,9:00:00,,2" for n in range(7))
    files = tables(f"{tables(TWO)['stop_times']}{bad}")
    path = write(tmp_path / "feed", files)
    report = Report()
    build([path], report=report)
    (entry,) = report.dropped.values()
    assert (entry.count, entry.first) == (7, [f"bad{n}" for n in range(5)])
    with pytest.raises(HeadwayError, match=r"^feed/stop_times.txt: a trip with a malformed time \(bad0\); build"):
        build([path], report=Report(strict=True))


@pytest.mark.parametrize("date", ["２０２６０６１１", "2026061²", "+2026611", "2026-6-1", "20260631"])
def test_dates_that_are_none(tmp_path: Path, date: str) -> None:
    """Eight decimal digits of another script are no date either; the line is counted."""
    report = Report()
    path = feed(tmp_path, TWO, calendar_dates=f"service_id,date,exception_type\nD,20260610,1\nD,{date},1")
    build([path], report=report)
    assert [(entry.cause, entry.first) for entry in report.dropped.values()] == [
        ("a line with a malformed date", ["D"])
    ]


def test_strict_on_a_feed_without_trouble(tmp_path: Path) -> None:
    build([feed(tmp_path, TWO)], report=Report(strict=True))
