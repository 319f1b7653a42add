"""The oracle against timetables worked by hand: the oracle must be right before it judges the engines."""

import csv
import json
from pathlib import Path

import pytest
from oracle import Oracle, OracleError

CASES = Path(__file__).parents[2] / "shared" / "cases"
FOUND = sorted(path.parent for path in CASES.glob("*/case.json"))


STOP_TIMES = "trip_id,stop_id,stop_sequence,arrival_time,departure_time,pickup_type,drop_off_type\n"
CALENDAR = "service_id,monday,tuesday,wednesday,thursday,friday,saturday,sunday,start_date,end_date\n"


def open_case(folder: Path, case: dict) -> Oracle:
    build = case["build"]
    options = {
        "walk_radius": build.get("walk_radius", 500),
        "walk_speed": build.get("speed", 1.2),
        "walk_detour": build.get("detour", 1.0),
    }
    feeds = [folder / feed for feed in case["feeds"]]
    return Oracle(feeds, build["date"], build.get("days", 2), build.get("walk", "default"), **options)


@pytest.mark.skipif(not FOUND, reason="the hand-worked cases are not part of the repository")
@pytest.mark.parametrize("folder", FOUND, ids=lambda folder: folder.name)
def test_shared_case(folder):
    case = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    if "build_error" in case:
        with pytest.raises(OracleError) as caught:
            open_case(folder, case)
        assert all(digits in str(caught.value).replace("-", "") for digits in case["build_error"])
        return
    oracle = open_case(folder, case)
    assert case["queries"]
    for query in case["queries"]:
        if query.get("error"):
            with pytest.raises((KeyError, ValueError)):
                oracle.arrivals(query["origin"], query["departure"])
        else:
            assert oracle.arrivals(query["origin"], query["departure"]) == query["expect"], query["why"]


def feed(folder: Path, stop_times: str, zone: str = "Europe/Berlin", **files: str) -> Path:
    """Write a feed from CSV text; what is not given is made up from stop_times, every day of 2026 in service.

    Each text is a header and lines; blanks around fields are cut by the reader.
    """
    rows = list(csv.DictReader(stop_times.strip().splitlines(), skipinitialspace=True))
    rows = [{key.strip(): (value or "").strip() for key, value in row.items()} for row in rows]
    stops = dict.fromkeys(row["stop_id"] for row in rows if row["stop_id"])
    trips = dict.fromkeys(row["trip_id"] for row in rows)
    texts = {
        "agency": f"agency_id,agency_name,agency_timezone\n1,X,{zone}",
        "calendar": CALENDAR + "D,1,1,1,1,1,1,1,20260101,20261231",
        "stops": "\n".join(["stop_id", *stops]),
        "trips": "\n".join(["trip_id,service_id", *(f"{trip},D" for trip in trips)]),
        "stop_times": stop_times,
    } | files
    folder.mkdir(parents=True)
    for name, text in texts.items():
        lines = [line.strip() for line in text.strip().splitlines()]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def clock(text: str) -> int:
    hours, minutes, seconds = map(int, text.split(":"))
    return 3600 * hours + 60 * minutes + seconds


def test_zero_second_hops_chain_against_the_order_of_lines(tmp_path):
    """
    z: C 8:10 -> D 8:10    y: B 8:10 -> C 8:10    w: D 8:10 -> B 8:10    x: A 8:00 -> B 8:10
    """
    path = feed(
        tmp_path / "feed",
        """trip_id,stop_id,stop_sequence,arrival_time,departure_time
        z,C,1,8:10:00,8:10:00
        z,D,2,8:10:00,8:10:00
        y,B,1,8:10:00,8:10:00
        y,C,2,8:10:00,8:10:00
        w,D,1,8:10:00,8:10:00
        w,B,2,8:10:00,8:10:00
        x,A,1,8:00:00,8:00:00
        x,B,2,8:10:00,8:10:00""",
    )
    oracle = Oracle([path], "2026-06-10", walk="none")
    assert oracle.arrivals("A", 28800) == {"A": 28800, "B": 29400, "C": 29400, "D": 29400}
    assert oracle.arrivals("D", 29400) == {"D": 29400, "B": 29400, "C": 29400}
    # The second day runs the same an hour count of 24 later; nothing is left after it.
    assert oracle.arrivals("D", 29401) == {"D": 29401, "B": 115800, "C": 115800}
    assert oracle.arrivals("D", 115801) == {"D": 115801}


def test_untimed_lines_at_the_stop_of_their_neighbour(tmp_path):
    """
    t: A 8:00, B -, B 8:10, B -, C -, D 8:30   ->  A 8:00, B 8:10, C 8:20, D 8:30
    u: E -, E 9:00, F -, F -, G 9:20           ->  E 9:00, F 9:10, G 9:20
    v: H 9:00, I -, J 9:10, J 9:15, K -        ->  dropped: the last stop is untimed
    """
    path = feed(
        tmp_path / "feed",
        """trip_id,stop_id,stop_sequence,arrival_time,departure_time
        t,A,1,8:00:00,8:00:00
        t,B,2,,
        t,B,3,8:10:00,8:10:00
        t,B,4,,
        t,C,5,,
        t,D,6,8:30:00,8:30:00
        u,E,1,,
        u,E,2,9:00:00,9:00:00
        u,F,3,,
        u,F,4,,
        u,G,5,9:20:00,9:20:00
        v,H,1,9:00:00,9:00:00
        v,I,2,,
        v,J,3,9:10:00,9:10:00
        v,J,4,9:15:00,9:15:00
        v,K,5,,""",
    )
    oracle = Oracle([path], "2026-06-10", walk="none")
    assert oracle.arrivals("A", 28800) == {"A": 28800, "B": 29400, "C": 30000, "D": 30600}
    assert oracle.arrivals("E", 32400) == {"E": 32400, "F": 33000, "G": 33600}
    assert oracle.arrivals("H", 0) == {"H": 0}


def test_no_boarding_and_no_alighting(tmp_path):
    """
    t: A 8:00, B 8:10 (no boarding), C 8:20 (no alighting), D 8:30 (neither), E 8:40 (on request), F 8:50
    """
    path = feed(
        tmp_path / "feed",
        STOP_TIMES
        + """t,A,1,8:00:00,8:00:00,,
        t,B,2,8:10:00,8:10:00,1,
        t,C,3,8:20:00,8:20:00,0,1
        t,D,4,8:30:00,8:30:00,1,1
        t,E,5,8:40:00,8:40:00,2,3
        t,F,6,8:50:00,8:50:00,,""",
    )
    oracle = Oracle([path], "2026-06-10", days=1, walk="none")
    assert oracle.arrivals("A", 28800) == {"A": 28800, "B": 29400, "E": 31200, "F": 31800}
    assert oracle.arrivals("B", 28800) == {"B": 28800}
    assert oracle.arrivals("C", 30000) == {"C": 30000, "E": 31200, "F": 31800}
    assert oracle.arrivals("C", 30001) == {"C": 30001}
    assert oracle.arrivals("D", 28800) == {"D": 28800}
    assert oracle.arrivals("E", 31200) == {"E": 31200, "F": 31800}


def test_horizon_cuts_a_trip_where_one_can_board_and_alight(tmp_path):
    """
    days = 1, so nothing departs at 24:00 or later.
    s: A 23:50, B 24:10, C 24:20                           A -> B arrives past the horizon, B -> C is not held
    t: D 23:50, E 24:10 (no boarding), F 24:20             D -> F skips E and is held
    u: G 23:50, H 23:55, I arrives 23:59 leaves 24:00, J 24:20    I -> J is not held
    The same trips of the evening before lie at -600 and later: B -> C at 600, I -> J at 0.
    """
    path = feed(
        tmp_path / "feed",
        STOP_TIMES
        + """s,A,1,23:50:00,23:50:00,,
        s,B,2,24:10:00,24:10:00,,
        s,C,3,24:20:00,24:20:00,,
        t,D,1,23:50:00,23:50:00,,
        t,E,2,24:10:00,24:10:00,1,
        t,F,3,24:20:00,24:20:00,,
        u,G,1,23:50:00,23:50:00,,
        u,H,2,23:55:00,23:55:00,,
        u,I,3,23:59:00,24:00:00,,
        u,J,4,24:20:00,24:20:00,,""",
    )
    oracle = Oracle([path], "2026-06-10", days=1, walk="none")
    assert oracle.arrivals("A", 0) == {"A": 0, "B": 87000}
    assert oracle.arrivals("D", 0) == {"D": 0, "E": 87000, "F": 87600}
    assert oracle.arrivals("G", 0) == {"G": 0, "H": 86100, "I": 86340}
    assert oracle.arrivals("B", 600) == {"B": 600, "C": 1200}
    assert oracle.arrivals("B", 601) == {"B": 601}
    assert oracle.arrivals("E", 0) == {"E": 0}
    assert oracle.arrivals("I", 0) == {"I": 0, "J": 1200}
    assert oracle.arrivals("I", 86399) == {"I": 86399}
    two = Oracle([path], "2026-06-10", days=2, walk="none")
    assert two.arrivals("A", 0) == {"A": 0, "B": 87000, "C": 87600}
    for outside in (-1, 86400):
        with pytest.raises(ValueError, match="outside"):
            oracle.arrivals("A", outside)
    with pytest.raises(KeyError):
        oracle.arrivals("a", 0)


def test_transfer_types(tmp_path):
    """
    Pairs of stops on one meridian each: 0.001 degrees of latitude are 111.195 m, 92.66 s, so 93 s;
    0.01 degrees are 1111.95 m, 926.6 s, so 927 s and not generated.

    a: type 0, 300 s   b: type 1, 10 s     c: type 2, 20 s       d: type 2 without a time    e: type 3 one way
    f: type 4          g: of one trip only h: 927 s away, 0      i: 927 s away, blank, 1000 s
    j: no coordinates; type 1, 40 s        k: no coordinates; type 2 without a time
    l: of the types 2 with 50 s, 0, 2 with 70 s the least        m: a bad time is none    n: type 9 is no row
    """
    near = "".join(f"{x}1,52,{n}\n{x}2,52.001,{n}\n" for n, x in enumerate("abcdefglmn"))
    far = "".join(f"{x}1,52,{n}\n{x}2,52.01,{n}\n" for n, x in enumerate("hi", 20))
    path = feed(
        tmp_path / "feed",
        STOP_TIMES + "t,P,1,8:00:00,8:00:00,,\nt,Q,2,8:10:00,8:10:00,,",
        stops="stop_id,stop_lat,stop_lon\n" + near + far + "j1,,\nj2,52,40\nk1,,\nk2,52,\nP,,\nQ,,",
        transfers="""from_stop_id,to_stop_id,transfer_type,min_transfer_time,from_trip_id
        a1,a2,0,300,
        b1,b2,1,10,
        c1,c2,2,20,
        d1,d2,2,,
        e1,e2,3,,
        f1,f2,4,1,
        g1,g2,2,1,t
        h1,h2,0,,
        i1,i2,,1000,
        j1,j2,1,40,
        k1,k2,2,,
        l1,l2,2,50,
        l1,l2,0,,
        l1,l2,2,70,
        m1,m2,1,-5,
        n1,n2,9,1,""",
    )
    oracle = Oracle([path], "2026-06-10")
    expect = {"a": 300, "b": 93, "c": 20, "d": 93, "e": None, "f": 93, "g": 93, "h": 927, "i": 1000}
    expect |= {"j": 40, "k": None, "l": 50, "m": 93, "n": 93}
    for x, seconds in expect.items():
        there = {} if seconds is None else {f"{x}2": 100 + seconds}
        assert oracle.arrivals(f"{x}1", 100) == {f"{x}1": 100} | there
    # The way back is spoken of nowhere.
    assert oracle.arrivals("a2", 0) == {"a2": 0, "a1": 93}
    assert oracle.arrivals("e2", 0) == {"e2": 0, "e1": 93}
    assert oracle.arrivals("h2", 0) == {"h2": 0}
    only = Oracle([path], "2026-06-10", walk_radius=0)
    assert only.arrivals("a1", 0) == {"a1": 0, "a2": 300}
    assert only.arrivals("a2", 0) == {"a2": 0}
    none = Oracle([path], "2026-06-10", walk="none")
    assert none.arrivals("a1", 0) == {"a1": 0}
    slow = Oracle([path], "2026-06-10", walk_speed=1.0, walk_detour=1.3)
    assert slow.arrivals("a2", 0) == {"a2": 0, "a1": 145}  # 144.55


def test_footpaths_chain_at_any_second(tmp_path):
    """
    A, B, C, D, E, F one after the other, 93 s each (92.66). In one piece 2 hops are 186 s (185.3),
    3 are 278 s (277.98), 4 are 371 s (370.65), and 5 are 556 m, too far.
    t: F 8:00 -> G 8:10
    """
    path = feed(
        tmp_path / "feed",
        STOP_TIMES + "t,F,1,8:00:00,8:00:00,,\nt,G,2,8:10:00,8:10:00,,",
        stops="stop_id,stop_lat,stop_lon\nG,53,13\n"
        + "".join(f"{x},{52 + n / 1000:.3f},13\n" for n, x in enumerate("ABCDEF")),
    )
    short = Oracle([path], "2026-06-10", days=1, walk_radius=120)
    start = 28800 - 5 * 93
    row = {x: start + 93 * n for n, x in enumerate("ABCDEF")}
    assert short.arrivals("A", start) == row | {"G": 29400}
    assert short.arrivals("A", start + 1) == {x: second + 1 for x, second in row.items()}
    long = Oracle([path], "2026-06-10", days=1)
    assert long.arrivals("A", 86399) == {
        "A": 86399,
        "B": 86399 + 93,
        "C": 86399 + 186,
        "D": 86399 + 278,
        "E": 86399 + 371,
        "F": 86399 + 464,  # 371 + 93
    }


def test_stations(tmp_path):
    """
    Station S has the stops X and Y, 927 s apart; T has no stop; V and W name U, no line of stops.txt.
    t: X 8:00 -> Z 8:10    u: Y 8:05 -> Z 8:08
    Transfers: Z to S in 60 s, V to W forbidden.
    """
    path = feed(
        tmp_path / "feed",
        STOP_TIMES
        + """t,X,1,8:00:00,8:00:00,,
        t,Z,2,8:10:00,8:10:00,,
        u,Y,1,8:05:00,8:05:00,,
        u,Z,2,8:08:00,8:08:00,,""",
        stops="""stop_id,stop_lat,stop_lon,location_type,parent_station
        S,52,13,1,
        T,52,13,1,
        N,52,13,2,S
        X,52,13,0,S
        Y,52.01,13,,S
        Z,53,13,,
        V,54,13,,U
        W,54.01,13,,U""",
        transfers="from_stop_id,to_stop_id,transfer_type,min_transfer_time\nZ,S,2,60\nV,W,3,\nT,Z,2,1\nN,Z,2,1",
    )
    oracle = Oracle([path], "2026-06-10", days=1)
    assert oracle.stops == ["X", "Y", "Z", "V", "W"]
    assert oracle.stations == ["S", "T"]
    at = clock("8:00:00")
    assert oracle.arrivals("S", at) == {"S": at, "X": at, "Y": at, "Z": at + 480}
    assert oracle.arrivals("X", at) == {"S": at, "X": at, "Y": at + 660, "Z": at + 600}
    assert oracle.arrivals("Z", 0) == {"Z": 0, "X": 60, "Y": 60, "S": 60}
    assert oracle.arrivals("T", 0) == {}
    assert oracle.arrivals("V", 0) == {"V": 0}
    assert oracle.arrivals("W", 0) == {"W": 0, "V": 927}


def test_two_feeds_with_the_same_ids_on_one_clock(tmp_path):
    """
    Berlin:  t: A 8:00 -> B 8:50 (Berlin time)
    London:  t: A 8:00 -> B 8:30 (London time, that is 9:00 -> 9:30 in Berlin)
    Berlin's B and London's A lie at one point: 0 s on foot.
    """
    stop_times = STOP_TIMES + "t,A,1,8:00:00,8:00:00,,\nt,B,2,{0}:00,{0}:00,,"
    stops = "stop_id,stop_lat,stop_lon,location_type,parent_station\nS,,,1,\nA,{},1,,S\nB,{},1,,S"
    berlin = feed(tmp_path / "berlin", stop_times.format("8:50"), stops=stops.format(51, 52))
    london = feed(tmp_path / "london", stop_times.format("8:30"), "Europe/London", stops=stops.format(52, 53))
    transfers = "from_stop_id,to_stop_id,transfer_type\nA,B,3\nB,A,3\n"
    for path in (berlin, london):
        (path / "transfers.txt").write_text(transfers, encoding="utf-8")

    oracle = Oracle([berlin, london], "2026-06-10", days=1)
    assert oracle.stops == ["berlin:A", "berlin:B", "london:A", "london:B"]
    assert oracle.stations == ["berlin:S", "london:S"]
    expect = {"A": 28800, "B": 31800, "S": 28800}
    assert oracle.arrivals("berlin:A", 28800) == {f"berlin:{x}": second for x, second in expect.items()} | {
        "london:A": 31800,
        "london:S": 31800,
        "london:B": 34200,
    }
    # By London's clock the same journey is an hour earlier.
    oracle = Oracle([london, berlin], "2026-06-10", days=1)
    assert oracle.arrivals("berlin:A", 25200)["london:B"] == 30600
    assert "london:B" not in oracle.arrivals("berlin:A", 25201)
    # One feed: no prefix.
    assert Oracle([london], "2026-06-10").arrivals("A", 0) == {"S": 0, "A": 0, "B": 30600}
    with pytest.raises(OracleError, match="one name"):
        Oracle([berlin, berlin], "2026-06-10")


def test_day_of_23_hours(tmp_path):
    """
    Berlin, 2026-03-29: the day's seconds count from 23:00 of the 28th on the clock of that day, so the 29th
    begins 82800 s after the 28th, and the 30th 86400 s after the 29th.
    n: A 24:30 -> B 25:00    m: C 0:30 -> D 0:50, C 1:00 -> D 1:20 (p)
    """
    path = feed(
        tmp_path / "feed",
        STOP_TIMES
        + """n,A,1,24:30:00,24:30:00,,
        n,B,2,25:00:00,25:00:00,,
        m,C,1,0:30:00,0:30:00,,
        m,D,2,0:50:00,0:50:00,,
        p,C,1,1:00:00,1:00:00,,
        p,D,2,1:20:00,1:20:00,,""",
    )
    oracle = Oracle([path], "2026-03-29", walk="none")
    assert oracle.arrivals("A", 0) == {"A": 0, "B": 7200}  # of the 28th: 25:00 is 90000 - 82800
    assert oracle.arrivals("A", 5401) == {"A": 5401, "B": 90000}  # of the 29th
    assert oracle.arrivals("C", 3601) == {"C": 3601, "D": 89400}  # of the 30th: 86400 + 0:50
    # From the 28th on, with one day: the 29th begins at 82800, so its 0:30 is held and its 1:00 is not.
    oracle = Oracle([path], "2026-03-28", days=1, walk="none")
    assert oracle.arrivals("C", 3601) == {"C": 3601, "D": 85800}
    assert oracle.arrivals("C", 84601) == {"C": 84601}


def test_frequencies_and_dates(tmp_path):
    """
    f: A 6:00 -> B 6:10 of service D; good and bad lines; runs at 7:00 and 7:20
    g: C 6:00 -> D 6:10; only bad lines, so it runs at its own time
    h: E 6:00 -> F 6:10; a good line without departures, so it never runs
    i: G 6:00 -> H 6:10 of service X: added on the 10th and 11th, the 11th also removed
    j: I 6:00 -> J 6:10 of service Y: in calendar.txt, removed on the 10th
    """
    path = feed(
        tmp_path / "feed",
        STOP_TIMES
        + "".join(
            f"{x},{u},1,6:00:00,6:00:00,,\n{x},{v},2,6:10:00,6:10:00,,\n"
            for x, u, v in zip("fghij", "ACEGI", "BDFHJ", strict=True)
        ),
        trips="trip_id,service_id\nf,D\ng,D\nh,D\ni,X\nj,Y\nf,X",
        calendar=CALENDAR
        + """D,0,0,1,0,0,0,0,20260601,20260614
        Y,1,1,1,1,1,1,1,20260601,20260611
        Y,1,1,1,1,1,1,1,20260601,2026""",
        calendar_dates="service_id,date,exception_type\nX,20260610,1\nX,20260611,1\nX,20260611,2\nY,20260610,2",
        frequencies="""trip_id,start_time,end_time,headway_secs
        f,7:00:00,7:40:00,1200
        f,8:00:00,8:30:00,0
        f,9:00,9:30:00,600
        g,7:00:00,7:40:00,-5
        h,7:00:00,7:00:00,600
        k,7:00:00,8:00:00,600""",
    )
    oracle = Oracle([path], "2026-06-10", walk="none")
    assert oracle.arrivals("A", 0) == {"A": 0, "B": clock("7:10:00")}
    assert oracle.arrivals("A", clock("7:00:01")) == {"A": clock("7:00:01"), "B": clock("7:30:00")}
    assert oracle.arrivals("A", clock("7:20:01")) == {"A": clock("7:20:01")}
    assert oracle.arrivals("C", 0) == {"C": 0, "D": clock("6:10:00")}
    assert oracle.arrivals("E", 0) == {"E": 0}
    assert oracle.arrivals("G", 0) == {"G": 0, "H": clock("6:10:00")}
    assert oracle.arrivals("G", clock("6:00:01")) == {"G": clock("6:00:01")}
    assert oracle.arrivals("I", 0) == {"I": 0, "J": clock("30:10:00")}
    # Y runs from the 1st to the 11th, D on the Wednesdays between (the 3rd and the 10th).
    with pytest.raises(OracleError, match="feed is active from 20260601 to 20260611"):
        Oracle([path], "2026-06-12")


def test_hours_of_many_days_before(tmp_path):
    """
    t: A 999:00 -> B 999:30, 41 days and 15 hours after its service date: at 15:00.
    """
    path = feed(tmp_path / "feed", STOP_TIMES + "t,A,1,999:00:00,999:00:00,,\nt,B,2,999:30:00,999:30:00,,")
    oracle = Oracle([path], "2026-07-10", days=1, walk="none")
    assert oracle.arrivals("A", 0) == {"A": 0, "B": clock("15:30:00")}
    with pytest.raises(OracleError, match="no departure"):
        Oracle([path], "2026-01-05", days=1)
    with pytest.raises(OracleError, match=r"agency\.txt"):
        Oracle(
            [feed(tmp_path / "moon", STOP_TIMES + "t,A,1,8:00:00,,,\nt,B,2,9:00:00,,,", "Moon/Sea")],
            "2026-06-10",
        )
