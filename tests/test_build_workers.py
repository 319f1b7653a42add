"""The same store whoever builds it, and however it is cut: borders of parts fall everywhere."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from conftest import build, connections_store
from headway.cluster.dask import workers
from headway.cluster.devices import cuda_device
from headway.pipeline import blocks, graph, network
from headway.pipeline.graph import On, build_store, with_clusters, with_subtrips
from headway.pipeline.gtfs import read_network
from headway.pipeline.gtfs.report import Report
from headway.storage.errors import HeadwayError
from headway.storage.store import Store
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import DATE, feeds, write_feed
from tiny import feed, tables, write

SCHEMES = ("none", "sqrt-trip", "sqrt-mean")
LOOSE = [HealthCheck.too_slow, HealthCheck.data_too_large]


@contextmanager
def parts_of(trips: int, connections: int, block: int = blocks.BLOCK) -> Iterator[None]:
    """Parts of so few trips, ranges of tails with about so few connections, blocks of so few bytes."""
    with ExitStack() as stack:
        for where, name, value in (
            (network, "TRIPS_A_PART", trips),
            (graph, "CONNECTIONS_A_PART", connections),
            (blocks, "BLOCK", block),
        ):
            stack.enter_context(patch.object(where, name, value))
        yield


small = st.tuples(st.integers(1, 3), st.integers(1, 30), st.sampled_from([16, 50, 200, 1000]))


def contents(store: Store) -> dict[str, bytes]:
    """Every file of the store, the manifest among them."""
    with tempfile.TemporaryDirectory() as folder:
        store.save(Path(folder) / "store")
        return {file.name: file.read_bytes() for file in (Path(folder) / "store").iterdir()}


def outcome(paths: list[Path], strict: bool = False, **options) -> tuple:
    """All that a build says and makes."""
    report = Report(strict=strict)
    try:
        made = contents(build(paths, DATE, report, **options))
    except HeadwayError as error:
        made = str(error)
    return made, list(report.dropped.values()), report.warnings


@settings(max_examples=60, suppress_health_check=LOOSE)
@given(
    tables=st.lists(feeds(), min_size=1, max_size=2),
    cut=small,
    subtrips=st.sampled_from(SCHEMES),
    strict=st.booleans(),
    threads=st.integers(1, 3),
)
def test_cut_anyhow(tables: list, cut: tuple, subtrips: str, strict: bool, threads: int) -> None:
    """Random feeds, with what is dropped and why, in order."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [write_feed(Path(folder) / f"feed{n}", one) for n, one in enumerate(tables)]
        whole = outcome(paths, strict, build__subtrips=subtrips)
        with parts_of(*cut):
            assert outcome(paths, strict, build__subtrips=subtrips, threads=threads) == whole


@settings(max_examples=60)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 9000), st.sampled_from([0, 0, 60, 61, 900])),
        min_size=1,
        max_size=40,
    ),
    cut=small,
    minutes=st.sampled_from([1, 60]),
)
def test_connections_cut_anyhow(rows: list, cut: tuple, minutes: int) -> None:
    whole = connections_store(rows, 7, minutes)
    with parts_of(*cut):
        assert contents(connections_store(rows, 7, minutes)) == contents(whole)


@settings(max_examples=30, suppress_health_check=LOOSE)
@given(tables=feeds(), cut=small, subtrips=st.sampled_from(SCHEMES), minutes=st.sampled_from([5, 240]))
def test_variants_cut_anyhow(tables: dict, cut: tuple, subtrips: str, minutes: int) -> None:
    """Another width or scheme made of a store is as if it had been built so, parts or no parts."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_feed(Path(folder) / "feed", tables)
        try:
            store = build([path], DATE)
        except HeadwayError:
            return
        wanted = build([path], DATE, build__subtrips=subtrips, build__cluster_minutes=minutes)
    with parts_of(*cut):
        made = with_clusters(with_subtrips(store, subtrips, 2), minutes, 2)
    same_arrays(made.cluster_ap, wanted.cluster_ap)
    same_arrays(made.connections, wanted.connections)
    same_arrays(made.profile, wanted.profile)


def same_arrays(left: object, right: object) -> None:
    for name, value in vars(right).items():
        found = getattr(left, name)
        assert np.array_equal(found, value), name
        if isinstance(value, np.ndarray):
            assert found.dtype == value.dtype, name


TRIPS = [f"T{n:02}" for n in range(9)]


def scattered(folder: Path) -> Path:
    """Lines of one trip lie far apart, and every rule has a trip: their lines fall into different blocks."""
    stops = ["A", "B", "C", "D"]
    lines = [
        (trip, stop, f"{7 + n % 3}:{10 * k + n:02}:00", f"{7 + n % 3}:{10 * k + n:02}:30", k)
        for k, stop in enumerate(stops)
        for n, trip in enumerate(TRIPS)
    ]
    text = ["trip_id,stop_id,arrival_time,departure_time,stop_sequence"]
    text += [f"{trip},{stop},{arrive},{leave},{k}" for trip, stop, arrive, leave, k in lines]
    text.append(text[1])  # T00's first line once more, to the letter
    text.append("T01,D,9:59:00,9:59:00,3")  # another line of that sequence: T01 is dropped
    text.append("T02,Z,9:59:00,9:59:00,9")  # an unknown stop
    text.append("T03,A,6:00:00,6:00:00,9")  # time runs backwards
    text.append("T99,A,6:00:00,6:00:00,9")  # a trip that trips.txt lacks
    text += [f"{trip},,,,{place}" for place, trip in ((7, "T06"), (8, "T04"), (9, "T05"), (7, "T05"))]
    made = tables("\n".join(text))
    made["stops"] = "\n".join(["stop_id,stop_lat,stop_lon", *(f"{stop},{50 + n},8" for n, stop in enumerate(stops))])
    made["trips"] = "\n".join(
        ["route_id,service_id,trip_id", *(f"R,D,{trip}" for trip in TRIPS), "R,E,T00", "R,E,T08"]
    )  # repeated ids of a service that never runs: the first lines count
    made["frequencies"] = "\n".join(
        ["trip_id,start_time,end_time,headway_secs", "T07,8:00:00,9:00:00,600", "T07,9:00:00,9:10:00,0"]
    )
    return write(folder / "feed", made)


@pytest.mark.parametrize("trips", [1, 2, 4, 100])
@pytest.mark.parametrize("block", [40, 150])
def test_lines_of_a_trip_lie_in_many_blocks(tmp_path: Path, trips: int, block: int) -> None:
    path = scattered(tmp_path)
    whole = outcome([path], build__subtrips="sqrt-mean")
    with parts_of(trips, 3, block):
        assert outcome([path], build__subtrips="sqrt-mean", threads=2) == whole
    made, dropped, _ = whole
    assert isinstance(made, dict)
    causes = {entry.cause: (entry.count, entry.first) for entry in dropped}
    assert causes["a line without stop_id"] == (4, ["T06", "T04", "T05", "T05"]), "in the order of the file"
    assert causes["a trip with two different lines of one stop_sequence"] == (1, ["T01"])
    assert causes["a trip with a stop_id that is unknown or no stop"] == (1, ["T02"])
    assert causes["a line with a trip_id that trips.txt lacks"] == (1, ["T99"])
    assert causes["a repeated trip_id (the first line counts)"] == (2, ["T00", "T08"])


def test_a_late_trip_in_the_last_block(tmp_path: Path) -> None:
    """A trip of three days ago matters by its last lines: what was read before is read again, in any cut."""
    path = feed(
        tmp_path,
        "N: A 8:00, B 8:10\nL: A 23:00, B 72:20, C 72:30",
        calendar_dates="service_id,date,exception_type\nD,20260607,1\nD,20260610,1",
    )
    whole = outcome([path])
    assert isinstance(whole[0], dict)
    for trips in (1, 2):
        with parts_of(trips, 1, 30):
            assert outcome([path]) == whole


def test_latin_1_begins_after_many_blocks(tmp_path: Path) -> None:
    """The byte that is no UTF-8 lies in the last block; nothing counts twice."""
    made = tables("A1: A 8:00, B 8:10\nA2: A 9:00, B 9:10\nA3: A 10:00, B 10:10\n\u00c4: A 11:00, B 11:10")
    path = write(tmp_path / "feed", made, encoding="latin-1")
    whole = outcome([path])
    with parts_of(1, 1, 30):
        assert outcome([path]) == whole
    assert isinstance(whole[0], dict)
    assert any("Latin-1" in warning for warning in whole[2])


@pytest.fixture(scope="module")
def processes() -> Iterator:
    with workers("processes", 2, None, None, 1) as crew:
        yield crew


@pytest.mark.parametrize("subtrips", SCHEMES)
def test_processes_build_the_same(tmp_path: Path, processes, subtrips: str) -> None:
    path = scattered(tmp_path)
    with parts_of(2, 5, 100):
        made, report = made_by(processes, path, subtrips)
        with workers("threads", None, None, None, 2) as crew:
            wanted, told = made_by(crew, path, subtrips)
    assert made == wanted
    assert report.dropped == told.dropped
    assert report.warnings == told.warnings


def test_a_worker_dies_between_steps(tmp_path: Path) -> None:
    """Whatever it held is made again from the first block on, and the store is the same."""
    path = scattered(tmp_path)
    with parts_of(2, 5, 100):
        with workers("threads", None, None, None, 2) as crew:
            wanted, _ = made_by(crew, path, "none")
        with workers("processes", 2, None, None, 1) as crew:
            made, _ = made_by(crew, path, "none", lambda: os.kill(crew.on_each(os.getpid)[0], signal.SIGKILL))
    assert made == wanted


def made_by(crew, path: Path, subtrips: str, meanwhile=lambda: None) -> tuple[dict[str, bytes], Report]:
    report = Report()
    net, _ = read_network([path], date.fromisoformat(DATE), 2, None, crew, report)
    meanwhile()
    store = build_store(net, subtrips, 60, On(crew), report)
    assert store is not None
    store.facts["rebuild"] = ""
    return contents(store), report


@pytest.mark.skipif(not cuda_device().trouble, reason="there is a GPU")
def test_a_gpu_that_is_asked_for_and_missing(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match=r"build.frames=cudf: .*; --set build.frames=auto does without"):
        build([tmp_path], build__frames="cudf")
