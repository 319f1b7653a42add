"""Hand-worked cases of the contract, and random timetables, through every engine against the oracle."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from unittest import mock

import pytest
from conftest import SHARED, answers, build
from headway.pipeline import engines
from headway.pipeline.engines import algorithms_for
from headway.storage.errors import HeadwayError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import Oracle, OracleError
from strategies import feeds, queries, write_feed

CASES = sorted((SHARED / "cases").glob("*/case.json"))


@pytest.mark.skipif(not CASES, reason="the hand-worked cases are not beside the checkout")
@pytest.mark.parametrize("file", CASES, ids=lambda file: file.parent.name)
def test_hand_worked_case(file: Path, algorithm: str) -> None:
    case = json.loads(file.read_text())
    options = dict(case["build"])
    names = {
        "walk": "walk__mode",
        "walk_radius": "walk__radius_m",
        "speed": "walk__speed_mps",
        "detour": "walk__detour",
    }
    day = options.pop("date")
    options = {names.get(key, f"build__{key}"): value for key, value in options.items()}
    paths = [file.parent / name for name in case["feeds"]]
    if "build_error" in case:
        with pytest.raises(HeadwayError) as error:
            build(paths, day, **options)
        assert all(digits in str(error.value) for digits in case["build_error"])
        return
    store = build(paths, day, **options)
    if algorithm not in algorithms_for(store):
        pytest.skip("it is about footpaths")
    ids = store.timetable.places.table["id"].to_pylist()
    for query in case["queries"]:
        if query.get("error"):
            assert query["origin"] not in ids or not 0 <= query["departure"] < store.timetable.horizon
        else:
            (found,) = answers(store, [(query["origin"], query["departure"])], algorithm)
            assert found == query["expect"], query["why"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_random_timetables_equal_the_oracle(data: st.DataObject) -> None:
    """Every rule, every engine, sub-trips, widths of clusters and of the queue's buckets, walking on and off."""
    tables = data.draw(feeds())
    asked = data.draw(st.lists(queries(tables), min_size=1, max_size=4))
    days = data.draw(st.integers(1, 3))
    walk = data.draw(st.sampled_from(["none", "default"]))
    width = data.draw(st.sampled_from([5, 7, 60, 180, 1440]))
    subtrips = data.draw(st.sampled_from(["none", "sqrt-trip", "sqrt-mean"]))
    bits = data.draw(st.integers(0, 12))
    with tempfile.TemporaryDirectory() as folder:
        feed = write_feed(Path(folder) / "feed", tables)
        try:
            oracle = Oracle([feed], "2026-06-10", days, walk)
        except OracleError:
            with pytest.raises(HeadwayError):
                build([feed], build__days=days, walk__mode=walk)
            return
        store = build(
            [feed],
            build__days=days,
            walk__mode=walk,
            build__cluster_minutes=width,
            build__subtrips=subtrips,
        )
    asked = [(origin, second) for origin, second in asked if 0 <= second < 86400 * days]
    expected = [oracle.arrivals(*query) for query in asked]
    with mock.patch.object(engines, "bucket_bits", return_value=bits):
        for algorithm in algorithms_for(store):
            assert answers(store, asked, algorithm) == expected


def test_late_trip_beside_a_line_without_stop(tmp_path: Path, algorithm: str) -> None:
    """A trip of the 8th leaves A at 49:00 (1:00 of the 10th) for B at 49:30; another line names no stop.

    The table is read twice for such a trip, and what the first pass noted must not mix with the second.
    """
    times = ["trip_id,arrival_time,departure_time,stop_id,stop_sequence"]
    times += ["n,49:00:00,49:00:00,A,1", "n,49:10:00,49:10:00,,2", "n,49:30:00,49:30:00,B,3"]
    feed = tmp_path / "feed"
    feed.mkdir()
    (feed / "stop_times.txt").write_text("\n".join(times))
    (feed / "trips.txt").write_text("route_id,service_id,trip_id\nR,N,n\nR,D,none\n")
    (feed / "stops.txt").write_text("stop_id,stop_lat,stop_lon\nA,52,13\nB,52,14\n")
    (feed / "calendar_dates.txt").write_text("service_id,date,exception_type\nN,20260608,1\nD,20260610,1\n")
    assert answers(build([feed]), [("A", 0)], algorithm) == [{"A": 0, "B": 5400}]


def test_feed_whose_trips_are_all_dropped(tmp_path: Path) -> None:
    """The only trip has a malformed time, so no trip has a run: an error that names the feed and its dates."""
    feed = tmp_path / "feed"
    feed.mkdir()
    (feed / "stop_times.txt").write_text(
        "trip_id,arrival_time,departure_time,stop_id,stop_sequence\nt,8:00:00,8:00:00,A,1\nt,8:05,8:05,B,2\n"
    )
    (feed / "trips.txt").write_text("service_id,trip_id\nD,t\n")
    (feed / "stops.txt").write_text("stop_id\nA\nB\n")
    (feed / "calendar_dates.txt").write_text("service_id,date,exception_type\nD,20260610,1\n")
    with pytest.raises(HeadwayError, match="no departure in 2 days from 2026-06-10; feed is active from 2026-06-10"):
        build([feed])
