"""`import headway as hw`: what it returns, and what it says of wrong input."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import STOPS, TIMETABLE
from headway.pipeline.engines import ALGORITHMS
from tiny import feed, write

import headway as hw

NEVER = 2**31 - 1
DAY = "2026-06-10"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """t: A 8:00, B 8:10, C 8:20; u: A 9:00, B 9:10; B and C of station S, X alone, E a station without stops."""
    return feed(tmp_path_factory.mktemp("face"), TIMETABLE, stops=STOPS)


@pytest.fixture(scope="module")
def store(path: Path) -> hw.Store:
    return hw.build([path], date=DAY, walk="none")


@pytest.fixture(params=[(name, threads) for name in ALGORITHMS for threads in (1, 2)], ids=str)
def engine(request: pytest.FixtureRequest, store: hw.Store) -> hw.Engine:
    algorithm, threads = request.param
    return hw.Engine(store, algorithm=algorithm, threads=threads)


def test_build_save_load(path: Path, store: hw.Store, tmp_path: Path) -> None:
    store.save(tmp_path / "s")
    found = hw.load(str(tmp_path / "s"))
    assert found.stops == store.stops == ["A", "B", "C", "X"]
    assert found.facts == store.facts
    expected = hw.Engine(store).arrivals("A", "8:00")
    assert (hw.Engine(found).arrivals("A", "8:00") == expected).all()
    with pytest.raises(hw.HeadwayError, match="exists"):
        store.save(tmp_path / "s")
    store.save(tmp_path / "s", overwrite=True)


def test_forms_of_a_date_and_of_feeds(path: Path, store: hw.Store) -> None:
    for day in (date(2026, 6, 10), datetime(2026, 6, 10, 8), pd.Timestamp(DAY)):
        assert hw.build(str(path), day, walk="none").facts == store.facts


def test_arrivals(engine: hw.Engine) -> None:
    """Column i is stops[i]: A, B, C, X. From S one leaves B and C at once."""
    found = engine.arrivals(origins=["A", "B", "A", "S", "E"], departures=["08:00", 29_400, "8:00:01", "7:00", 0])
    assert found.dtype == np.int32
    assert found.tolist() == [
        [28800, 29400, 30000, NEVER],
        [NEVER, 29400, 30000, NEVER],
        [28801, 33000, NEVER, NEVER],
        [NEVER, 25200, 25200, NEVER],
        [NEVER] * 4,
    ]


def test_one_value_for_all(engine: hw.Engine) -> None:
    """A single origin or departure stands for each query; NumPy and pandas values are as good."""
    expected = engine.arrivals(["A", "A"], [0, 30000]).tolist()
    assert engine.arrivals("A", [0, 30000]).tolist() == expected
    assert engine.arrivals("A", np.array([0, 30000])).tolist() == expected
    assert engine.arrivals(pd.Series(["A", "A"]), pd.Series(["0:00", "8:20"])).tolist() == expected
    assert engine.arrivals("A", np.int64(30000)).tolist() == expected[1:]
    assert engine.arrivals([], []).shape == (0, 4)
    assert engine.table([], []).columns.tolist() == ["query_id", "origin", "departure", "stop", "arrival"]


def test_table(engine: hw.Engine) -> None:
    found = engine.table(["A", "X"], ["8:05", "0:00"])
    assert found.astype({"origin": str, "stop": str}).to_numpy().tolist() == [
        [0, "A", 29100, "A", 29100],
        [0, "A", 29100, "B", 33000],
        [0, "A", 29100, "S", 33000],
        [1, "X", 0, "X", 0],
    ]
    assert found.dtypes[["query_id", "departure", "arrival"]].tolist() == ["int64", "int32", "int32"]


def test_od(engine: hw.Engine) -> None:
    found = engine.od("A", ["C", "S", "X", "A", "E"], "8:00")
    assert found.columns.tolist() == ["query_id", "origin", "destination", "departure", "arrival"]
    assert found["destination"].tolist() == ["C", "S", "X", "A", "E"]
    assert found["arrival"].fillna(-1).tolist() == [30000, 29400, -1, 28800, -1]


def test_reach(engine: hw.Engine) -> None:
    """Stops within 0, 9:59, 10 and 20 minutes of A at 8:00; stations don't count, the origin does."""
    found = engine.reach("A", "8:00", cutoffs=[0, 9 + 59 / 60, 10, 20], weights={"A": 1, "C": 0.5})
    assert found.columns.tolist() == ["query_id", "origin", "departure", "cutoff_s", "stops", "weight"]
    assert found["cutoff_s"].tolist() == [0, 599, 600, 1200]
    assert found["stops"].tolist() == [1, 1, 2, 3]
    assert found["weight"].tolist() == [1, 1, 1, 1.5]
    frame = pd.DataFrame({"stop": ["B", "C"], "jobs": [10, 20], "schools": [1.5, 0]})
    found = engine.reach(["A", "S"], "8:00", [10], frame)
    assert found[["stops", "jobs", "schools"]].to_numpy().tolist() == [[2, 10, 1.5], [2, 30, 1.5]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda e: e.arrivals("AA", 0), "no stop or station 'AA' in the store; did you mean A"),
        (lambda e: e.od("A", "SS", 0), "did you mean S"),
        (lambda e: e.arrivals(["A", 7], 0), "7 is no id of a stop"),
        (lambda e: e.arrivals(None, 0), "None is no id"),
        (lambda e: e.arrivals("A", "8h"), "departure '8h' is no time"),
        (lambda e: e.arrivals("A", -1), "departure -1 is no time"),
        (lambda e: e.arrivals("A", 172_800), r"departure 172800 is outside \[0, 172800\)"),
        (lambda e: e.arrivals("A", 8.5), "departure 8.5 is no time"),
        (lambda e: e.arrivals("A", None), "departure None is no time"),
        (lambda e: e.arrivals(["A", "B"], [0, 1, 2]), "2 origins for 3 queries"),
        (lambda e: e.od(["A", "B"], ["A", "B", "C"], 0), "2 origins for 3 queries"),
        (lambda e: e.reach("A", 0, []), "cutoffs"),
        (lambda e: e.reach("A", 0, [-1]), "cutoffs"),
        (lambda e: e.reach("A", 0, [float("nan")]), "cutoffs"),
        (lambda e: e.reach("A", 0, [1e9]), "cutoffs"),
        (lambda e: e.reach("A", 0, ["x"]), "cutoffs"),
        (lambda e: e.reach("A", 0, weights={"Z": 1}), "row 2: 'Z' is no stop"),
        (lambda e: e.reach("A", 0, weights={"A": "many"}), "column weight holds something that is no number"),
        (lambda e: e.reach("A", 0, weights={"A": float("inf")}), "column weight holds something that is no number"),
        (lambda e: e.reach("A", 0, weights=pd.DataFrame({"stop": ["A", 7], "w": [1, 2]})), "weights: "),
        (lambda e: e.reach("A", 0, weights=3), "weights of type int; give a frame with `stop` and numbers"),
        (lambda e: e.reach("A", 0, weights=["A"]), "weights of type list"),
        (lambda e: hw.Engine(e.store, threads=0), "threads 0: "),
        (lambda e: hw.Engine(e.store, threads=-1), "threads -1: "),
        (lambda e: hw.Engine(e.store, algorithm="dijkstra"), "there are edge-profile, "),
        (lambda e: hw.Engine(e.store, device="abacus"), "there are auto"),
        (lambda e: hw.load("no/such/store"), "no such store"),
        (lambda e: hw.Engine(hw.DTCSR.from_events(([0], [1], [0]))), "takes a timetable's store, not a DTCSR"),
        (lambda e: hw.build([], DAY), "no feed given"),
        (lambda e: hw.build("nowhere.zip", DAY), "nowhere.zip: no such file or folder"),
        (lambda e: hw.build("nowhere.zip", "10.6.2026"), "'10.6.2026' is no date"),
        (lambda e: hw.build("nowhere.zip", None), "None is no date"),
        (lambda e: hw.build("nowhere.zip", DAY, days=0), "days 0: "),
        (lambda e: hw.build("nowhere.zip", DAY, walk="perhaps"), "walk perhaps: "),
    ],
)
def test_wrong(store: hw.Store, call, words: str) -> None:
    with pytest.raises(hw.HeadwayError, match=words) as error:
        call(hw.Engine(store))
    assert "\n" not in str(error.value)


def test_strict(tmp_path: Path) -> None:
    files = {
        "stop_times": "trip_id,stop_id,arrival_time,departure_time,stop_sequence\n"
        "t,A,8:00:00,8:00:00,1\nt,B,8:10:00,8:10:00,2\nbad,A,8:05,8:05,1\nbad,B,9:00:00,9:00:00,2",
        "stops": "stop_id\nA\nB",
        "trips": "service_id,trip_id\nD,t\nD,bad",
        "calendar_dates": "service_id,date,exception_type\nD,20260610,1",
    }
    path = write(tmp_path / "feed", files)
    (entry,) = hw.build(path, DAY).facts["dropped"]
    assert entry == {
        "file": "feed/stop_times.txt",
        "cause": "a trip with a malformed time",
        "count": 1,
        "first": ["bad"],
    }
    with pytest.raises(hw.HeadwayError, match=r"a trip with a malformed time \(bad\)"):
        hw.build(path, DAY, strict=True)
