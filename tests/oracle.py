"""An independent, slow and plain reading of the timetable contract, to test the engines against.

It shares no code with the project and uses the standard library only. Where the engines scan connections,
the oracle rides trips: a label-setting search (Dijkstra) settles one stop after another by time, boards every
trip that can still be caught there and walks every footpath from there.
"""

import copy
import csv
import io
import itertools
import math
import re
import zipfile
from bisect import bisect_left
from collections import defaultdict
from datetime import date as Date
from datetime import datetime, timedelta
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

EARTH_RADIUS_M = 6371008.8
INFINITY = math.inf
TIME = re.compile(r"([0-9]{1,3}):([0-5][0-9]):([0-5][0-9])")
NATURAL = re.compile(r"[0-9]+")
DAY = re.compile(r"[0-9]{8}")
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

# A departure may lie 999:59:59 after its day's start, twice that (84 days) for a trip of frequencies.txt with
# long times of its own; what is left of 90 covers days of 25 hours and the distance between two time zones.
DAYS_BEFORE = 90
DAYS_AFTER = 3


class OracleError(Exception):
    """The contract says that this build is an error."""


class Stop(NamedTuple):
    """A line of stops.txt that is a vertex."""

    id: str
    parent: str  # parent_station, "" without
    place: tuple[float, float] | None  # latitude, longitude


class Trip(NamedTuple):
    """A trip's positions after every rule about lines and times; times as in the feed."""

    stops: list[int]
    arrival: list[int]
    departure: list[int]
    board: list[bool]
    alight: list[bool]


class Files:
    """The files of one feed: a zip or a folder, at its root or in a folder inside."""

    def __init__(self, path: Path):
        self.name = path.name.removesuffix(".zip")
        self._zip = None if path.is_dir() else zipfile.ZipFile(path)
        if self._zip is None:
            names = [p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file()]
        else:
            names = [n for n in self._zip.namelist() if not n.endswith("/")]
        names = [n for n in names if "__MACOSX" not in n.split("/")]
        found = [n for n in names if n.split("/")[-1] == "stop_times.txt"]
        if not found:
            raise OracleError(f"{self.name}: no stop_times.txt")
        top = min(found, key=lambda n: (n.count("/"), n)).removesuffix("stop_times.txt")
        self._path, self._top, self._names = path, top, set(names)

    def rows(self, file: str):
        """Yield first the header, then each line as a tuple of trimmed fields, as many as the header has."""
        name = self._top + file
        if name not in self._names:
            return
        data = (self._path / name).read_bytes() if self._zip is None else self._zip.read(name)
        data = data.removeprefix(b"\xef\xbb\xbf")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            text = data.decode("latin-1")
        width = None
        for line in csv.reader(io.StringIO(text, newline=""), skipinitialspace=True):
            if not line:
                continue
            if width is None:
                width = len(line)
            fields = [f.strip() for f in line[:width]]
            yield tuple(fields + [""] * (width - len(fields)))

    def table(self, file: str) -> list[dict[str, str]]:
        """All lines of a small file as dictionaries, identical lines once."""
        rows = list(dict.fromkeys(self.rows(file)))
        return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def first_lines(table: list[dict[str, str]], key: str) -> dict[str, dict[str, str]]:
    """Lines by id; of a repeated id the first line wins, a line with a blank id is none."""
    out: dict[str, dict[str, str]] = {}
    for row in table:
        if row.get(key, ""):
            out.setdefault(row[key], row)
    return out


def parse_time(text: str) -> int | None:
    """Seconds of H:MM:SS, None if malformed."""
    match = TIME.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds = map(int, match.groups())
    return 3600 * hours + 60 * minutes + seconds


def parse_day(text: str) -> Date | None:
    """The date of YYYYMMDD, None if there is no such date."""
    try:
        return Date(int(text[:4]), int(text[4:6]), int(text[6:])) if DAY.fullmatch(text) else None
    except ValueError:
        return None


def parse_place(row: dict[str, str]) -> tuple[float, float] | None:
    """Latitude and longitude, None without."""
    try:
        place = float(row.get("stop_lat", "")), float(row.get("stop_lon", ""))
    except ValueError:
        return None
    return place if math.isfinite(place[0]) and math.isfinite(place[1]) else None


class Calendar:
    """On which dates the services run."""

    def __init__(self, files: Files):
        self._spans = defaultdict(list)  # service: (first, last, flags of the seven weekdays)
        self._added, self._removed = defaultdict(set), defaultdict(set)
        for row in files.table("calendar.txt"):
            first, last = parse_day(row.get("start_date", "")), parse_day(row.get("end_date", ""))
            if first and last:
                flags = [row.get(day, "") == "1" for day in WEEKDAYS]
                self._spans[row.get("service_id", "")].append((first, last, flags))
        for row in files.table("calendar_dates.txt"):
            day, kind = parse_day(row.get("date", "")), row.get("exception_type", "")
            if day and kind in ("1", "2"):
                (self._added if kind == "1" else self._removed)[row.get("service_id", "")].add(day)

    def active(self, service: str, day: Date) -> bool:
        if day in self._removed[service]:  # a date both added and removed is removed
            return False
        return day in self._added[service] or any(
            first <= day <= last and flags[day.weekday()] for first, last, flags in self._spans[service]
        )

    def ends(self, services: set[str]) -> tuple[Date, Date] | None:
        """First and last date on which one of the services runs."""
        days = []
        for service in services:
            days += [d for d in self._added[service] if self.active(service, d)]
            for first, last, flags in self._spans[service]:
                # The first active date of the span, then the last one.
                span = range(first.toordinal(), last.toordinal() + 1) if any(flags) else range(0)
                for ordinals in (span, reversed(span)):
                    running = (d for d in map(Date.fromordinal, ordinals) if self.active(service, d))
                    days += itertools.islice(running, 1)
        return (min(days), max(days)) if days else None


def day_start(day: Date, zone: ZoneInfo) -> int:
    """The instant from which a service date's times count: noon minus 12 hours."""
    return int(datetime(day.year, day.month, day.day, 12, tzinfo=zone).timestamp()) - 43200


def read_zone(files: Files) -> ZoneInfo:
    agencies = files.table("agency.txt")
    name = (agencies[0].get("agency_timezone", "") if agencies else "") or "UTC"
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise OracleError(f"{files.name}: agency.txt: unknown agency_timezone {name!r}") from error


def make_trip(lines: list[dict[str, str]], stop_index: dict[str, int]) -> Trip | None:
    """Apply the rules about one trip's lines; None where the trip is dropped or has no hop."""
    lines = [line for line in lines if line["stop_id"]]
    if not all(NATURAL.fullmatch(line["stop_sequence"]) for line in lines):
        return None
    lines.sort(key=lambda line: int(line["stop_sequence"]))
    if len({int(line["stop_sequence"]) for line in lines}) < len(lines):
        return None
    rows = []  # (stop, arrival, departure, may board, may alight), times None where blank
    for line in lines:
        times = []
        for text in (line["arrival_time"], line["departure_time"]):
            times.append(parse_time(text) if text else None)
            if text and times[-1] is None:
                return None
        if line["stop_id"] not in stop_index:
            return None
        row = (stop_index[line["stop_id"]], *times, line["pickup_type"] != "1", line["drop_off_type"] != "1")
        rows.append(row)

    def timed(row):
        return row[1] is not None or row[2] is not None

    # Neighbours at one stop: untimed lines go where one is timed; of lines all untimed the first stays.
    kept, begin = [], 0
    while begin < len(rows):
        end = begin
        while end < len(rows) and rows[end][0] == rows[begin][0]:
            end += 1
        same = rows[begin:end]
        kept += [row for row in same if timed(row)] or same[:1]
        begin = end
    if len(kept) < 2 or not timed(kept[0]) or not timed(kept[-1]):
        return None

    arrival = [row[1] if row[1] is not None else row[2] for row in kept]
    departure = [row[2] if row[2] is not None else row[1] for row in kept]
    fixed = [i for i, row in enumerate(kept) if timed(row)]
    for before, after in itertools.pairwise(fixed):
        for i in range(before + 1, after):
            span, hops = arrival[after] - departure[before], after - before
            arrival[i] = departure[i] = departure[before] + span * (i - before) // hops
    for i in range(len(kept)):
        if departure[i] < arrival[i] or (i and arrival[i] < departure[i - 1]):
            return None
    return Trip([row[0] for row in kept], arrival, departure, [row[3] for row in kept], [row[4] for row in kept])


def read_stop_times(files: Files, wanted: set[str]):
    """Yield each wanted trip's id and its lines, identical lines once."""
    columns = ("stop_id", "stop_sequence", "arrival_time", "departure_time", "pickup_type", "drop_off_type")
    rows = files.rows("stop_times.txt")
    header = next(rows, ())
    if "trip_id" not in header:
        return
    at = header.index("trip_id")
    by_trip, shared = defaultdict(list), {}
    for row in rows:
        if row[at] in wanted:
            # One object for equal texts: a large feed has millions of lines but few different fields.
            by_trip[row[at]].append(tuple([shared.setdefault(field, field) for field in row]))
    blank = dict.fromkeys(columns, "")
    while by_trip:
        trip, lines = by_trip.popitem()
        yield trip, [blank | dict(zip(header, line, strict=True)) for line in dict.fromkeys(lines)]


def read_frequencies(files: Files, trips: dict) -> dict[str, set[int]]:
    """First departures of the trips that good lines name; maybe none for such a trip."""
    out: dict[str, set[int]] = {}
    for row in files.table("frequencies.txt"):
        start, end = parse_time(row.get("start_time", "")), parse_time(row.get("end_time", ""))
        headway = row.get("headway_secs", "")
        headway = int(headway) if NATURAL.fullmatch(headway) else 0
        if row.get("trip_id", "") in trips and start is not None and end is not None and headway:
            out.setdefault(row["trip_id"], set()).update(range(start, end, headway))
    return out


def distance(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Metres by great circle."""
    (lat1, lon1), (lat2, lon2) = [(math.radians(lat), math.radians(lon)) for lat, lon in (a, b)]
    h = math.sin((lat2 - lat1) / 2) ** 2 + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    return 2 * EARTH_RADIUS_M * math.asin(math.sqrt(min(1.0, h)))


class Oracle:
    """Earliest arrivals over one or several feeds."""

    def __init__(
        self,
        feeds: list[Path],
        date: str,
        days: int = 2,
        walk: str = "default",
        walk_radius: float = 500,
        walk_speed: float = 1.2,
        walk_detour: float = 1.0,
    ):
        self.horizon = 86400 * days
        self._date = Date.fromisoformat(date)
        self._radius, self._speed, self._detour = walk_radius, walk_speed, walk_detour
        self._stops: list[Stop] = []
        self._stations: dict[str, list[int]] = {}  # station: its stops
        self._runs: list[tuple[Trip, int]] = []  # a trip and the seconds to add to its times
        self._rules: dict[tuple[int, int], float | None] = {}  # what transfers.txt says: seconds or no footpath
        self._start: int | None = None  # second 0 of the clock, that of the first feed

        opened = [Files(Path(path)) for path in feeds]
        if len({files.name for files in opened}) < len(opened):
            raise OracleError("two feeds have one name: " + ", ".join(files.name for files in opened))
        spans = [self._add_feed(files, f"{files.name}:" if len(opened) > 1 else "") for files in opened]

        self.stops = [stop.id for stop in self._stops]
        self.stations = list(self._stations)
        self._index = {stop.id: i for i, stop in enumerate(self._stops)}
        self._departures = self._index_departures()
        if not any(self._departures):
            raise OracleError("no departure on this date: " + "; ".join(spans))
        self._footpaths: list[list[tuple[int, int]]] = [[] for _ in self._stops]
        if walk != "none":
            self._add_footpaths()

    def _add_feed(self, files: Files, prefix: str) -> str:
        """Read one feed; return its name and first and last date, for an error message."""
        zone = read_zone(files)
        if self._start is None:
            self._start = day_start(self._date, zone)
        stop_index = self._read_stops(files, prefix)
        trips = first_lines(files.table("trips.txt"), "trip_id")
        service_of = {trip: row.get("service_id", "") for trip, row in trips.items()}

        calendar = Calendar(files)
        ends = calendar.ends(set(service_of.values()))
        if ends is None:
            raise OracleError(f"{files.name}: no trip has an active date")
        text = f"{files.name} is active from {ends[0]:%Y%m%d} to {ends[1]:%Y%m%d}"
        if not ends[0] <= self._date <= ends[1]:
            raise OracleError(f"{self._date:%Y%m%d} is outside: {text}")

        # For each service: how far after second 0 the days begin on which it runs (negative for days before).
        window = range(-DAYS_BEFORE, self.horizon // 86400 + DAYS_AFTER)
        nearby = [self._date + timedelta(days=n) for n in window]
        offset = {day: day_start(day, zone) - self._start for day in nearby}
        offsets = {s: [offset[d] for d in nearby if calendar.active(s, d)] for s in set(service_of.values())}

        frequencies = read_frequencies(files, trips)
        wanted = {trip for trip, service in service_of.items() if offsets[service]}
        for trip_id, lines in read_stop_times(files, wanted):
            trip = make_trip(lines, stop_index)
            if trip is None:
                continue
            first, last = trip.departure[0], trip.departure[-1]
            for shift in [start - first for start in frequencies.get(trip_id, {first})]:
                for day in offsets[service_of[trip_id]]:
                    if first + shift + day < self.horizon and last + shift + day >= 0:
                        self._runs.append((trip, shift + day))
        self._read_transfers(files, prefix, stop_index)
        return text

    def _read_stops(self, files: Files, prefix: str) -> dict[str, int]:
        """Add a feed's stops and stations; return the index of each stop by its id in the feed."""
        stop_index = {}
        rows = first_lines(files.table("stops.txt"), "stop_id")
        for stop_id, row in rows.items():
            kind, parent = row.get("location_type", ""), row.get("parent_station", "")
            if kind in ("", "0"):
                stop_index[stop_id] = len(self._stops)
                self._stops.append(Stop(prefix + stop_id, parent and prefix + parent, parse_place(row)))
            elif kind == "1":
                self._stations[prefix + stop_id] = []
        for i in stop_index.values():
            if self._stops[i].parent in self._stations:
                self._stations[self._stops[i].parent].append(i)
        return stop_index

    def _walking_time(self, u: int, v: int) -> float:
        """Seconds on foot from u to v, infinite where one of them has no coordinates."""
        a, b = self._stops[u].place, self._stops[v].place
        if a is None or b is None:
            return INFINITY
        return math.ceil(distance(a, b) * self._detour / self._speed)

    def _read_transfers(self, files: Files, prefix: str, stop_index: dict[str, int]) -> None:
        def members(place: str) -> list[int]:
            return [stop_index[place]] if place in stop_index else self._stations.get(prefix + place, [])

        for row in files.table("transfers.txt"):
            kind = row.get("transfer_type", "") or "0"
            about = ("from_trip_id", "to_trip_id", "from_route_id", "to_route_id")
            if kind not in ("0", "1", "2", "3") or any(row.get(column, "") for column in about):
                continue
            given = row.get("min_transfer_time", "")
            given = int(given) if NATURAL.fullmatch(given) else None
            for u in members(row.get("from_stop_id", "")):
                for v in members(row.get("to_stop_id", "")):
                    if u != v:
                        self._add_rule(u, v, kind, given)

    def _add_rule(self, u: int, v: int, kind: str, given: int | None) -> None:
        walking = self._walking_time(u, v)
        if kind == "3":
            seconds = None
        elif given is None:
            seconds = walking
        elif kind == "2" or walking == INFINITY:
            seconds = given
        else:
            seconds = max(given, walking)
        known = self._rules.get((u, v), INFINITY)
        # None (type 3) wins over any time, else the least time.
        self._rules[u, v] = None if seconds is None or known is None else min(seconds, known)

    def _add_footpaths(self) -> None:
        pairs = {}
        # Within the radius: by latitude, so that only stops of nearly one latitude are compared. At radius 0
        # there are none at all, even between two stops at one point.
        order = sorted((s.place, i) for i, s in enumerate(self._stops) if s.place) if self._radius > 0 else []
        for n, (a, u) in enumerate(order):
            for m in range(n + 1, len(order)):
                b, v = order[m]
                if EARTH_RADIUS_M * math.radians(b[0] - a[0]) > self._radius + 1:
                    break
                if distance(a, b) <= self._radius:
                    pairs[u, v] = self._walking_time(u, v)
                    pairs[v, u] = self._walking_time(v, u)
        families = defaultdict(list)
        for i, stop in enumerate(self._stops):
            if stop.parent:
                families[stop.parent].append(i)
        for family in families.values():
            pairs |= {(u, v): self._walking_time(u, v) for u in family for v in family if u != v}
        pairs |= self._rules  # what transfers.txt speaks of is not generated
        for (u, v), seconds in pairs.items():
            if seconds is not None and seconds != INFINITY:
                self._footpaths[u].append((v, int(seconds)))

    def without_walking(self) -> "Oracle":
        """The same timetable with no footpaths, as `walk="none"` gives it, without reading it again."""
        other = copy.copy(self)
        other._footpaths = [[] for _ in self._stops]
        return other

    def _index_departures(self) -> list[list[tuple[int, int, int]]]:
        """For each stop the (second, run, position) to board at, if one can alight later; by time."""
        departures = [[] for _ in self._stops]
        for run, (trip, shift) in enumerate(self._runs):
            last = max((j for j, allowed in enumerate(trip.alight) if allowed), default=-1)
            for i in range(last):
                second = trip.departure[i] + shift
                if trip.board[i] and 0 <= second < self.horizon:
                    departures[trip.stops[i]].append((second, run, i))
        for board in departures:
            board.sort()
        return departures

    def arrivals(self, origin: str, departure: int) -> dict[str, int]:
        """The earliest second at each stop and station within reach; KeyError for an unknown origin."""
        if origin not in self._index and origin not in self._stations:
            raise KeyError(origin)
        if not 0 <= departure < self.horizon:
            raise ValueError(f"departure {departure} is outside [0, {self.horizon})")
        sources = self._stations[origin] if origin in self._stations else [self._index[origin]]
        best = dict.fromkeys(sources, departure)  # the least time known so far
        settled: dict[int, int] = {}
        heap = [(departure, source) for source in sources]
        ridden: dict[int, int] = {}  # run: the least position from which it was boarded

        def reach(stop: int, second: int) -> None:
            if second < best.get(stop, INFINITY):
                best[stop] = second
                heappush(heap, (second, stop))

        # No edge has negative seconds, so the least time in the heap is final. Edges of 0 seconds only put
        # stops of the same second into the heap, so they chain in whatever order the rows come.
        while heap:
            now, here = heappop(heap)
            if here in settled:
                continue
            settled[here] = now
            for stop, seconds in self._footpaths[here]:
                reach(stop, now + seconds)
            board = self._departures[here]
            for _, run, position in board[bisect_left(board, (now,)) :]:
                known = ridden.get(run)
                # Whoever boards later along a run that was boarded before sees nothing new.
                if known is None or position < known:
                    ridden[run] = position
                    self._ride(run, position, known, reach)
        out = {self._stops[i].id: second for i, second in settled.items()}
        for station, members in self._stations.items():
            if any(i in settled for i in members):
                out[station] = min(settled[i] for i in members if i in settled)
        return out

    def _ride(self, run: int, position: int, known: int | None, reach) -> None:
        """Ride from a position on; up to the position `known`, from which on the run was ridden before."""
        trip, shift = self._runs[run]
        for j in range(position + 1, len(trip.stops) if known is None else known + 1):
            if trip.alight[j]:
                reach(trip.stops[j], trip.arrival[j] + shift)
                # Where one can alight and board, riding on is another connection: it must depart in time.
                if trip.board[j] and trip.departure[j] + shift >= self.horizon:
                    break
