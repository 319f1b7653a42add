"""Writing bundles: refused outputs, drafts, full disks."""

import errno
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from bundles import TABLE, get, partials, put, refusal, whole
from headway.storage import draft, folder
from headway.storage.errors import HeadwayError


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "city.store"
    put(path)
    return path


# --- refused outputs ----------------------------------------------------------------------------------------


def test_existing_output_is_refused_before_any_work(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft, "_parquet", lambda table: pytest.fail("worked"))
    refusal(lambda: put(store, fill=2), str(store), "--overwrite")
    refusal(lambda: draft.check_output(store), str(store), "--overwrite")
    draft.check_output(store, overwrite=True)
    draft.check_output(store.with_name("new"))
    assert whole(store) == 1


def test_missing_or_closed_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal(lambda: put(tmp_path / "no" / "s"), "no", "does not exist")
    (tmp_path / "file").write_text("")
    refusal(lambda: put(tmp_path / "file" / "s"), "does not exist")
    refusal(lambda: put(tmp_path / ("x" * 300)), "name too long")
    monkeypatch.setattr(os, "access", lambda *_: False)
    refusal(lambda: put(tmp_path / "s"), str(tmp_path), "not writable")


def test_foreign_things_are_never_replaced(tmp_path: Path, store: Path) -> None:
    (mine := tmp_path / "thesis").mkdir()
    (mine / "chapter.txt").write_text("words")
    refusal(lambda: put(mine, overwrite=True), "thesis", "not a store")
    (mine / "manifest.json").write_text('{"name": "a web app"}')
    refusal(lambda: put(mine, overwrite=True), "thesis", "not a store")
    assert (mine / "chapter.txt").read_text() == "words"

    (file := tmp_path / "file").write_text("words")
    refusal(lambda: put(file, overwrite=True), "is a file")
    assert file.read_text() == "words"

    (store / "notes.txt").write_text("words")
    refusal(lambda: put(store, overwrite=True), "notes.txt", "no part of a store")
    assert (store / "notes.txt").read_text() == "words"

    (loop := tmp_path / "loop").symlink_to(loop)
    refusal(lambda: put(loop), "exists")
    refusal(lambda: put(loop, overwrite=True), "loop")
    assert loop.is_symlink()


def test_damaged_store_can_be_replaced(store: Path) -> None:
    manifest = store / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:60])
    put(store, fill=2, overwrite=True)
    assert whole(store) == 2


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_draft_is_the_same_bundle(tmp_path: Path, overwrite: bool) -> None:
    """Arrays made on the disk and filled there, one among them that holds nothing, and others written at the end."""
    given = {"a": np.arange(7, dtype=np.uint16), "b": np.arange(5.0), "none": np.empty(0, np.int64)}
    more = {"departure": np.full(3, 1, np.int32)}
    keywords = {"kind": "timetable", "version": 3, "tables": {"stops": TABLE}, "meta": {"fill": 1}}
    draft.write(tmp_path / "wanted", arrays=given | more, **keywords)
    if overwrite:
        put(tmp_path / "made", fill=2)
    with draft.draft(tmp_path / "made", overwrite) as new:
        made = {name: new.array(name, len(array), array.dtype.type) for name, array in given.items()}
        new.array("unused", 9, np.int32)
        new.array("departure", 9, np.int32)  # and then another array of that name is written
        for name, array in given.items():
            made[name][:] = array
        assert get(tmp_path / "made").meta["fill"] == 2 if overwrite else not (tmp_path / "made").exists()
        new.write(arrays=made | more, **keywords)
    assert whole(tmp_path / "made") == 1
    for file in (tmp_path / "wanted").iterdir():
        assert (tmp_path / "made" / file.name).read_bytes() == file.read_bytes()
    assert not (tmp_path / "made" / "unused.npy").exists()
    assert partials(tmp_path) == []


@pytest.mark.parametrize("error", [HeadwayError("wrong"), KeyboardInterrupt(), RuntimeError("a fault")])
def test_a_draft_that_fails_leaves_nothing(store: Path, error: BaseException) -> None:
    def fail() -> None:
        with draft.draft(store, True) as new:
            new.array("departure", 9, np.int32)[:] = 2
            raise error

    with pytest.raises(type(error)):
        fail()
    assert whole(store) == 1
    assert partials(store.parent) == []
    with pytest.raises(RuntimeError, match="not written"), draft.draft(store, True):
        pass
    assert whole(store) == 1


def test_a_draft_on_a_full_disk(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Room is asked for before anything is filled."""

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(HeadwayError, match=r"No space left.*make room"), draft.draft(store, True) as new:
        new.array("departure", 9, np.int32)
    assert whole(store) == 1
    assert partials(store.parent) == []


def test_output_that_turns_foreign_during_the_build(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parts = draft._write_parts

    def meddle(*args):
        (store / "notes.txt").write_text("words")
        return write_parts(*args)

    monkeypatch.setattr(draft, "_write_parts", meddle)
    refusal(lambda: put(store, fill=2, overwrite=True), "notes.txt")
    assert (store / "notes.txt").read_text() == "words"
    assert whole(store) == 1
    assert partials(store.parent) == []


def test_link_to_a_store_stays_a_link(store: Path) -> None:
    link = store.with_name("current")
    link.symlink_to(store.name)
    put(link, fill=2, overwrite=True)
    assert link.is_symlink()
    assert whole(store) == whole(link) == 2


def test_file_system_that_cannot_exchange(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Libc:
        def __init__(self, *args, **options) -> None:
            pass

    monkeypatch.setattr(folder.ctypes, "CDLL", Libc)
    put(store, fill=2, overwrite=True)
    assert whole(store) == 2
    assert partials(store.parent) == []

    rename = Path.rename
    taken = []

    def fail_once(self: Path, to: Path) -> Path:
        if to == store and store not in taken and not store.exists():
            taken.append(store)
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", fail_once)
    refusal(lambda: put(store, fill=3, overwrite=True), str(store), "Input/output error")
    assert taken == [store]
    assert whole(store) == 2  # put back
    assert partials(store.parent) == []


# --- trouble while writing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("nth", [1, 4, 5, 6])  # a part, the last part, the manifest, the folder
def test_disk_errors(store: Path, monkeypatch: pytest.MonkeyPatch, code: int, nth: int) -> None:
    fsync, calls = os.fsync, []

    def failing(fd: int) -> None:
        calls.append(fd)
        if len(calls) == nth:
            raise OSError(code, os.strerror(code))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", failing)
    needed = f"{sum(get(store).sizes().values()):,}"
    text = refusal(lambda: put(store, fill=2, overwrite=True), str(store), os.strerror(code), needed)
    assert ("make room" in text) == (code != errno.EIO)
    assert len(calls) >= nth
    assert partials(store.parent) == []
    monkeypatch.undo()
    assert whole(store) == 1


def test_full_disk(tmp_path: Path) -> None:
    (disk := tmp_path / "disk").mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    try:
        done = subprocess.run(mounted, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no mount command")
    if done.returncode:
        pytest.skip("mounting needs root")
    try:
        put(disk / "s")
        big = {"departure": np.full(1_000_000, 2, np.int32), "offset": np.zeros(10)}
        refusal(lambda: put(disk / "s", 2, arrays=big, overwrite=True), "No space left", "4,00", "make room")
        assert partials(disk) == []
        assert whole(disk / "s") == 1
        refusal(lambda: put(disk / "t", 2, arrays=big), "No space left")
        assert [p.name for p in disk.iterdir()] == ["s"]
        put(disk / "s", 3, overwrite=True)
        assert whole(disk / "s") == 3
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_ctrl_c(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(draft, "as_completed", interrupt)
    with pytest.raises(KeyboardInterrupt):
        put(store, fill=2, overwrite=True)
    assert partials(store.parent) == []
    monkeypatch.undo()
    assert whole(store) == 1
