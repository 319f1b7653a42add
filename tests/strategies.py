"""Random small feeds that use every rule of the timetable contract, and queries where something happens.

Most feeds build and most trips are valid: the odd things are rare, one at a time. The date in use is DATE.
"""

import csv
import random
import re
from pathlib import Path

from hypothesis import strategies as st

DATE = "2026-06-10"  # a Wednesday
NEAR_DATES = ("20260608", "20260609", "20260610", "20260611", "20260612")
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
STOP_IDS = ("A", "B", "C", "D", "01", "1", "a")

Rows = list[dict[str, str]]
Tables = dict[str, Rows]


def weighted(**weights: int):
    """A name, drawn by its weight; hypothesis simplifies towards the first."""
    return st.sampled_from([name for name, weight in weights.items() for _ in range(weight)])


def rarely(one_in: int):
    return st.sampled_from([False] * (one_in - 1) + [True])


def clock(seconds: int) -> str:
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


# Minutes of a first departure: many trips in two hours of the morning, some round midnight, which belong to
# the evening before or pass the horizon, some one to three days after their date.
STARTS = st.one_of(
    st.integers(84, 108).map(lambda n: 5 * n),
    st.integers(84, 96).map(lambda n: 5 * n),
    st.integers(1410, 1560),
    st.integers(286, 290).map(lambda n: 5 * n),
    st.sampled_from([1435, 1439, 1440, 1441, 48 * 60, 49 * 60 + 30, 72 * 60 + 10]),
)
HOPS = st.sampled_from([60, 0, 0, 30, 60, 120, 300, 601])
DWELLS = st.sampled_from([0, 0, 0, 0, 60, 120])


@st.composite
def stop_rows(draw) -> Rows:
    stations = ["S", "T"][: draw(st.sampled_from([0, 0, 1, 1, 2]))]
    parents = st.sampled_from([""] * 4 + stations * 2 + (["U"] if draw(rarely(6)) else []))
    rows = []
    for stop in STOP_IDS[: draw(st.integers(2, 7))]:
        place = draw(weighted(row=6, far=6, none=1, bad=1))
        lat, lon = {
            # A few stops some 111 m apart, some at one point; the others kilometres away.
            "row": lambda: (f"{40 + draw(st.integers(0, 7)) / 1000:.3f}", "-3.7"),
            "far": lambda: (f"{41 + len(rows) / 10:.1f}", f"{draw(st.integers(0, 9)) / 10:.1f}"),
            "none": lambda: ("", ""),
            "bad": lambda: draw(st.sampled_from([("40", ""), ("x", "-3.7"), ("nan", "-3.7"), ("40", "inf")])),
        }[place]()
        kind = draw(st.sampled_from(["", "", "0"]))
        rows.append(_stop(stop, lat, lon, kind, draw(parents)))
    rows += [_stop(station, "40.0", "-3.7", "1", "") for station in stations]
    if draw(rarely(4)):
        rows.append(_stop("E", "40.0", "-3.7", draw(st.sampled_from(["2", "3", "4", "x"])), draw(parents)))
    if draw(rarely(8)):  # a repeated id: the first line wins
        rows.append(_stop("A", "41.5", "0", draw(st.sampled_from(["", "1"])), ""))
    if draw(rarely(10)):
        rows.append(_stop("", "40.0", "-3.7", "", ""))
    return rows


def _stop(stop: str, lat: str, lon: str, kind: str, parent: str) -> dict[str, str]:
    return {
        "stop_id": stop,
        "stop_lat": lat,
        "stop_lon": lon,
        "location_type": kind,
        "parent_station": parent,
    }


# What may be odd about a line without harm to its trip, and about a trip so that it is dropped.
LINE_KINDS = weighted(
    plain=30,
    no_arrival=3,
    no_departure=3,
    untimed=6,
    twin_before=2,
    twin_after=2,
    timed_twin=1,
    twice=2,
    no_stop=1,
)
TRIP_FAULTS = weighted(
    none=50,
    malformed=2,
    unknown_stop=1,
    no_stop=1,
    same_sequence=1,
    bad_sequence=1,
    backward=1,
    untimed_end=1,
    one_line=1,
)
RESTRICTIONS = st.tuples(
    st.sampled_from(["", "", "0", "0", "1", "1", "2", "3"]),
    st.sampled_from(["", "", "0", "0", "1", "1", "2", "3"]),
)


@st.composite
def trip_lines(draw, trip: str, stop_ids: list[str], others: list[str]) -> Rows:
    """The lines of one trip: valid but for at most one fault."""
    now, sequence = 60 * draw(STARTS), draw(st.sampled_from([0, 1, 1, 7]))
    restricted = draw(rarely(3))
    lines: Rows = []

    def add(stop, arrival, departure, restriction=("", "")):
        nonlocal sequence
        keys = (
            "trip_id",
            "stop_id",
            "stop_sequence",
            "arrival_time",
            "departure_time",
            "pickup_type",
            "drop_off_type",
        )
        lines.append(dict(zip(keys, (trip, stop, str(sequence), arrival, departure, *restriction), strict=True)))
        sequence += draw(st.sampled_from([1, 1, 1, 5]))

    length = draw(st.integers(2, 6))
    before = None
    for position in range(length):
        stop = draw(st.sampled_from([s for s in stop_ids if s != before] or stop_ids))
        before = stop
        kind = draw(LINE_KINDS)
        if kind == "untimed" and position in (0, length - 1):
            kind = "plain"
        restriction = draw(RESTRICTIONS) if restricted else ("", "")
        if position:
            now += draw(HOPS)
        arrival, now = now, now + draw(DWELLS)
        if kind == "twin_before":
            add(stop, "", "", restriction[::-1])
        if kind == "no_stop":
            add("", "", "")
        times = {
            "untimed": ("", ""),
            "no_arrival": ("", clock(now)),
            "no_departure": (clock(arrival), ""),
        }.get(kind, (clock(arrival), clock(now)))
        add(stop, *times, restriction)
        if kind == "twin_after":
            add(stop, "", "")
        if kind == "timed_twin":
            add(stop, clock(now), clock(now))
        if kind == "twice":
            lines.append(dict(lines[-1]))

    fault = draw(TRIP_FAULTS)
    line = draw(st.sampled_from(lines)) if fault != "none" else lines[0]
    if fault == "malformed":
        texts = [
            "8:05",
            "8:61:00",
            "8:00:60",
            "-1:00:00",
            "1000:00:00",
            "8:5:00",
            "noon",
            "8:00:00.5",
            "08 :00:00",
        ]
        line[draw(st.sampled_from(["arrival_time", "departure_time"]))] = draw(st.sampled_from(texts))
    elif fault == "unknown_stop":
        line["stop_id"] = draw(st.sampled_from(["Z", "b", "001"]))
    elif fault == "no_stop":
        line["stop_id"] = draw(st.sampled_from([*others, "Z"]))
    elif fault == "same_sequence":
        lines.append(line | {"stop_id": draw(st.sampled_from(stop_ids))})  # perhaps an identical line, no fault
    elif fault == "bad_sequence":
        line["stop_sequence"] = draw(st.sampled_from(["", "-1", "1.5", "x"]))
    elif fault == "backward":
        line[draw(st.sampled_from(["arrival_time", "departure_time"]))] = draw(st.sampled_from(["5:00:00", "90:00:00"]))
    elif fault == "untimed_end":
        lines[draw(st.sampled_from([0, -1]))].update(arrival_time="", departure_time="")
    elif fault == "one_line":
        del lines[1:]
    if draw(rarely(12)):
        lines = [row | {"stop_sequence": row["stop_sequence"].zfill(2)} for row in lines]
    return lines


@st.composite
def calendars(draw) -> Tables:
    """Service W runs every day, X on some weekdays, Y on single dates; also without calendar.txt."""
    tables: Tables = {}
    dates: Rows = []
    days = st.sampled_from(NEAR_DATES)
    if draw(rarely(5)):
        dates += [_exception("W", day, "1") for day in NEAR_DATES]
    else:
        rows = [_calendar("W", ["1"] * 7, "20260601", "20260630")]
        flags = [draw(st.sampled_from(["1", "0", "0", ""])) for _ in WEEKDAYS]
        if draw(rarely(2)):
            rows.append(_calendar("X", flags, draw(days), "20260620"))
        if draw(rarely(6)):
            rows.append(_calendar("X", ["1"] * 7, *draw(st.tuples(days, days))))
        if draw(rarely(10)):
            rows.append(_calendar("Y", ["1"] * 7, draw(st.sampled_from(["2026-06-01", "20260231", ""])), "20260630"))
        tables["calendar.txt"] = rows
    kinds = st.sampled_from(["1", "1", "1", "2", "2", "3"])
    services = st.sampled_from(["Y", "Y", "Y", "X", "X", "W"])
    for _ in range(draw(st.integers(0, 4))):
        dates.append(_exception(draw(services), draw(days), draw(kinds)))
    if draw(rarely(10)):
        dates.append(_exception("W", draw(st.sampled_from(["20260610x", "2026610"])), "2"))
    if dates or draw(rarely(2)):
        tables["calendar_dates.txt"] = dates
    return tables


def _calendar(service: str, flags: list[str], first: str, last: str) -> dict[str, str]:
    return {
        "service_id": service,
        **dict(zip(WEEKDAYS, flags, strict=True)),
        "start_date": first,
        "end_date": last,
    }


def _exception(service: str, day: str, kind: str) -> dict[str, str]:
    return {"service_id": service, "date": day, "exception_type": kind}


@st.composite
def frequency_rows(draw, trips: list[str]) -> Rows:
    rows = []
    for _ in range(draw(st.integers(1, 3))):
        start = 60 * draw(STARTS)
        row = {
            "trip_id": draw(st.sampled_from(trips)),
            "start_time": clock(start),
            "end_time": clock(start + draw(st.sampled_from([1200, 3600, 3601, 300, 0]))),
            "headway_secs": draw(st.sampled_from(["600", "600", "1200", "301"])),
            "exact_times": draw(st.sampled_from(["", "0", "1"])),
        }
        row |= draw(
            st.sampled_from(
                [{}] * 10
                + [
                    {"trip_id": "nobody"},
                    {"headway_secs": "0"},
                    {"headway_secs": "-60"},
                    {"headway_secs": ""},
                ]
                + [{"start_time": "7:00"}, {"end_time": ""}]
            )
        )
        rows += [row, dict(row)] if draw(rarely(8)) else [row]
    return rows


@st.composite
def transfer_rows(draw, places: list[str]) -> Rows:
    rows = []
    place = st.sampled_from(places * 4 + ["Z"])
    times = st.sampled_from(["", "", "0", "60", "200", "500"])
    for _ in range(draw(st.integers(1, 6))):
        row = {
            "from_stop_id": draw(place),
            "to_stop_id": draw(place),
            "transfer_type": draw(st.sampled_from(["2", "2", "2", "0", "1", "", "3", "3", "4", "5"])),
            "min_transfer_time": draw(times),
        }
        row |= draw(
            st.sampled_from(
                [{}] * 12
                + [{"from_trip_id": "t0"}, {"to_route_id": "R"}]
                + [{"min_transfer_time": "-5"}, {"min_transfer_time": "1.5"}, {"transfer_type": "9"}]
            )
        )
        rows.append(row)
    return rows


@st.composite
def feeds(draw) -> Tables:
    """A feed as file name -> lines."""
    stops = draw(stop_rows())
    kinds: dict[str, str] = {}
    for row in stops:
        kinds.setdefault(row["stop_id"], row["location_type"])
    stop_ids = [stop for stop, kind in kinds.items() if stop and kind in ("", "0")]
    others = [stop for stop in kinds if stop and stop not in stop_ids]

    trips: Rows = []
    stop_times: Rows = []
    for n in range(draw(st.integers(1, 8))):
        trip = f"t{n}"
        service = draw(st.sampled_from(["W"] * 8 + ["X", "X", "Y", "Y", "nothing"])) if n else "W"
        trips.append({"route_id": "R", "service_id": service, "trip_id": trip})
        stop_times += draw(trip_lines(trip, stop_ids, others))
    if draw(rarely(10)):  # a repeated trip: the first line wins
        trips.append({"route_id": "R", "service_id": "nothing", "trip_id": "t0"})
    if draw(rarely(10)):  # lines of a trip that trips.txt lacks
        stop_times += [row | {"trip_id": "t99"} for row in stop_times[:3]]

    tables: Tables = {
        "stops.txt": stops,
        "trips.txt": trips,
        "stop_times.txt": stop_times,
        **draw(calendars()),
    }
    if not draw(rarely(5)):
        zone = draw(st.sampled_from(["Europe/Berlin", "America/New_York", "UTC", ""]))
        tables["agency.txt"] = [{"agency_id": "1", "agency_timezone": zone}]
    if draw(rarely(2)):
        tables["frequencies.txt"] = draw(frequency_rows([row["trip_id"] for row in trips]))
    if draw(rarely(2)):
        stations = [stop for stop in others if kinds[stop] == "1"]
        tables["transfers.txt"] = draw(transfer_rows(stop_ids + 2 * stations + others))

    if draw(rarely(4)) and not any(row["pickup_type"] or row["drop_off_type"] for row in stop_times):
        for row in stop_times:
            del row["pickup_type"], row["drop_off_type"]
    seed = draw(st.integers(0, 99))
    if seed % 2:
        for name in sorted(tables):
            # Of a repeated id, and of agencies, the first line counts: there the order is part of the feed.
            if name not in ("stops.txt", "trips.txt", "agency.txt"):
                random.Random(seed).shuffle(tables[name])
    if draw(rarely(8)):
        name = draw(st.sampled_from(sorted(tables)))
        tables[name] = [{f" {key}": f"{value} " for key, value in row.items()} for row in tables[name]]
    return tables


def write_feed(folder: Path, tables: Tables) -> Path:
    """Write a feed's files as CSV into a new folder; a column that a line lacks is blank there."""
    folder.mkdir(parents=True)
    for name, rows in tables.items():
        columns = list(dict.fromkeys(key for row in rows for key in row))
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            if columns:
                writer = csv.DictWriter(file, columns, restval="")
                writer.writeheader()
                writer.writerows(rows)
    return folder


def _trimmed(rows: Rows) -> Rows:
    """Lines without the blanks that a feed may have around names and values."""
    return [{key.strip(): value.strip() for key, value in row.items()} for row in rows]


def _seconds(text: str) -> int | None:
    if not re.fullmatch(r"[0-9]{1,3}:[0-5][0-9]:[0-5][0-9]", text):
        return None
    hours, minutes, seconds = map(int, text.split(":"))
    return 3600 * hours + 60 * minutes + seconds


@st.composite
def queries(draw, tables: Tables, days: int = 2) -> tuple[str, int]:
    """An origin (a stop or a station) and a departure within the horizon, mostly when something leaves it."""
    horizon = 86400 * days
    kinds: dict[str, str] = {}
    for row in _trimmed(tables["stops.txt"]):
        kinds.setdefault(row["stop_id"], row["location_type"])
    places = [stop for stop, kind in kinds.items() if stop and kind in ("", "0", "1")]
    stations = [stop for stop in places if kinds[stop] == "1"]

    # Where and when something leaves, as far as the lines say so.
    lines = _trimmed(tables["stop_times.txt"])
    events = [(row["stop_id"], _seconds(row["departure_time"] or row["arrival_time"])) for row in lines]
    for row in _trimmed(tables.get("frequencies.txt", [])):
        stops = [line["stop_id"] for line in lines if line["trip_id"] == row["trip_id"]]
        events += [(stop, _seconds(row["start_time"])) for stop in stops]
    # Of this date, those before and the next one; at that second, some time earlier, just missed.
    dated = [(stop, second + 86400 * n) for stop, second in events if second is not None for n in range(-3, 2)]
    inside = [(stop, second) for stop, second in dated if stop in places and 0 <= second < horizon]
    origin, second = draw(st.sampled_from(inside or [(places[0], 0)]))
    second -= draw(st.sampled_from([0, 0, 0, 60, 93, 600, -1]))
    if draw(rarely(6)):
        second = draw(st.one_of(st.sampled_from([0, horizon - 1]), st.integers(0, horizon - 1)))
    if draw(rarely(3)):
        origin = draw(st.sampled_from(stations * 9 + places))
    return origin, min(max(second, 0), horizon - 1)
