"""`headway nightly`, by breaking it: whatever happens, `current` leads to a whole store."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from headway.pipeline import nightly
from headway.pipeline.gtfs import stop_times
from headway.pipeline.nightly.output import LEFT, locked_output
from nights import LATER, Place
from tiny import DAILY, write

import headway as hw


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


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


@pytest.mark.parametrize("day", ["2027-06-10", "2026-06-14"])
def test_a_date_without_service_is_changed_in_the_plan(place: Place, day: str) -> None:
    """The way out names the plan's `dates`: a plan has no --date."""
    place.feed("a", calendar="", calendar_dates="service_id,date,exception_type\nD,20260610,1\nD,20260630,1")
    place.plan(dates=day)
    assert ", or with dates in a plan" in place.run(2).err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_workers_that_fail_are_no_broken_feed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fills the disk of workers, no store without a feed takes the place of a whole one."""
    (place.folder / "processes.yaml").write_text("workers: {kind: processes, count: 1}")
    place.plan(feeds=["a.zip", "b.zip"])
    good = place.night()["current"]["after"]
    place.plan(dates="2026-06-11", on_broken_feed="leave-out", profile="processes.yaml")
    full = lambda **_: Path("/dev/full").open("wb")  # noqa: E731, SIM115
    makers = [stop_times.NamedTemporaryFile, full]  # for one feed, for the other
    monkeypatch.setattr(stop_times, "NamedTemporaryFile", lambda **given: makers.pop(0)(**given))
    line = place.run(2).err
    assert makers == []
    assert "No space left on device" in line
    assert line.endswith(f"; current is {good}\n")
    assert place.current() == good
    assert [feed["broken"] for feed in place.report()["feeds"]] == [None, None]


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
