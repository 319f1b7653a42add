"""Bundles whose writers are killed, and two writers at once."""

import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from bundles import get, partials, put, refusal, whole
from headway.storage import draft, folder
from headway.storage.errors import HeadwayError

# --- kills --------------------------------------------------------------------------------------------------

WRITER = """
import sys
import numpy as np
import pyarrow as pa
from headway.storage import draft

def write(path, fill, overwrite):
    arrays = {f"a{i}": np.full(500_000, fill, np.int32) for i in range(9)}
    arrays["departure"] = np.full(500_000, fill, np.int32)
    draft.write(path, kind="timetable", version=3, arrays=arrays, tables={"stops": pa.table({"x": [fill]})},
                 meta={"fill": fill}, overwrite=overwrite)

path, first, overwrite = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "overwrite"
if not sys.stdin.readline():
    sys.exit()
print("go", flush=True)
write(path, first, overwrite)
print("done", flush=True)
sys.stdin.readline()
"""


def writer(path: Path, fill: int, mode: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), str(fill), mode]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def start(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "go\n"


def finish(process: subprocess.Popen[str]) -> str:
    return process.communicate("\n")[0]


@pytest.fixture(scope="module")
def milliseconds(tmp_path_factory: pytest.TempPathFactory) -> float:
    """How long the writer takes here, so that kills fall all over it."""
    process = writer(tmp_path_factory.mktemp("timed") / "s", 1, "new")
    start(process)
    began = time.perf_counter()
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"
    took = time.perf_counter() - began
    finish(process)
    return took * 1000


def kill_after(process: subprocess.Popen[str], milliseconds: float) -> None:
    start(process)
    time.sleep(milliseconds / 1000)
    process.kill()
    process.communicate()


def test_kill_while_replacing(tmp_path: Path, milliseconds: float) -> None:
    path, chance = tmp_path / "s", random.Random(1)
    put(path, fill=100)
    seen = 100
    for round_ in range(15):
        kill_after(writer(path, round_, "overwrite"), chance.uniform(0, 1.3 * milliseconds))
        fill = whole(path)
        assert fill in (seen, round_)
        seen = fill
        assert len(partials(tmp_path)) <= 1  # the writer of this round removed that of the last
    put(path, fill=200, overwrite=True)
    assert whole(path) == 200
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


def test_kill_of_a_first_build(tmp_path: Path, milliseconds: float) -> None:
    chance = random.Random(2)
    for round_ in range(5):
        path = tmp_path / f"s{round_}"
        kill_after(writer(path, round_, "new"), chance.uniform(0, 1.2 * milliseconds))
        if path.exists():
            assert whole(path) == round_
        else:
            refusal(lambda path=path: get(path), "no such store", path.name)
            put(path, fill=round_)
            assert whole(path) == round_
        assert [name for name in partials(tmp_path) if name.startswith(f".{path.name}.")] == []


def test_ctrl_c_at_any_moment(tmp_path: Path, milliseconds: float) -> None:
    path, chance = tmp_path / "s", random.Random(3)
    put(path, fill=100)
    seen = 100
    for round_ in range(6):
        process = writer(path, round_, "overwrite")
        start(process)
        time.sleep(chance.uniform(0, 0.9 * milliseconds) / 1000)
        process.send_signal(signal.SIGINT)
        said = finish(process)
        assert process.returncode == -signal.SIGINT or said == "done\n"
        fill = whole(path)
        assert fill in (seen, round_)
        seen = fill
        assert partials(tmp_path) == []


def test_left_overs_of_the_dead_only(tmp_path: Path) -> None:
    path = tmp_path / "s[1]"  # a pattern, to a careless glob
    (tmp_path / ".s[1].0123456789abcdef.partial").mkdir()
    (tmp_path / ".s[1].0123456789abcdef.partial" / "a.npy").write_bytes(b"x")
    others = [".s1.0123456789abcdef.partial", ".s[1].b.0123456789abcdef.partial", ".s[1].partial"]
    for name in others:
        (tmp_path / name).mkdir()
    with folder.replacing(path, lambda: None, False) as live:
        (live / "half").write_text("x")
        put(path)  # another builder, while this one lives
        assert (live / "half").exists()
        assert partials(tmp_path) == sorted([*others, live.name])
        (live / "half").unlink()
        with pytest.raises(OSError, match="stop"):
            raise OSError("stop")
        put(path, fill=2, overwrite=True)
        (tmp_path / "away").mkdir()
        path.rename(tmp_path / "away" / "s")
    assert partials(tmp_path) == sorted(others)


# --- two at once --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["new", "overwrite"])
def test_two_builders_at_once(tmp_path: Path, mode: str) -> None:
    for round_ in range(3):
        path = tmp_path / f"s{round_}"
        if mode == "overwrite":
            put(path, fill=9)
        pair = [writer(path, fill, mode) for fill in (1, 2)]
        for process in pair:
            start(process)
        said = [finish(process) for process in pair]
        assert whole(path) in (1, 2)
        if mode == "overwrite":
            assert said == ["done\n", "done\n"]
        else:
            assert sorted(said) == ["", "done\n"]
            assert said[whole(path) - 1] == "done\n"
        assert partials(tmp_path) == []


def test_the_loser_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, write_parts = tmp_path / "s", draft._write_parts

    def overtaken(*args):
        monkeypatch.setattr(draft, "_write_parts", write_parts)
        put(path, fill=1)
        return write_parts(*args)

    monkeypatch.setattr(draft, "_write_parts", overtaken)
    refusal(lambda: put(path, fill=2), str(path), "exists", "--overwrite")
    assert whole(path) == 1
    assert partials(tmp_path) == []


@pytest.mark.parametrize("exchange", [True, False])
def test_threads_that_replace_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool) -> None:
    if not exchange:
        monkeypatch.setattr(folder.ctypes, "CDLL", lambda *args, **options: None)
    path, errors, seen = tmp_path / "s", [], set()
    put(path)

    def replace(fill: int) -> None:
        try:
            for _ in range(8):
                put(path, fill=fill, overwrite=True)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=replace, args=(fill,)) for fill in (2, 3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        try:
            seen.add(whole(path))
        except HeadwayError as error:  # without an exchange there is a moment with nothing there
            assert not exchange and "no such store" in str(error)  # noqa: PT018, PT017
    for thread in threads:
        thread.join()
    assert errors == []
    assert seen
    assert seen <= {1, 2, 3}
    assert whole(path) in (2, 3)
    put(path, fill=4, overwrite=True)
    assert partials(tmp_path) == []
