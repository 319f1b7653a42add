"""`headway nightly`, by breaking it: whatever happens, `current` leads to a whole store."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
import yaml
from command import Result, headway, refused
from headway.pipeline import nightly
from headway.pipeline.nightly.output import LEFT, locked_output
from headway.pipeline.nightly.plan import Dates, Plan, load_plan
from headway.pipeline.settings import load_settings
from headway.storage.errors import HeadwayError
from headway.storage.store import load
from tiny import DAILY, tables, write

import headway as hw

TIMETABLE = "t: A 8:00, B 8:10, C 8:20\nu: A 9:00, B 9:10"
LATER = TIMETABLE.replace("9:00", "9:05")


class Place:
    """A folder with feeds `a.zip` and `b.zip`, a plan for the first, and the plan's output `out`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out, self.file = folder, folder / "out", folder / "plan.yaml"
        self.feed("a")
        self.feed("b")
        self.keys = {"feeds": ["a.zip"], "dates": date(2026, 6, 10), "output": "out"}
        self.plan()

    def feed(self, name: str, timetable: str = TIMETABLE, zone: str = "Europe/Berlin", **files: str) -> Path:
        files = {"calendar": DAILY} | files
        return write(self.folder / f"{name}.zip", tables(timetable, zone, **files))

    def plan(self, **keys) -> None:
        self.keys |= keys
        self.file.write_text(yaml.safe_dump(self.keys))

    def run(self, status: int = 0) -> Result:
        result = headway("nightly", self.file, "--quiet")
        assert result.status == status, result.err
        return result

    def night(self) -> dict:
        """What one more run reports; it must end well."""
        self.run()
        return self.report()

    def report(self) -> dict:
        return json.loads((self.out / "report.json").read_text())

    def current(self) -> str:
        """Name of the current store, which must be whole."""
        load(self.out / "current", verify=True)
        return os.readlink(self.out / "current")  # noqa: PTH115

    def stores(self) -> list[str]:
        return sorted(path.name for path in self.out.iterdir() if path.is_dir() and not path.is_symlink())


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


# --- broken feeds -------------------------------------------------------------------------------------------


def damaged_inside(place: Place) -> None:
    """A zip that opens, whose stop_times.txt has a wrong checksum."""
    file = place.folder / "b.zip"
    data = bytearray(file.read_bytes())
    at = data.index(b"stop_times.txt") + len("stop_times.txt")
    data[at + 5] ^= 0xFF
    file.write_bytes(data)


BROKEN: dict[str, tuple[Callable[[Place], object], str]] = {
    "missing": (lambda place: (place.folder / "b.zip").unlink(), "no such file or folder"),
    "half downloaded": (
        lambda place: (place.folder / "b.zip").write_bytes((place.folder / "b.zip").read_bytes()[:400]),
        "not a readable zip",
    ),
    "no feed": (lambda place: write(place.folder / "b.zip", {"stops": "stop_id"}), "no stop_times.txt"),
    "no service": (
        lambda place: place.feed("b", calendar=DAILY.replace("20261231", "20260301"), calendar_dates=""),
        "2026-06-10 is outside its service",
    ),
    "no timezone": (lambda place: place.feed("b", zone="Mars/Base"), "unknown agency_timezone 'Mars/Base'"),
    "damaged inside": (damaged_inside, "b/stop_times.txt"),
    "a column lost": (lambda place: place.feed("b", trips="trip_id\nt"), "b/trips.txt"),
}


@pytest.mark.parametrize("trouble", BROKEN)
def test_broken_feed(place: Place, trouble: str) -> None:
    place.plan(feeds=["a.zip", "b.zip"])
    good = place.night()["current"]["after"]
    spoil, words = BROKEN[trouble]
    spoil(place)

    line = place.run(2).err
    assert line.count("\n") == 1
    assert line.startswith("headway: ")
    assert words in line
    assert line.endswith(f"; current is {good}\n")
    assert place.current() == good
    failed = place.report()
    assert (failed["status"], failed["current"]) == ("failed", {"before": good, "after": good})
    assert words in failed["error"]
    assert failed["feeds"][0]["broken"] is None
    assert words in failed["feeds"][1]["broken"]

    place.plan(on_broken_feed="leave-out")
    line = place.run(3).err
    assert line.count("\n") == 1
    assert line.startswith("headway: left out: ")
    assert words in line
    reduced, built = place.current(), place.report()
    assert reduced != good
    assert built["status"] == "built"
    assert [source["name"] for source in built["store"]["sources"]] == ["a"]
    assert words in built["feeds"][1]["broken"]
    assert hw.load(place.out / "current").stops == ["a:A", "a:B", "a:C"]  # ids as with both feeds

    assert words in place.run(3).err  # nothing changed, and still one is missing
    assert place.report()["status"] == "unchanged"
    assert place.report()["feeds"] == built["feeds"]


def test_a_mended_feed(place: Place) -> None:
    place.plan(feeds=["b.zip", "a.zip"], on_broken_feed="leave-out")
    (place.folder / "b.zip").rename(place.folder / "away")
    place.run(3)
    (place.folder / "away").rename(place.folder / "b.zip")
    assert [feed["broken"] for feed in place.night()["feeds"]] == [None, None]
    assert place.report()["status"] == "built"


def test_all_feeds_broken(place: Place) -> None:
    place.plan(feeds=["a.zip", "b.zip"])
    good = place.night()["current"]["after"]
    place.plan(on_broken_feed="leave-out", dates="2027-06-10")
    line = place.run(2).err
    assert "no feed is left: " in line
    assert "2027-06-10 is outside its service" in line
    assert place.current() == good
    for name in "ab":
        (place.folder / f"{name}.zip").unlink()
    assert "no feed is left: " in place.run(2).err
    place.plan(on_broken_feed="fail")
    assert "(and 1 more feeds are broken, see report.json)" in place.run(2).err
    assert place.current() == good


def test_nothing_good_yet(place: Place) -> None:
    (place.folder / "a.zip").unlink()
    assert place.run(2).err.endswith("; there is no current store\n")
    assert place.report()["current"] == {"before": None, "after": None}
    assert place.stores() == []


def test_patterns(place: Place) -> None:
    """A feed that several entries match counts once, where it is first; ids get their prefix though one matches."""
    place.plan(feeds=["b.zip", "*.zip"])
    assert [feed["name"] for feed in place.night()["feeds"]] == ["b.zip", "a.zip"]
    place.plan(feeds=["[a]*.zip"])
    place.run()
    assert hw.load(place.out / "current").stops == ["a:A", "a:B", "a:C"]
    place.plan(feeds=["a.zip"])
    place.run()
    assert hw.load(place.out / "current").stops == ["A", "B", "C"]
    place.plan(feeds=["a.zip", "none-*.zip"])
    assert f"{place.folder / 'none-*.zip'}: no file or folder matches" in place.run(2).err
    place.plan(on_broken_feed="leave-out")
    assert "none-*.zip: no file or folder matches" in place.run(3).err


def test_a_feed_replaced_while_it_is_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    good = place.night()["current"]["after"]
    place.plan(dates="2026-06-11", on_broken_feed="leave-out")
    build = nightly.build_feeds

    def meanwhile(*given):
        store = build(*given)
        place.feed("a", LATER)
        return store

    monkeypatch.setattr(nightly, "build_feeds", meanwhile)
    assert "a.zip: it changed while it was read" in place.run(2).err
    assert place.current() == good
    monkeypatch.undo()
    assert place.night()["status"] == "built"


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


# --- bad plans ----------------------------------------------------------------------------------------------

GOOD = {"feeds": "[a.zip]", "dates": "today", "output": "out"}
PLANS = [
    # (changes to a good plan, words of the line)
    ({"feeds": None}, "no key feeds, which every plan needs"),
    ({"dates": None}, "no key dates"),
    ({"output": None}, "no key output"),
    ({"feed": "[a.zip]"}, "feed: no such key; there are feeds, dates, output, keep, on_broken_feed"),
    ({"feeds": "[]"}, "feeds: list should have at least 1 item"),
    ({"feeds": "a.zip"}, "feeds: input should be a valid list"),
    ({"feeds": "[a.zip, 3]"}, "feeds.1: input should be a valid string"),
    ({"feeds": '["a\\0.zip"]'}, "feeds.0: a path holds no null character"),
    ({"feeds": "[~]"}, "feeds.0: input should be a valid string"),
    ({"dates": "tomorrow"}, "dates: 'tomorrow' is no date or range; write 2026-09-30, today, or today..+7"),
    ({"dates": "today+7"}, "dates: 'today+7'"),
    ({"dates": "2026-09-31..+1"}, "dates: '2026-09-31..+1'"),
    ({"dates": "2026-09-31"}, "not a readable YAML file"),
    ({"dates": "[today]"}, "dates: \"['today']\""),
    ({"dates": "2026-09-30..2026-09-01"}, "dates: 2026-09-30..2026-09-01: 2026-09-01 lies before 2026-09-30"),
    ({"dates": "2026-06-10..+366"}, "dates: days 367: input should be less than or equal to 366"),
    ({"dates": "today..+1", "build": "{days: 2}"}, "build.days: dates today..+1 already say how many; leave it out"),
    ({"output": "''"}, "output: "),
    ({"output": '"a\\0b"'}, "output: a path holds no null character"),
    ({"keep": "0"}, "keep: input should be greater than or equal to 1"),
    ({"on_broken_feed": "ignore"}, "on_broken_feed: input should be 'fail' or 'leave-out'"),
    ({"profile": "none"}, "--profile none: no such profile; there are "),
    ({"profile": "none.yaml"}, "none.yaml: no such profile"),
    ({"threads": "0"}, "threads"),
    ({"build": "{minutes: 5}"}, "build.minutes: no such key; there are days, cluster_minutes, subtrips"),
    ({"build": "{cluster_minutes: 0}"}, "build.cluster_minutes: input should be greater"),
    ({"walk": "{radius_m: far}"}, "walk.radius_m: input should be a valid number"),
    ({"walk": "5"}, "walk: "),
    ({"gpu": "{memory_gib: 1}"}, "gpu: no such key"),
    ({"feeds": "["}, "not a readable YAML file"),
]


@pytest.mark.parametrize(("changes", "words"), PLANS, ids=[words[:50] for _, words in PLANS])
def test_bad_plan(place: Place, changes: dict[str, str | None], words: str) -> None:
    lines = [f"{key}: {value}" for key, value in (GOOD | changes).items() if value is not None]
    place.file.write_text("\n".join(lines))
    line = refused("nightly", place.file)
    assert line.startswith(f"headway: {place.file}: ")
    assert words in line
    assert not (place.out / "current").exists()


def test_the_example() -> None:
    """It says the defaults, as it claims."""
    file = Path(__file__).parents[1] / "examples" / "nightly.yaml"
    found = load_plan(file)
    needed = {name: getattr(found.plan, name) for name in ("feeds", "output")}
    least = Plan.model_validate({**needed, "dates": "today..+7"})
    assert found.plan == least
    assert found.settings(8) == load_settings("laptop", (), {"build.days": ("days", 8)})


def test_bad_file(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    assert f"{file}: No such file or directory" in refused("nightly", file)
    file.write_text("")
    assert f"{file}: no key feeds" in refused("nightly", file)
    file.write_text("- a\n- b\n")
    assert f"{file}: keys and values are wanted, as in headway nightly --help" in refused("nightly", file)
    file.write_bytes("feeds: [ö]".encode("latin-1"))
    assert f"{file}: not a readable YAML file" in refused("nightly", file)
    assert "PLAN" in refused("nightly")


# --- the output folder --------------------------------------------------------------------------------------


def test_two_at_once(place: Place) -> None:
    before = place.night()
    place.plan(dates="2026-06-11")
    with locked_output(place.out) as output:
        assert output is not None
        result = place.run(4)
        assert result.err == f"headway: {place.out}: another run is at work in it; nothing was done\n"
        assert place.report() == before
    assert place.night()["status"] == "built"


def test_output_that_is_in_the_way(place: Place) -> None:
    place.out.mkdir()
    (place.out / "current").mkdir()
    (place.out / "current" / "mine").write_text("mine")
    assert "current is a folder, not a link; move it away" in place.run(2).err
    assert (place.out / "current" / "mine").read_text() == "mine"
    assert place.stores() == ["current"]
    shutil.rmtree(place.out)

    place.out.write_text("mine")
    assert f"{place.out}: File exists" in place.run(2).err
    place.plan(output="no/out")
    assert "no does not exist; create it first" in place.run(2).err
    place.plan(output="locked")
    (place.folder / "locked" / ".lock").mkdir(parents=True)
    assert f"{place.folder / 'locked' / '.lock'}: Is a directory" in place.run(2).err


def test_no_symbolic_links(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    assert "no symbolic link can be made there (Operation not permitted)" in place.run(2).err
    assert place.stores() == []


def test_a_folder_of_others(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output may lie where its user can't write; it can't be made there."""
    monkeypatch.setattr(os, "access", lambda path, *_: Path(path) != place.folder)
    assert f"the folder {place.folder} is not writable" in place.run(2).err
    place.out.mkdir()
    assert place.night()["status"] == "built"


def test_output_behind_a_link(place: Place) -> None:
    (place.folder / "disk").mkdir()
    place.out.symlink_to("disk")
    place.run()
    assert (place.folder / "disk" / place.current()).is_dir()


@pytest.mark.parametrize("nth", [1, 30, "manifest", "report", "link"])
def test_full_disk(place: Place, monkeypatch: pytest.MonkeyPatch, nth: int | str) -> None:
    good = place.night()["current"]["after"]
    place.plan(dates="2026-06-11")
    fsync, calls = os.fsync, []

    def failing(fd: int) -> None:
        name = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))  # noqa: PTH115, PTH119
        calls.append(name)
        if len(calls) == nth or (nth in ("manifest", "report") and f"{nth}.json" in name):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
        fsync(fd)

    if nth == "link":

        def refuse(self: Path, to: str) -> None:
            if to != "nowhere":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))
            os.symlink(to, self)  # noqa: PTH211

        monkeypatch.setattr(Path, "symlink_to", refuse)
    else:
        monkeypatch.setattr(os, "fsync", failing)
    line = place.run(2).err
    assert line.count("\n") == 1
    assert "No space left on device" in line
    monkeypatch.undo()
    if nth == "report":  # the store is published, and programs that look at the report must learn that it is old
        assert place.current() != good
    else:
        assert place.current() == good
        assert place.report()["status"] == "failed"
    assert place.night()["status"] == {"report": "unchanged", "link": "published"}.get(str(nth), "built")
    assert [path.name for path in place.out.iterdir() if LEFT.fullmatch(path.name)] == []
    assert len(place.stores()) == 2


# --- kills --------------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from pathlib import Path
from headway.pipeline.nightly import run_nightly

MOVES = ("os.rename", "os.symlink")
NAMES = (*MOVES, "os.remove", "os.rmdir", "os.mkdir")

def run(plan, last):
    seen = []
    def hook(event, args):
        if event in NAMES or (event == "open" and args[2] & os.O_CREAT):
            if len(seen) == last:
                os.kill(os.getpid(), signal.SIGKILL)
            seen.append(event in MOVES)
    sys.addaudithook(hook)
    status = run_nightly(Path(plan), True)
    print(*[step for step, move in enumerate(seen) if move], flush=True)
    os._exit(status)

for line in sys.stdin:
    child = os.fork()
    if not child:
        run(sys.argv[1], int(line))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture
def killer(place: Place) -> Iterator[Callable[[int], list[str]]]:
    """Runs the plan in a process that is killed (-9) just before the given step of its work on files.

    Returns what it said: its exit status; before that, where it lived, the steps that moved something into place. It is
    forked from a process that has everything imported.
    """
    command = [sys.executable, "-c", KILLED, str(place.file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        into, out = process.stdin, process.stdout
        assert into is not None
        assert out is not None

        def run(step: int) -> list[str]:
            into.write(f"{step}\n")
            into.flush()
            said = [out.readline().strip()]
            return said if said[0] == "-9" else [*said, out.readline().strip()]

        yield run
        into.close()


def test_kill_at_any_moment(place: Place, killer: Callable[[int], list[str]]) -> None:
    """Before every move, in the midst of writing, and in the midst of removing; the next run makes up for it."""
    place.plan(keep=1)
    place.run()
    place.plan(dates="2026-06-11")
    moves, status = killer(-1)
    assert status == "0"
    _, store, own, _, current, removal, last = map(int, moves.split())
    outcomes = set()
    for day, step in enumerate([store - 9, store, own, current, removal, removal + 9, last], 12):
        before = place.current()
        place.plan(dates=f"2026-06-{day}")
        assert killer(step) == ["-9"]
        killed = place.current()
        night = place.night()
        outcomes.add((killed != before, night["status"]))
        assert night["current"] == {"before": killed, "after": place.current()}
        assert place.stores() == [place.current()]
        assert [path.name for path in place.out.iterdir() if LEFT.fullmatch(path.name)] == []
    assert outcomes == {(False, "built"), (False, "published"), (True, "unchanged")}
