"""Troubles of public timetables, one by one: tiny feeds, arrivals worked by hand, every engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import answers, build
from headway.pipeline.engines import ALGORITHMS, algorithms_for
from headway.pipeline.gtfs.report import Report
from headway.storage.errors import HeadwayError
from tiny import DAILY, STOP_TIMES, WEEK, clock, feed, reached, tables, times, write

OPTIONAL = ("agency", "calendar", "frequencies", "transfers")
HEADERS = {
    "agency": "agency_id,agency_timezone",
    "calendar": WEEK,
    "frequencies": "trip_id,start_time,end_time,headway_secs",
    "transfers": "from_stop_id,to_stop_id,transfer_type",
}


def test_trip_of_the_evening_before(tmp_path: Path, algorithm: str) -> None:
    """A trip of the 9th alone: A 24:50, B 25:10, C 25:30; on the 10th at 0:55 it is between A and B."""
    path = feed(
        tmp_path,
        "t: A 24:50, B 25:10, C 25:30\nu: X 8:00, Y 9:00",
        trips="service_id,trip_id\nE,t\nD,u",
        calendar_dates="service_id,date,exception_type\nE,20260609,1\nD,20260610,1",
    )
    assert reached(path, "A", "0:50", algorithm) == times(A="0:50", B="1:10", C="1:30")
    assert reached(path, "A", "0:51", algorithm) == times(A="0:51")
    assert reached(path, "B", "1:00", algorithm) == times(B="1:00", C="1:30")


def test_trip_that_crosses_midnight_of_the_first_date(tmp_path: Path, algorithm: str) -> None:
    """A trip of the 9th: A 23:50, B 24:00, C 24:10. A is left before the store begins, B in its first second."""
    path = feed(
        tmp_path,
        "t: A 23:50, B 24:00, C 24:10\nu: X 8:00, Y 9:00",
        trips="service_id,trip_id\nE,t\nD,u",
        calendar_dates="service_id,date,exception_type\nE,20260609,1\nD,20260610,1",
    )
    assert reached(path, "A", "0:00", algorithm) == times(A="0:00")
    assert reached(path, "B", "0:00", algorithm) == times(B="0:00", C="0:10")


def test_calendar_dates_alone(tmp_path: Path, algorithm: str) -> None:
    """No calendar.txt; A 8:00, B 8:30 on the 10th and 12th, on the 11th added and removed."""
    path = feed(
        tmp_path,
        "t: A 8:00, B 8:30",
        calendar_dates="service_id,date,exception_type\nD,20260610,1\nD,20260611,1\nD,20260611,2\nD,20260612,1",
    )
    assert not (path / "calendar.txt").exists()
    assert reached(path, "A", "7:00", algorithm, build__days=3) == times(A="7:00", B="8:30")
    assert reached(path, "A", "8:01", algorithm, build__days=3) == times(A="8:01", B="56:30")


def test_calendar_alone(tmp_path: Path, algorithm: str) -> None:
    """Wednesdays only, A 8:00, B 8:30: from Wednesday 8:01 a week passes."""
    files = tables("t: A 8:00, B 8:30", calendar=f"{WEEK}\nD,0,0,1,0,0,0,0,20260601,20260630")
    del files["calendar_dates"]
    path = write(tmp_path / "feed", files)
    assert reached(path, "A", "8:01", algorithm, build__days=8) == times(A="8:01", B="176:30")


@pytest.mark.parametrize("content", ["nothing", "blank lines", "header"])
@pytest.mark.parametrize("table", OPTIONAL)
def test_optional_file_without_rows(tmp_path: Path, table: str, content: str) -> None:
    """A 8:00, B 8:30; the file is of zero bytes, of line ends, or its header only."""
    files = tables("t: A 8:00, B 8:30")
    text = {"nothing": b"", "blank lines": b"\r\n\n", "header": HEADERS[table].encode()}[content]
    path = write(tmp_path / "feed", files | {table: text})
    assert reached(path, "A", "8:00", "cluster-ap") == times(A="8:00", B="8:30")


@pytest.mark.parametrize("content", [b"", b"\n", b"service_id,date,exception_type"])
def test_calendar_dates_without_rows(tmp_path: Path, content: bytes) -> None:
    """The same of calendar_dates.txt, beside a calendar.txt."""
    files = tables("t: A 8:00, B 8:30", calendar=f"{WEEK}\nD,1,1,1,1,1,1,1,20260601,20260630")
    path = write(tmp_path / "feed", files | {"calendar_dates": content})
    assert reached(path, "A", "8:00", "cluster-ap") == times(A="8:00", B="8:30")


def test_flexible_rows_without_stop(tmp_path: Path, algorithm: str) -> None:
    """A 8:00, a zone with a window 8:00-9:00, B 8:10, C 8:30: the zone is skipped, wherever it stands."""
    text = f"{STOP_TIMES},start_pickup_drop_off_window\nt,,,,0,8:00:00\nt,A,8:00:00,8:00:00,1,\n"
    text += "t,,,,2,8:00:00\nt,B,8:10:00,8:10:00,3,\nt,C,8:30:00,8:30:00,4,\nt,,,,5,8:00:00"
    report = Report()
    store = build([feed(tmp_path, text)], report=report)
    assert answers(store, [("A", clock("8:00"))], algorithm) == [times(A="8:00", B="8:10", C="8:30")]
    (entry,) = report.dropped.values()
    assert (entry.count, entry.first) == (3, ["t", "t", "t"])


def test_untimed_line_at_the_stop_of_its_neighbour(tmp_path: Path, algorithm: str) -> None:
    """A 8:00, B 8:10, B -, C -, D 8:30: the second B goes; C lies halfway from 8:10 to 8:30."""
    path = feed(tmp_path, "t: A 8:00, B 8:10, B -, C -, D 8:30")
    assert reached(path, "A", "8:00", algorithm) == times(A="8:00", B="8:10", C="8:20", D="8:30")


def test_untimed_lines_before_and_around_their_neighbour(tmp_path: Path, algorithm: str) -> None:
    """A -, A 8:00, B -, B 8:10/8:12, C -, C -, D 8:30: both C are untimed, so one stays, halfway from 8:12 to 8:30."""
    path = feed(tmp_path, "t: A -, A 8:00, B -, B 8:10/8:12, C -, C -, D 8:30")
    assert reached(path, "A", "8:00", algorithm) == times(A="8:00", B="8:10", C="8:21", D="8:30")


def test_interpolation_rounds_down(tmp_path: Path, algorithm: str) -> None:
    """A 8:00, B -, C -, D 8:01/8:02: 60 s over three hops are 20 s each, over four (E F G) 15 s; 100 s round down."""
    path = feed(tmp_path, "t: A 8:00, B -, C -, D 8:01/8:02, E -, F -, G 8:03:40".replace("8:03:40", "8:04"))
    found = reached(path, "A", "8:00", algorithm)
    assert found == times(A="8:00", B="8:00:20", C="8:00:40", D="8:01", E="8:02:40", F="8:03:20", G="8:04")
    text = f"{STOP_TIMES}\nt,A,8:00:00,8:00:00,1\nt,B,,,2\nt,C,,,3\nt,D,8:01:40,8:01:40,4"
    expect = times(A="8:00", B="8:00:33", C="8:01:06", D="8:01:40")
    assert reached(feed(tmp_path, text), "A", "8:00", algorithm) == expect


def test_one_of_two_times(tmp_path: Path, algorithm: str) -> None:
    """A -/8:00, B 8:10/-, C 8:20: an arrival is the departure, and the other way round."""
    text = f"{STOP_TIMES}\nt,A,,8:00:00,1\nt,B,8:10:00,,2\nt,C,8:20:00,,3"
    path = feed(tmp_path, text)
    assert reached(path, "A", "8:00", algorithm) == times(A="8:00", B="8:10", C="8:20")
    assert reached(path, "B", "8:10", algorithm) == times(B="8:10", C="8:20")


def restricted(folder: Path, pickup: str, drop_off: str) -> Path:
    """A 8:00, B 8:10, C 8:20, D 8:30 with a digit a stop for pick-up and drop-off."""
    lines = [f"{STOP_TIMES},pickup_type,drop_off_type"]
    for number, stop in enumerate("ABCD"):
        time = f"8:{number}0:00"
        lines.append(f"t,{stop},{time},{time},{number},{pickup[number]},{drop_off[number]}")
    return feed(folder, "\n".join(lines))


@pytest.mark.parametrize(
    ("pickup", "drop_off", "origin", "expect"),
    [
        # Nobody alights at B; nobody boards there; neither; runs of them.
        ("0000", "0100", "A", times(A="8:00", C="8:20", D="8:30")),
        ("0100", "0000", "A", times(A="8:00", B="8:10", C="8:20", D="8:30")),
        ("0100", "0000", "B", times(B="8:00")),
        ("0100", "0100", "A", times(A="8:00", C="8:20", D="8:30")),
        ("0110", "0110", "A", times(A="8:00", D="8:30")),
        ("0110", "0000", "A", times(A="8:00", B="8:10", C="8:20", D="8:30")),
        ("0000", "0110", "A", times(A="8:00", D="8:30")),
        ("0000", "0110", "B", times(B="8:00", D="8:30")),
        ("0110", "0010", "A", times(A="8:00", B="8:10", D="8:30")),
        ("1000", "0000", "A", times(A="8:00")),
        ("0000", "0001", "A", times(A="8:00", B="8:10", C="8:20")),
        # 2 (phone) and 3 (driver), blanks and words allow.
        ("0230", "0320", "A", times(A="8:00", B="8:10", C="8:20", D="8:30")),
        ("0 x0", "0x 0", "A", times(A="8:00", B="8:10", C="8:20", D="8:30")),
    ],
)
def test_pick_up_and_drop_off(tmp_path: Path, pickup: str, drop_off: str, origin: str, expect: dict) -> None:
    path = restricted(tmp_path, pickup, drop_off)
    for subtrips in ("none", "sqrt-trip"):
        store = build([path], build__subtrips=subtrips)
        for algorithm in ALGORITHMS:
            assert answers(store, [(origin, clock("8:00"))], algorithm) == [expect], (subtrips, algorithm)


# A to B and B to C: 0.001 degrees of latitude are 111.2 m, ceil(111.19508 / 1.2) = 93 s; A to C 186 s.
NEAR = "stop_id,stop_lat,stop_lon\nA,52.000,13\nB,52.001,13\nC,52.002,13\nX,10,10\nY,11,11"


@pytest.mark.parametrize(
    ("lines", "expect"),
    [
        ("", {"A": 0, "B": 93, "C": 186}),
        ("A,B,0,", {"A": 0, "B": 93, "C": 186}),
        ("A,B,,60", {"A": 0, "B": 93, "C": 186}),
        ("A,B,0,100\nA,C,0,", {"A": 0, "B": 100, "C": 186}),
        ("A,B,1,150\nA,C,1,170", {"A": 0, "B": 150, "C": 186}),
        ("A,B,2,5", {"A": 0, "B": 5, "C": 98}),
        ("A,B,2,0", {"A": 0, "B": 0, "C": 93}),
        ("A,B,2,", {"A": 0, "B": 93, "C": 186}),
        ("A,B,3,", {"A": 0, "C": 186, "B": 279}),
        ("A,B,3,\nC,B,3,", {"A": 0, "C": 186}),
        # A type 3 wins over every other row of its pair; else the least time.
        ("A,B,2,5\nA,B,3,\nA,B,2,6\nC,B,3,", {"A": 0, "C": 186}),
        ("A,B,2,50\nA,B,2,40\nA,B,0,400", {"A": 0, "B": 40, "C": 133}),
        # Types 4 and 5 are about trips and say nothing; 6 is ignored.
        ("A,B,4,1\nA,B,5,1\nA,B,6,1", {"A": 0, "B": 93, "C": 186}),
        ("A,nowhere,2,1", {"A": 0, "B": 93, "C": 186}),
        ("A,B,2,-5\nA,C,2,x", {"A": 0, "B": 93, "C": 186}),
    ],
)
def test_transfer_types(tmp_path: Path, lines: str, expect: dict[str, int]) -> None:
    """A, B, C in a row, 93 s on foot between neighbours; a bus elsewhere, so that there is a timetable."""
    transfers = f"from_stop_id,to_stop_id,transfer_type,min_transfer_time\n{lines}"
    path = feed(tmp_path, "t: X 8:00, Y 9:00", stops=NEAR, transfers=transfers)
    for walk, reach in (("default", expect), ("none", {"A": 0})):
        store = build([path], walk__mode=walk)
        for algorithm in algorithms_for(store):
            assert answers(store, [("A", 0)], algorithm) == [reach], (walk, algorithm)


@pytest.mark.parametrize(
    ("day", "next_day", "eve"),
    [
        # Europe/Berlin: clocks go forward on 2026-03-29, back on 2026-10-25. A day begins at noon minus 12 h.
        ("2026-03-28", "31:00:00", "1:30:00"),  # 23 hours to the next day's 0:00
        ("2026-03-29", "32:00:00", "2:30:00"),  # 23 hours since the day before's
        ("2026-03-30", "32:00:00", "1:30:00"),
        ("2026-10-24", "33:00:00", "1:30:00"),
        ("2026-10-25", "32:00:00", "0:30:00"),
        ("2026-10-26", "32:00:00", "1:30:00"),
    ],
)
def test_days_of_23_and_25_hours(tmp_path: Path, algorithm: str, day: str, next_day: str, eve: str) -> None:
    """Daily A 8:00, B 8:30 and C 25:30, D 26:00."""
    path = feed(tmp_path, "t: A 8:00, B 8:30\nu: C 25:30, D 26:00", calendar=DAILY)
    store = build([path], day)
    queries = [("A", clock("8:00")), ("A", clock("8:01")), ("C", 0)]
    first, second, night = answers(store, queries, algorithm)
    assert first["B"] == clock("8:30")
    assert second["B"] == clock(next_day) + 1800
    assert night["D"] == clock(eve) + 1800


def test_times_as_people_write_them(tmp_path: Path, algorithm: str) -> None:
    """A ` 5:20:00`, B `05:40:00 `, C `006:00:00`; late: X 100:15:00 of the 6th is 4:15 of the 10th."""
    text = f"{STOP_TIMES}\nt,A, 5:20:00, 5:20:00,1\nt,B,05:40:00 ,05:40:00\t,2\nt,C,006:00:00,,3\n"
    text += "late,X,100:15:00,100:15:00,1\nlate,Y,100:45:00,100:45:00,2"
    path = feed(
        tmp_path,
        text,
        trips="service_id,trip_id\nD,t\nL,late",
        calendar_dates="service_id,date,exception_type\nD,20260610,1\nL,20260606,1",
    )
    assert reached(path, "A", "5:20", algorithm) == times(A="5:20", B="5:40", C="6:00")
    assert reached(path, "X", "4:15", algorithm) == times(X="4:15", Y="4:45")


MALFORMED = ["8:05", "8.05.00", "8:05:60", "8:60:00", "-8:05:00", "1000:00:00", "8:5:00", "8:05:00 AM", ":05:00", "x"]


@pytest.mark.parametrize("time", MALFORMED)
def test_malformed_time(tmp_path: Path, time: str) -> None:
    """bad: A 7:00, B malformed, C 9:00 is dropped whole, and counted with its id; good: A 8:00, C 8:30."""
    text = f"{STOP_TIMES}\nbad,A,7:00:00,7:00:00,1\nbad,B,{time},,2\nbad,C,9:00:00,9:00:00,3\n"
    text += "good,A,8:00:00,8:00:00,1\ngood,C,8:30:00,8:30:00,2"
    report = Report()
    store = build([feed(tmp_path, text)], report=report)
    assert answers(store, [("A", clock("7:00"))], "cluster-ap") == [times(A="7:00", C="8:30")]
    (entry,) = report.dropped.values()
    assert (entry.file, entry.cause) == ("feed/stop_times.txt", "a trip with a malformed time")
    assert (entry.count, entry.first) == (1, ["bad"])


def test_repeated_stop_sequence(tmp_path: Path, algorithm: str) -> None:
    """same: A 8:00, B 8:10 with B's line twice; other: A 7:00, and B 7:10, C 7:20 both of sequence 2."""
    text = f"{STOP_TIMES}\nsame,A,8:00:00,8:00:00,1\nsame,B,8:10:00,8:10:00,2\nsame, B,8:10:00 ,8:10:00,2\n"
    text += "other,A,7:00:00,7:00:00,1\nother,B,7:10:00,7:10:00,2\nother,C,7:20:00,7:20:00,2"
    report = Report()
    store = build([feed(tmp_path, text)], report=report)
    assert answers(store, [("A", 0)], algorithm) == [times(A="0:00", B="8:10")]
    assert [entry.first for entry in report.dropped.values()] == [["other"]]


def test_repeated_stop_sequence_that_differs_in_an_unread_column(tmp_path: Path, algorithm: str) -> None:
    """other: A 7:00, B 7:10 twice, with two headsigns: two different lines; same: A 8:00, B 8:10 twice alike."""
    text = f"{STOP_TIMES},stop_headsign\nother,A,7:00:00,,1,\nother,B,7:10:00,,2,to B\nother,B,7:10:00,,2,to C\n"
    text += "same,A,8:00:00,,1,\nsame,B,8:10:00,,2,to B\nsame,B,8:10:00,,2, to B "
    report = Report()
    store = build([feed(tmp_path, text)], report=report)
    assert answers(store, [("A", 0)], algorithm) == [times(A="0:00", B="8:10")]
    (entry,) = report.dropped.values()
    assert (entry.cause, entry.count, entry.first) == (
        "a trip with two different lines of one stop_sequence",
        1,
        ["other"],
    )


def test_order_by_sequence_not_by_line(tmp_path: Path, algorithm: str) -> None:
    """A 8:00 (2), B 8:10 (10), C 8:20 (100), the lines in the order of their text."""
    text = f"{STOP_TIMES}\nt,B,8:10:00,8:10:00,10\nt,C,8:20:00,8:20:00,100\nt,A,8:00:00,8:00:00,2"
    assert reached(feed(tmp_path, text), "A", "8:00", algorithm) == times(A="8:00", B="8:10", C="8:20")


@pytest.mark.parametrize("order", ["pqrst", "tsrqp", "rtpsq", "qpstr"])
def test_zero_second_hops_in_any_order(tmp_path: Path, algorithm: str, order: str) -> None:
    """p: A 8:00, B 8:10; q: B 8:10, C 8:10; r: C 8:10, D 8:10; s: D 8:10, B 8:10; t: D 8:10, E 8:11."""
    trips = {
        "p": "p: A 8:00, B 8:10",
        "q": "q: B 8:10, C 8:10",
        "r": "r: C 8:10, D 8:10",
        "s": "s: D 8:10, B 8:10",
        "t": "t: D 8:10, E 8:11",
    }
    path = feed(tmp_path, "\n".join(trips[name] for name in order))
    assert reached(path, "A", "8:00", algorithm) == times(A="8:00", B="8:10", C="8:10", D="8:10", E="8:11")
    assert reached(path, "D", "8:10", algorithm) == times(D="8:10", B="8:10", C="8:10", E="8:11")


def test_ids_are_text(tmp_path: Path, algorithm: str) -> None:
    """007 8:00, 7 8:10, NA 8:20, nan 8:30, 1e3 8:40, TRUE 8:50, each a stop of its own."""
    path = feed(tmp_path, "1: 007 8:00, 7 8:10, NA 8:20\n01: NA 8:25, nan 8:30, 1e3 8:40, TRUE 8:50")
    expect = {"7": 29400, "NA": 30000, "nan": 30600, "1e3": 31200, "TRUE": 31800}
    assert reached(path, "007", "8:00", algorithm) == {"007": clock("8:00")} | expect
    assert reached(path, "7", "8:00", algorithm) == expect | {"7": clock("8:00")}


def test_two_feeds_with_the_same_ids_and_other_zones(tmp_path: Path, algorithm: str) -> None:
    """berlin: A 8:00, B 8:30 and london the same, an hour later on Berlin's clock; both stops at one place."""
    stops = "stop_id,stop_lat,stop_lon\nA,50,8\nB,51,8"
    paths = [
        write(tmp_path / name, tables("t: A 8:00, B 8:30", zone=zone, stops=stops))
        for name, zone in (("berlin.zip", "Europe/Berlin"), ("london", "Europe/London"))
    ]
    store = build(paths)
    assert store.stops == ["berlin:A", "berlin:B", "london:A", "london:B"]
    expect = {"london:A": "8:10", "berlin:A": "8:10", "london:B": "9:30", "berlin:B": "9:30"}
    if algorithm in algorithms_for(store):
        assert answers(store, [("london:A", clock("8:10"))], algorithm) == [times(**expect)]
    alone = build(paths, walk__mode="none")
    assert answers(alone, [("london:A", clock("9:00"))], algorithm) == [{"london:A": 32400, "london:B": 34200}]
    assert answers(alone, [("london:A", clock("9:01"))], algorithm) == [{"london:A": 32460}]
    backwards = build(paths[::-1], walk__mode="none")
    assert answers(backwards, [("berlin:A", 0)], algorithm) == [{"berlin:A": 0, "berlin:B": clock("7:30")}]


def test_duplicate_feed_names(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    paths = [write(tmp_path / name, tables("t: A 8:00, B 8:30")) for name in ("one/city.zip", "two/city")]
    with pytest.raises(HeadwayError, match="two feeds are named city"):
        build(paths)


@pytest.mark.parametrize("subtrips", ["none", "sqrt-trip", "sqrt-mean"])
def test_trip_across_the_horizon(tmp_path: Path, algorithm: str, subtrips: str) -> None:
    """A 23:40, B 23:50, C 24:10, D 24:20, E 24:30 in a store of a day: C is left too late, so D is not reached."""
    path = feed(tmp_path, "t: A 23:40, B 23:50, C 24:10, D 24:20, E 24:30")
    found = reached(path, "A", "23:00", algorithm, build__days=1, build__subtrips=subtrips)
    assert found == times(A="23:00", B="23:50", C="24:10")
    found = reached(path, "A", "23:00", algorithm, build__days=2, build__subtrips=subtrips)
    assert found == times(A="23:00", B="23:50", C="24:10", D="24:20", E="24:30")


@pytest.mark.parametrize("subtrips", ["sqrt-trip", "sqrt-mean"])
def test_no_sub_trip_past_a_stop_left_at_the_horizon(tmp_path: Path, algorithm: str, subtrips: str) -> None:
    """A 23:40, B 23:50/24:00, C 24:10, D 24:20, E 24:30: B is left at the horizon, so the piece A to C is none."""
    path = feed(tmp_path, "t: A 23:40, B 23:50/24:00, C 24:10, D 24:20, E 24:30")
    found = reached(path, "A", "23:00", algorithm, build__days=1, build__subtrips=subtrips)
    assert found == times(A="23:00", B="23:50")


def test_nobody_boards_or_alights_across_the_horizon(tmp_path: Path, algorithm: str) -> None:
    """A 23:40, C 24:10 (nobody alights), E 24:30 in a store of a day: A to E is one connection, and is held."""
    text = f"{STOP_TIMES},drop_off_type\nt,A,23:40:00,23:40:00,1,0\nt,C,24:10:00,24:10:00,2,1\n"
    path = feed(tmp_path, text + "t,E,24:30:00,24:30:00,3,0")
    for subtrips in ("none", "sqrt-trip"):
        found = reached(path, "A", "23:00", algorithm, build__days=1, build__subtrips=subtrips)
        assert found == times(A="23:00", E="24:30")


def test_time_that_runs_backwards(tmp_path: Path) -> None:
    """early: B before A; late: B left before it is reached; good: A 9:00, B 9:10."""
    path = feed(tmp_path, "early: A 8:00, B 7:59\nlate: A 8:00, B 8:10/8:05, C 8:20\ngood: A 9:00, B 9:10")
    report = Report()
    store = build([path], report=report)
    assert answers(store, [("A", 0)], "cluster-ap") == [times(A="0:00", B="9:10")]
    assert [(entry.count, entry.first) for entry in report.dropped.values()] == [(2, ["early", "late"])]


@pytest.mark.parametrize("day", ["2026-06-09", "2026-06-11", "1900-01-01", "9999-12-31", "0001-01-01"])
def test_date_outside(tmp_path: Path, day: str) -> None:
    path = feed(tmp_path, "t: A 8:00, B 8:30")
    with pytest.raises(HeadwayError, match=rf"feed: {day} is outside its service: .*2026-06-10.*2026-06-10") as error:
        build([path], day)
    assert "--date" in str(error.value)


@pytest.mark.parametrize(
    "lines",
    ["", "D,20260610,1\nD,20260610,2", "D,20260610,2", "other,20260610,1", "D,20260631,1", "D,20260610,3"],
)
def test_no_service(tmp_path: Path, lines: str) -> None:
    path = feed(tmp_path, "t: A 8:00, B 8:30", calendar_dates=f"service_id,date,exception_type\n{lines}")
    with pytest.raises(HeadwayError, match=r"feed: no trip runs on any date; check calendar.txt"):
        build([path])


def test_no_departure_on_a_date_between(tmp_path: Path) -> None:
    path = feed(
        tmp_path,
        "t: A 8:00, B 8:30",
        calendar_dates="service_id,date,exception_type\nD,20260601,1\nD,20260630,1",
    )
    with pytest.raises(HeadwayError, match="no departure in 2 days from 2026-06-10; feed is active from 2026-06-01 to"):
        build([path])


@pytest.mark.parametrize("zone", ["Mars/Base", "Europe", "../etc", "/etc/localtime", "Europe/Berlin x", "é"])
def test_unknown_timezone(tmp_path: Path, zone: str) -> None:
    with pytest.raises(HeadwayError, match=r"feed/agency.txt: row 2: unknown agency_timezone"):
        build([feed(tmp_path, "t: A 8:00, B 8:30", zone=zone)])


def test_frequencies(tmp_path: Path, algorithm: str) -> None:
    """t: A 8:00, B 8:10 from 10:00 below 10:30 every 15 minutes, not at its own times; a bad line counts for none."""
    lines = "t,10:00:00,10:30:00,900\nt,12:00,13:00:00,900\nt,12:00:00,13:00:00,0\nnone,1:00:00,2:00:00,60"
    path = feed(tmp_path, "t: A 8:00, B 8:10", frequencies=f"trip_id,start_time,end_time,headway_secs\n{lines}")
    report = Report()
    store = build([path], report=report)
    queries = [("A", clock(at)) for at in ("8:00", "10:01", "10:16")]
    found = [answer.get("B") for answer in answers(store, queries, algorithm)]
    assert found == [clock("10:10"), clock("10:25"), None]
    assert [(entry.count, entry.first) for entry in report.dropped.values()] == [(3, ["t", "t", "none"])]
