"""The generator of made-up feeds: same plan, same bytes; a feed that holds together; its character."""

from __future__ import annotations

import dataclasses
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))  # not in the wheel

import feed_stats
import generate
from geography import PRESETS, Plan

DEMO = PRESETS["demo"]
TABLES = {
    "agency",
    "calendar",
    "calendar_dates",
    "feed_info",
    "frequencies",
    "routes",
    "stop_times",
    "stops",
    "transfers",
    "trips",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "feed"
    generate.generate(path, DEMO)
    return path


@pytest.fixture(scope="module")
def feed(folder: Path) -> dict[str, pd.DataFrame]:
    return {p.stem: pd.read_csv(p, dtype="string") for p in folder.glob("*.txt")}


@pytest.fixture(scope="module")
def times(feed: dict[str, pd.DataFrame]) -> pd.DataFrame:
    table = feed["stop_times"][["trip_id", "stop_id"]].copy()
    table["sequence"] = feed["stop_times"].stop_sequence.astype(int)
    for name in ("arrival_time", "departure_time"):
        table[name] = feed_stats.seconds(feed["stop_times"][name].fillna(""))
    return table


def test_zip_repeats_and_equals_folder(folder: Path, tmp_path: Path) -> None:
    paths = [tmp_path / "a.zip", tmp_path / "b.zip"]
    for path in paths:
        generate.generate(path, DEMO)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    with zipfile.ZipFile(paths[0]) as archive:
        assert {Path(name).stem for name in archive.namelist()} == TABLES
        assert all(entry.date_time == (1980, 1, 1, 0, 0, 0) for entry in archive.infolist())
        for name in archive.namelist():
            assert archive.read(name) == (folder / name).read_bytes()


def test_chunks_leave_no_trace(folder: Path, tmp_path: Path) -> None:
    generate.generate(tmp_path / "feed", DEMO, chunk_rows=1_000)
    for path in folder.iterdir():
        assert path.read_bytes() == (tmp_path / "feed" / path.name).read_bytes()


def test_seed_matters(folder: Path, tmp_path: Path) -> None:
    generate.generate(tmp_path / "feed", dataclasses.replace(DEMO, seed=2))
    assert (folder / "stop_times.txt").read_bytes() != (tmp_path / "feed" / "stop_times.txt").read_bytes()


@pytest.mark.parametrize(
    ("table", "column", "target", "key"),
    [
        ("routes", "agency_id", "agency", "agency_id"),
        ("trips", "route_id", "routes", "route_id"),
        ("stop_times", "trip_id", "trips", "trip_id"),
        ("trips", "trip_id", "stop_times", "trip_id"),
        ("stop_times", "stop_id", "stops", "stop_id"),
        ("frequencies", "trip_id", "trips", "trip_id"),
        ("transfers", "from_stop_id", "stops", "stop_id"),
        ("transfers", "to_stop_id", "stops", "stop_id"),
        ("stops", "parent_station", "stops", "stop_id"),
    ],
)
def test_references(feed: dict[str, pd.DataFrame], table: str, column: str, target: str, key: str) -> None:
    assert set(feed[table][column].dropna()) <= set(feed[target][key])


def test_keys(feed: dict[str, pd.DataFrame]) -> None:
    for table, keys in [
        ("stops", ["stop_id"]),
        ("routes", ["route_id"]),
        ("trips", ["trip_id"]),
        ("stop_times", ["trip_id", "stop_sequence"]),
        ("calendar", ["service_id"]),
        ("calendar_dates", ["service_id", "date"]),
        ("transfers", ["from_stop_id", "to_stop_id"]),
        ("frequencies", ["trip_id", "start_time"]),
    ]:
        assert not feed[table].duplicated(keys).any(), table


def test_services(feed: dict[str, pd.DataFrame], folder: Path) -> None:
    known = set(feed["calendar"].service_id) | set(feed["calendar_dates"].service_id)
    assert set(feed["trips"].service_id) <= known
    assert {"WK", "DY", "SC", "EV"} == feed_stats.services_on(folder, DEMO.date)
    assert set(feed["calendar_dates"].service_id) - set(feed["calendar"].service_id) == {"EV"}


def test_stations(feed: dict[str, pd.DataFrame]) -> None:
    stops = feed["stops"].set_index("stop_id")
    parents = stops.parent_station.dropna()
    assert (stops.location_type[parents] == "1").all()
    assert (stops.location_type[parents.index] == "0").all()
    assert stops.parent_station[stops.location_type == "1"].isna().all()
    assert (stops.location_type[feed["stop_times"].stop_id.unique()] == "0").all()
    assert (stops.location_type == "0").sum() == DEMO.stops


def test_times_never_run_backwards(times: pd.DataFrame) -> None:
    assert times.groupby("trip_id", sort=False).sequence.diff().dropna().gt(0).all()
    blank = times.arrival_time < 0
    assert (blank == (times.departure_time < 0)).all()
    assert blank.any()
    trip = times.groupby("trip_id").arrival_time
    assert trip.first().ge(0).all()
    assert trip.last().ge(0).all()
    timed = times[~blank]
    assert (timed.departure_time >= timed.arrival_time).all()
    last_left = timed.groupby("trip_id", sort=False).departure_time.shift()
    assert (timed.arrival_time[last_left.notna()] >= last_left.dropna()).all()
    assert 24 * 3600 < timed.arrival_time.max() < 28 * 3600


def test_character(feed: dict[str, pd.DataFrame], folder: Path) -> None:
    stats = feed_stats.describe(folder, DEMO.date)
    for name, low, high in [
        ("stops served", 320, 400),
        ("active trips", 1_000, 4_000),
        ("connections", 10_000, 60_000),
        ("types per edge", 1.1, 3.0),
        ("stops per trip", 8, 30),
        ("gap repeats", 0.2, 0.8),
        ("blank times", 0.01, 0.15),
        ("hops of no time", 0.0005, 0.05),
        ("within 500 m, 50%", 4, 20),
        ("largest connected part", 0.95, 1.0),
    ]:
        assert low <= stats[name] <= high, (name, stats[name])
    stop_times = feed["stop_times"]
    assert stop_times.pickup_type.eq("1").any()
    assert stop_times.drop_off_type.eq("1").any()
    assert set(feed["transfers"].transfer_type) == {"0", "2", "3"}
    assert set(feed["frequencies"].exact_times) <= {"0", "1"}
    dwell = stop_times.dropna(subset="arrival_time").query("arrival_time != departure_time")
    assert len(dwell) > 100


def test_windows_follow_each_other(feed: dict[str, pd.DataFrame]) -> None:
    table = feed["frequencies"]
    start, end = feed_stats.seconds(table.start_time), feed_stats.seconds(table.end_time)
    assert (end > start).all()
    trip = table.trip_id.to_numpy()
    same = np.array(trip[1:] == trip[:-1], bool)
    assert same.any()
    assert (start[1:][same] == end[:-1][same]).all()


def test_many_cities(tmp_path: Path) -> None:
    plan = Plan(stops=3_000, lines=120, cities=8, shortest=8, longest=20, headway=4)
    counts = generate.generate(tmp_path / "feed", plan)
    assert (counts["stops"], counts["routes"]) == (3_000, 120)
    routes = pd.read_csv(tmp_path / "feed" / "routes.txt")
    assert set(routes.route_type) == {1, 2, 3}
    # Intercity lines tie the cities together.
    assert feed_stats.describe(tmp_path / "feed", plan.date)["largest connected part"] > 0.95


@pytest.mark.parametrize("wrong", [{"stops": 10}, {"lines": 0}, {"headway": 0}, {"running_times": 5}, {"shortest": 3}])
def test_plan_is_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"must be|needs|make no sense"):
        dataclasses.replace(DEMO, **wrong)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generate.main([str(tmp_path / "small.zip"), "--preset", "demo", "--stops", "200", "--lines", "12"])
    shown = capsys.readouterr().out
    assert "200 stops" in shown
    assert "gap repeats" in shown
