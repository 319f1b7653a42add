"""`headway nightly`: what it builds, publishes, keeps and removes."""

from __future__ import annotations

import errno
import json
import shutil
import threading
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from command import headway
from headway.pipeline import nightly
from headway.pipeline.nightly.output import LEFT
from headway.pipeline.nightly.plan import Dates, load_plan
from headway.storage.errors import HeadwayError
from headway.storage.store import load
from nights import LATER, Place

import headway as hw


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# --- what changed -------------------------------------------------------------------------------------------


def test_built_once(place: Place) -> None:
    first = place.night()
    name = place.current()
    assert (first["status"], first["current"]) == ("built", {"before": None, "after": name})
    assert first["dates"] == {"first": "2026-06-10", "days": 2}
    assert [feed["name"] for feed in first["feeds"]] == ["a.zip"]
    assert [feed["sha256"] for feed in first["feeds"]] == [source["sha256"] for source in first["store"]["sources"]]
    assert {"look at feeds", "write", "verify"} <= first["seconds"].keys()
    own = json.loads((place.out / f"{name}.json").read_text())
    assert own["store"] == first["store"]

    second = place.night()
    assert (second["status"], second["current"]) == ("unchanged", {"before": name, "after": name})
    assert second["store"] == first["store"]
    assert "write" not in second["seconds"]
    assert place.stores() == [name]
    assert sorted(path.name for path in place.out.iterdir()) == sorted(
        [".lock", name, f"{name}.json", "current", "report.json"]
    )


def test_what_is_said(place: Place) -> None:
    """A line an event, and with --quiet none unless something is wrong."""
    said = headway("nightly", place.file)
    assert (said.status, said.out) == (0, "")
    name = place.current()
    lines = said.err.splitlines()
    assert lines[0] == f"{place.file}: 2 days from 2026-06-10, feeds: a.zip"
    assert lines[-1] == f"{place.out / 'current'} leads to {name}: built"
    assert sum(line.startswith(f"{place.out / name}: 3 stops, ") for line in lines) == 1
    assert headway("nightly", place.file).err.splitlines()[1:] == [lines[-1].replace("built", "unchanged")]
    place.plan(dates="2026-06-11")
    assert place.run().err == ""


CHANGES: dict[str, Callable[[Place], object]] = {
    "feed": lambda place: place.feed("a", LATER),
    "feeds": lambda place: place.plan(feeds=["a.zip", "b.zip"]),
    "order": lambda place: place.plan(feeds=["b.zip", "a.zip"]),
    "prefix": lambda place: place.plan(feeds=["a.*"]),
    "date": lambda place: place.plan(dates="2026-06-11"),
    "range": lambda place: place.plan(dates="2026-06-10..2026-06-13"),
    "build": lambda place: place.plan(build={"cluster_minutes": 30}),
    "walk": lambda place: place.plan(walk={"mode": "none"}),
    "profile": lambda place: (
        (place.folder / "my.yaml").write_text("walk: {radius_m: 400}"),
        place.plan(profile="my.yaml"),
    ),
}


def test_built_again(place: Place) -> None:
    names = [place.night()["current"]["after"]]
    for change in CHANGES:
        CHANGES[change](place)
        assert (change, place.night()["status"]) == (change, "built")
        names.append(place.current())
        assert (change, place.night()["status"]) == (change, "unchanged")
    assert len({name.split("-")[1] for name in names}) == len(names)


def test_what_changes_nothing(place: Place) -> None:
    """Threads, frames, how many are kept, the plan's own text, a feed written again with the same content."""
    before = place.night()["current"]["after"]
    (place.folder / "a.zip").write_bytes((place.folder / "a.zip").read_bytes())
    place.plan(threads=1, keep=3, dates="2026-06-10", build={"frames": "pandas"})
    assert place.night()["status"] == "unchanged"
    assert place.current() == before


def test_another_version_of_headway_builds_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.run()
    monkeypatch.setattr(nightly, "version", lambda _: "99")
    assert place.night()["status"] == "built"


def test_a_plan_changed_and_changed_back(place: Place) -> None:
    """The store that there is already is published again: also how a switch that never happened is made up for."""
    first = place.night()["current"]["after"]
    place.plan(dates="2026-06-11")
    second = place.night()["current"]["after"]
    place.plan(dates="2026-06-10")
    assert place.night()["status"] == "published"
    assert place.current() == first
    assert place.stores() == [first, second]


def test_arguments_reach_the_store(place: Place) -> None:
    place.plan(dates="2026-06-10..+4", build={"cluster_minutes": 15}, walk={"radius_m": 0, "speed_mps": 2})
    facts = place.night()["store"]["build"]
    assert (facts["date"], facts["days"], facts["cluster minutes"]) == ("2026-06-10", 5, 15)
    assert (facts["radius"], facts["speed"]) == (0, 2)


# --- today --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("zone", "first"), [("Pacific/Kiritimati", "2026-06-11"), ("Pacific/Pago_Pago", "2026-06-09")])
def test_today_is_where_the_first_feed_is(place: Place, monkeypatch: pytest.MonkeyPatch, zone: str, first: str) -> None:
    monkeypatch.setattr(nightly, "now", lambda: datetime(2026, 6, 10, 10, 30, tzinfo=UTC))
    place.feed("a", zone=zone)
    place.plan(dates="today..+1")
    assert place.night()["dates"] == {"first": first, "days": 2}


def test_a_day_later(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.plan(dates="today..+7")
    dates = []
    for day, hour in [(10, 1), (10, 20), (11, 1)]:
        monkeypatch.setattr(nightly, "now", lambda day=day, hour=hour: datetime(2026, 6, day, hour, tzinfo=UTC))
        night = place.night()
        dates.append((night["status"], night["dates"]["first"], night["dates"]["days"]))
    assert dates == [("built", "2026-06-10", 8), ("unchanged", "2026-06-10", 8), ("built", "2026-06-11", 8)]


def test_a_clock_set_back(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest store is the one built last."""
    place.run()
    monkeypatch.setattr(nightly, "now", lambda: datetime(2020, 1, 1, tzinfo=UTC))
    place.plan(dates="2026-06-11", keep=1)
    place.run()
    assert place.stores() == [place.current()]


@pytest.mark.parametrize(
    ("text", "expect"),
    [
        ("2026-09-30", (date(2026, 9, 30), None)),
        ("today", (date(2026, 6, 10), None)),
        ("today..+0", (date(2026, 6, 10), 1)),
        ("today..+7", (date(2026, 6, 10), 8)),
        ("2026-09-30..2026-10-06", (date(2026, 9, 30), 7)),
        ("2026-09-30..+6", (date(2026, 9, 30), 7)),
        ("today..2026-06-12", (date(2026, 6, 10), 3)),
    ],
)
def test_dates(place: Place, text: str, expect: tuple) -> None:
    place.plan(dates=text)
    found = load_plan(place.file).plan.dates
    assert isinstance(found, Dates)
    assert found.on(date(2026, 6, 10)) == expect


# --- how many are kept --------------------------------------------------------------------------------------


def test_the_last_are_kept(place: Place) -> None:
    place.plan(keep=2)
    names = []
    for day in range(10, 14):
        place.plan(dates=f"2026-06-{day}")
        night = place.night()
        assert night["removed"] == names[-2:-1]
        names.append(place.current())
    assert place.stores() == names[-2:]
    assert sorted(path.stem for path in place.out.glob("2*.json")) == names[-2:]


def test_current_is_never_removed(place: Place) -> None:
    """Though it is the oldest, published again."""
    names = []
    for day in (10, 11, 12):
        place.plan(dates=f"2026-06-{day}")
        names.append(place.night()["current"]["after"])
    place.plan(dates="2026-06-10", keep=1)
    assert place.night()["removed"] == names[1:]
    assert place.stores() == [place.current()] == names[:1]


def test_strangers_stay(place: Place) -> None:
    place.out.mkdir()
    for name in ("mine", "20260610", ".mine.partial"):
        (place.out / name).mkdir()
    (place.out / "notes.json").write_text("{}")
    place.plan(keep=1)
    for day in (10, 11):
        place.plan(dates=f"2026-06-{day}")
        place.run()
    assert place.stores() == sorted([".mine.partial", "20260610", "mine", place.current()])
    assert (place.out / "notes.json").exists()


def test_what_cannot_be_removed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.plan(keep=1)
    first = place.night()["current"]["after"]

    def refuse(_: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(shutil, "rmtree", refuse)
    place.plan(dates="2026-06-11")
    result = place.run()
    assert f"{place.out / first}: could not be removed: Permission denied" in result.err
    assert place.report()["removed"] == []
    monkeypatch.undo()
    assert place.night()["status"] == "unchanged"
    assert [path.name for path in place.out.iterdir() if LEFT.fullmatch(path.name)] == []


# --- stores and their readers -------------------------------------------------------------------------------


def test_a_reader_keeps_its_store(place: Place) -> None:
    place.plan(keep=1)
    name = place.night()["current"]["after"]
    store = hw.load(place.out / "current")
    place.plan(dates="2026-06-11")
    place.feed("a", LATER)
    place.run()
    assert not (place.out / name).exists()
    found = hw.Engine(store, device="cpu", threads=1).od(["A"], ["B"], [30_000])
    assert found["arrival"].tolist() == [9 * 3600 + 600]
    found = hw.Engine(hw.load(place.out / "current"), device="cpu", threads=1).od(["A"], ["B"], [30_000])
    assert found["arrival"].tolist() == [9 * 3600 + 600]
    assert headway("query", place.out / "current", "--from", "A", "--at", "8:30", "--to", "B").out.count("\n") == 2


def test_current_opens_at_every_moment(place: Place) -> None:
    place.plan(keep=1)
    place.run()
    opened, failed, end = [], [], threading.Event()

    def read() -> None:
        while not end.is_set():
            try:
                opened.append(load(place.out / "current", verify=True).facts["build"]["date"])
            except HeadwayError as error:
                failed.append(str(error))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for day in range(11, 18):
            place.plan(dates=f"2026-06-{day}")
            place.run()
    finally:
        end.set()
        reader.join()
    assert failed == []
    assert len(set(opened)) > 3


@pytest.mark.parametrize("damage", ["array", "manifest", "all", "link"])
def test_a_damaged_current_store(place: Place, damage: str) -> None:
    name = place.night()["current"]["after"]
    store = place.out / name
    if damage == "array":
        data = bytearray((store / "profile.word.npy").read_bytes())
        data[-1] ^= 1
        (store / "profile.word.npy").write_bytes(data)
    elif damage == "manifest":
        (store / "manifest.json").write_text("")
    elif damage == "all":
        shutil.rmtree(store)
    else:
        (place.out / "current").unlink()
        (place.out / "current").symlink_to("elsewhere")
    assert place.night()["status"] == ("published" if damage == "link" else "built")
    assert place.current().endswith(name[-13:])
    if damage in ("array", "manifest"):
        assert place.current() > name
