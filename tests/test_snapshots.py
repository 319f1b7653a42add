"""`headway snapshots` and `headway info` of a graph, and graphs of timetables."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command import done, headway, refused, tiny_store
from conftest import build, connections_store, real_feed
from headway.storage.store import Store
from snapshot_oracle import check_arrays, edges_of

import headway as hw

EVENTS = "src,dst,time,weight\n1,2,7200,0.5\n2,3,100,1\n1,2,7100,2\n3,1,3700,4\n1,2,7205,8\n"


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.csv"
    path.write_text(EVENTS)
    return path


def test_events_to_a_graph(events: Path, tmp_path: Path) -> None:
    output = tmp_path / "graph"
    result = headway("snapshots", events, "-o", output, "--value", "weight", "--width", 3600, "--duplicates", "sum")
    assert (result.status, result.out) == (0, "")
    assert "merged duplicates: 1" in result.err
    assert "graph: 3 nodes, 4 events at 3 ticks" in result.err
    graph = hw.load(output)
    assert isinstance(graph, hw.DTCSR)
    assert [edges_of(window) for window in graph.windows()] == [[(1, 2, 1)], [(0, 1, 2), (2, 0, 4)], [(0, 1, 8.5)]]
    assert graph.times.tolist() == [0, 3600, 7200]


def test_options_make_the_graph_that_python_makes(events: Path, tmp_path: Path) -> None:
    times, nodes = tmp_path / "times", tmp_path / "nodes"
    times.write_text("0\n\n3700\n")
    nodes.write_text("3\n1\n2\n9\n")
    changes = tmp_path / "changes.csv"
    changes.write_text("src,dst,time,what\na,b,0,insert\na,b,2,delete\n")
    for number, (words, options) in enumerate(
        [
            ([], {}),
            (["--ticks", 4], {"ticks": 4}),
            (["--events", 2, "--duplicates", "last"], {"events_per_tick": 2, "duplicates": "last"}),
            (
                ["--times", times, "--nodes", nodes],
                {"times": [0, 3700], "nodes": [3, 1, 2, 9]},
            ),
            (["--width", 60, "--start", -60, "--nodes", 5], {"width": 60, "start": -60, "nodes": 5}),
            (["--src", "dst", "--dst", "src", "--value", "weight"], {"src": "dst", "dst": "src", "value": "weight"}),
        ]
    ):
        done("snapshots", events, "-o", tmp_path / f"{number}", "--quiet", *words)
        found, expected = hw.load(tmp_path / f"{number}"), hw.DTCSR.from_events(events, **options)
        assert isinstance(found, hw.DTCSR)
        assert found.ids.equals(expected.ids)
        assert found.arrays().keys() == expected.arrays().keys()
        assert all((held == expected.arrays()[name]).all() for name, held in found.arrays().items())
    done("snapshots", changes, "-o", tmp_path / "changes", "--op", "what", "--width", 1)
    graph = hw.load(tmp_path / "changes")
    assert isinstance(graph, hw.DTCSR)
    assert [len(edges_of(window)) for window in graph.windows()] == [1, 1, 0]


def test_same_input_same_bytes_and_a_command_to_rebuild(events: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        done("snapshots", events, "-o", tmp_path / name, "--width", 60, "--quiet")
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "b").iterdir())
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in files)
    (tmp_path / "a" / "next.npy").unlink()
    assert "next.npy: missing; rebuild it: headway snapshots events.csv -o GRAPH --width 60" in refused(
        "info", tmp_path / "a"
    )


def test_info(events: Path, tmp_path: Path) -> None:
    done("snapshots", events, "-o", tmp_path / "graph", "--width", 3600, "--start", -3600, "--quiet")
    facts = json.loads(done("info", tmp_path / "graph", "--json", "--verify"))
    assert facts["counts"] == {"nodes": 3, "events": 5, "distinct pairs": 3, "ticks": 4, "ticks without events": 1}
    assert (facts["first time"], facts["last time"]) == (-3600, 7200)
    graph = hw.load(tmp_path / "graph")
    assert isinstance(graph, hw.DTCSR)
    assert facts["bytes"] == {name: held.nbytes for name, held in graph.arrays().items()}
    # Offsets of four matrices each way, then columns and labels of five edges each way.
    assert facts["bytes of a CSR per snapshot"] == 4 * 2 * 4 * 4 + 2 * 2 * 4 * 5
    text = done("info", tmp_path / "graph")
    for words in (
        "ticks begin at times -3600 to 7200",
        "distinct pairs",
        "by_source.time_offset",
        "a CSR per snapshot",
    ):
        assert words in text


def test_info_of_presences(tmp_path: Path) -> None:
    path = tmp_path / "changes.csv"
    path.write_text("src,dst,time,op\n1,2,0,+\n2,1,1,+\n1,2,3,-\n1,2,4,-\n")
    done("snapshots", path, "-o", tmp_path / "graph", "--op", "op", "--width", 1, "--quiet")
    facts = json.loads(done("info", tmp_path / "graph", "--json"))
    assert facts["counts"]["presences"] == 2
    assert facts["deletions of absent edges"] == 1
    # One edge at ticks 0 to 2, one at 1 to 4.
    assert facts["bytes of a CSR per snapshot"] == 5 * 2 * 4 * 3 + 2 * 2 * 4 * (3 + 4)


def test_wrong_input(events: Path, tmp_path: Path) -> None:
    store = tiny_store(tmp_path)
    output = tmp_path / "graph"
    lines = tmp_path / "lines"
    lines.write_text("1\nx\n")
    for words, message in (
        ((events, "--width", 0), "width 0: give an integer"),
        ((events, "--width", 1, "--ticks", 2), "width and ticks both make ticks"),
        ((events, "--value", "cost"), "no column cost (it has src, dst, time, weight); check its name"),
        ((events, "--times", lines), "lines: row 2: 'x' is no integer"),
        ((events, "--nodes", 2), "events.csv: row 2: dst 2 is not in 0..1"),
        ((events, "--nodes", tmp_path / "none"), "none: No such file"),
        ((events, "--bin", 60), "--bin is for a timetable's store"),
        ((events, "--duplicates", "first"), "'first' is not one of"),
        ((tmp_path / "no.csv",), "no.csv: No such file"),
        ((store, "--width", 60), "--width is for events; a store takes --bin and --value"),
        ((store, "--value", "speed"), "a timetable has departures, duration, headway"),
        ((store, "--bin", 0), "bin 0: give seconds"),
        ((events, "--set", "threads=0"), "--set threads=0: "),
        ((events, "--profile", "desktop"), "--profile desktop: no such profile"),
        ((tmp_path,), "no manifest.json"),
    ):
        assert message in refused("snapshots", *words, "-o", output)
        assert not output.exists()
    done("snapshots", events, "-o", output)
    assert "exists" in refused("snapshots", events, "-o", output)
    done("snapshots", events, "-o", output, "--overwrite")
    assert "holds a 'dt-csr', not a 'store'" in refused("stops", output)
    assert "holds a 'dt-csr'" in refused("snapshots", output, "-o", tmp_path / "other")


def plain_timetable(store: Store, seconds: int) -> dict[tuple[int, int, int], list[int]]:
    """Durations by bin and pair of stops, a departure of a vehicle each, from the trips alone."""
    trips, places = store.timetable.trips, store.timetable.places
    stop = {
        int(places.vertex[k]): p for p in range(places.stops) for k in range(places.offset[p], places.offset[p + 1])
    }
    found: dict[tuple[int, int, int], list[int]] = {}
    for trip in range(len(trips.ids)):
        rows = range(trips.offset[trip], trips.offset[trip + 1] - 1)
        for shift in trips.shift[trips.run_offset[trip] : trips.run_offset[trip + 1]]:
            for row in rows:
                leave, arrive = int(trips.departure[row] + shift), int(trips.arrival[row + 1] + shift)
                key = leave // seconds, stop[int(trips.vertex[row])], stop[int(trips.vertex[row + 1])]
                if 0 <= leave < store.timetable.horizon:  # the rest belongs to days around
                    found.setdefault(key, []).append(arrive - leave)
    return found


def check_timetable(store: Store, seconds: int) -> None:
    expected = plain_timetable(store, seconds)
    for value, of in (
        ("departures", len),
        ("duration", lambda durations: np.float32(sum(durations) / len(durations))),
        ("headway", lambda durations: np.float32(seconds / len(durations))),
    ):
        graph = hw.DTCSR.from_store(store, bin=seconds, value=value)
        assert graph.ids.to_pylist() == store.stops
        assert graph.times.tolist() == [k * seconds for k in range(graph.ticks)]
        edges = {(w.first, s, d): held for w in graph.windows() for s, d, held in edges_of(w)}
        assert edges == {key: of(durations) for key, durations in expected.items()}
        assert graph.events == len(edges)


def test_a_timetable(tmp_path: Path) -> None:
    """A to B at 8:00 and 9:00, B to C at 8:10; the station's stops are its own."""
    store = hw.load(tiny_store(tmp_path))
    assert isinstance(store, hw.Store)
    check_timetable(store, 3600)
    check_arrays(hw.DTCSR.from_store(store))
    done("snapshots", tmp_path / "the.store", "-o", tmp_path / "graph", "--bin", 1800, "--value", "headway")
    graph = hw.load(tmp_path / "graph")
    assert isinstance(graph, hw.DTCSR)
    assert graph.ids.to_pylist() == ["A", "B", "C", "X"]
    assert [edges_of(graph.snapshot(tick)) for tick in (15, 16, 18)] == [
        [],
        [(0, 1, 1800), (1, 2, 1800)],
        [(0, 1, 1800)],
    ]
    facts = json.loads(done("info", tmp_path / "graph", "--json"))
    assert (facts["from"], facts["bin"], facts["value"]) == ("timetable", 1800, "headway")


def test_a_timetable_of_connections() -> None:
    store = connections_store([(0, 1, 10, 5), (0, 1, 20, 7), (1, 0, 70, 1), (0, 1, 65, 9)], 3)
    graph = hw.DTCSR.from_store(store, bin=60, value="duration")
    assert [edges_of(window) for window in graph.windows()] == [[(0, 1, 6)], [(0, 1, 9), (1, 0, 1)]]


def test_a_real_timetable() -> None:
    check_timetable(build([real_feed("cdmx_metro")], "2019-06-12"), 3600)


def test_sub_trips_are_no_departures() -> None:
    store = build([real_feed("cdmx_metro")], "2019-06-12", build__subtrips="sqrt-trip")
    with pytest.raises(hw.HeadwayError, match="build it with --subtrips none"):
        hw.DTCSR.from_store(store)
