"""Tiny feeds, written out in a test, and their earliest arrivals."""

from __future__ import annotations

import zipfile
from pathlib import Path

from conftest import answers, build

STOP_TIMES = "trip_id,stop_id,arrival_time,departure_time,stop_sequence"
WEEK = "service_id,monday,tuesday,wednesday,thursday,friday,saturday,sunday,start_date,end_date"
DAILY = f"{WEEK}\nD,1,1,1,1,1,1,1,20260101,20261231"


def clock(text: str) -> int:
    """Seconds of `H:MM` or `H:MM:SS`."""
    hours, minutes, seconds = [*map(int, text.split(":")), 0][:3]
    return 3600 * hours + 60 * minutes + seconds


def stop_times(timetable: str) -> str:
    """A line `trip: STOP TIME, STOP ARRIVAL/DEPARTURE, ...` each trip; times `H:MM`, or `-` for none."""
    lines = [STOP_TIMES]
    for line in timetable.strip().splitlines():
        trip, calls = line.strip().split(": ", 1)
        for number, call in enumerate(calls.split(", "), 1):
            stop, time = call.split()
            arrival, departure = (time.split("/") * 2)[:2]
            both = ["" if text == "-" else f"{text}:00" for text in (arrival, departure)]
            lines.append(f"{trip},{stop},{both[0]},{both[1]},{number}")
    return "\n".join(lines)


def tables(timetable: str, zone: str = "Europe/Berlin", **files: str) -> dict[str, str]:
    """A feed's files: `files` as they are, the others made up; service D runs on 2026-06-10.

    `timetable` is as of `stop_times`, or a whole stop_times.txt. Stops lie a degree apart: nobody walks.
    """
    text = timetable if timetable.startswith("trip_id") else stop_times(timetable)
    rows = [line.split(",") for line in text.splitlines()[1:]]
    stops = sorted({row[1].strip() for row in rows} - {""})
    trips = dict.fromkeys(row[0] for row in rows)
    return {
        "agency": f"agency_id,agency_timezone\n1,{zone}",
        "stops": "\n".join(["stop_id,stop_lat,stop_lon", *(f"{stop},{50 + n},8" for n, stop in enumerate(stops))]),
        "trips": "\n".join(["route_id,service_id,trip_id", *(f"R,D,{trip}" for trip in trips)]),
        "stop_times": text,
        "calendar_dates": "service_id,date,exception_type\nD,20260610,1",
    } | files


def write(path: Path, files: dict[str, str] | dict[str, bytes], inside: str = "", encoding: str = "utf-8") -> Path:
    """Write files as a folder, or as a zip where the path ends so; `inside` is put before their names."""
    contents = {
        f"{inside}{name}.txt": text if isinstance(text, bytes) else f"{text}\n".encode(encoding)
        for name, text in files.items()
    }
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in contents.items():
                archive.writestr(name, content)
        return path
    for name, content in contents.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def feed(folder: Path, timetable: str, zone: str = "Europe/Berlin", **files: str) -> Path:
    """A folder with the tables of `tables`."""
    return write(folder / "feed", tables(timetable, zone, **files))


def reached(path: Path, origin: str, at: str, algorithm: str, day: str = "2026-06-10", **options) -> dict[str, int]:
    """Id -> second for all that is reached from `origin` at `at`."""
    (found,) = answers(build([path], day, **options), [(origin, clock(at))], algorithm)
    return found


def times(**found: str) -> dict[str, int]:
    """Id -> second, from `H:MM[:SS]`."""
    return {name: clock(text) for name, text in found.items()}
