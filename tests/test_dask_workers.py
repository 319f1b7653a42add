"""Tasks on threads and on processes: where they run, what a dead worker, a full memory or a wrong address leads to."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from dask.delayed import delayed
from headway.cluster import dask as cluster
from headway.cluster import devices
from headway.cluster.dask import workers
from headway.pipeline.gtfs import FeedError
from headway.storage.errors import HeadwayError, WorkersError
from test_devices import driver

MIB = 2**20


def tasks(function: Callable, values: list) -> list:
    """A task a value; none is the same as another, whatever the function."""
    return [delayed(function, pure=False)(value) for value in values]


def square(value: int) -> tuple[int, int]:
    return os.getpid(), value * value


def broken(value: int) -> int:
    if value:
        raise HeadwayError(f"feed.zip/stops.txt: row {value}: it is broken; mend it")
    return value


def broken_feed(value: Path) -> None:
    raise FeedError("it is broken", value)


def killed_once(folder: str) -> int:
    """Killed hard in the middle of its first run."""
    mark = Path(folder) / "killed"
    if not mark.exists():
        mark.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def killed(folder: str) -> None:
    with (Path(folder) / "tries").open("a") as stream:
        stream.write("x")
    os.kill(os.getpid(), signal.SIGKILL)


def numbers(value: int) -> np.ndarray:
    return np.full(32 * MIB // 8, value)


def first(part: np.ndarray) -> int:
    return int(part[0])


@pytest.fixture
def processes():
    """Two processes."""
    with workers("processes", 2, None, None, 1) as found:
        yield found


def test_threads_run_here() -> None:
    with workers("threads", None, None, None, 3) as found:
        assert found.count == 3
        assert found.compute(tasks(square, [2, 3])) == [(os.getpid(), 4), (os.getpid(), 9)]
        assert found.on_each(os.getpid) == [os.getpid()]
        with pytest.raises(HeadwayError, match=r"row 1: it is broken; mend it"):
            found.compute(tasks(broken, [0, 1]))


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_persisted_tasks_run_once(kind: str, tmp_path: Path) -> None:
    def counted(value: int) -> int:
        (tmp_path / f"{value}-{time.monotonic_ns()}").touch()
        return value

    with workers(kind, 2, None, None, 2) as found:
        kept = found.persist(tasks(counted, [1, 2, 3]))
        doubled = [delayed(int.__add__)(part, part) for part in kept]
        assert found.compute(doubled) == [2, 4, 6]
        assert found.compute(kept) == [1, 2, 3]
    assert len(list(tmp_path.iterdir())) == 3


def test_threads_do_without_distributed() -> None:
    """It takes long to import."""
    code = """
import sys
from dask.delayed import delayed
from headway.pipeline.settings import load_settings
with load_settings("laptop").open_workers() as workers:
    print(workers.compute(workers.persist([delayed(abs)(-5)])))
print([name for name in sys.modules if name.split(".")[0] in ("distributed", "tornado", "dask_cuda")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[5]\n[]\n"


def test_processes(processes) -> None:
    """Others than this, two of them; errors arrive as what they are."""
    assert processes.count == 2
    pids = set(processes.on_each(os.getpid))
    assert len(pids) == 2
    assert os.getpid() not in pids
    found = processes.compute(tasks(square, list(range(20))))
    assert [answer for _, answer in found] == [value * value for value in range(20)]
    assert {pid for pid, _ in found} <= pids
    with pytest.raises(HeadwayError, match=r"^feed.zip/stops.txt: row 1: it is broken; mend it$"):
        processes.compute(tasks(broken, [0, 1]))
    with pytest.raises(ZeroDivisionError):
        processes.compute([delayed(divmod)(1, 0)])
    with pytest.raises(FeedError, match="it is broken") as caught:
        processes.compute(tasks(broken_feed, [Path("feed.zip")]))
    assert caught.value.path == Path("feed.zip")


def test_two_at_a_time_on_one_machine(processes, recwarn: pytest.WarningsRecorder) -> None:
    """Ports and folders of one are not those of the other, and nothing is said of it."""
    with workers("processes", 1, None, None, 1) as other:
        assert set(other.on_each(os.getpid)).isdisjoint(processes.on_each(os.getpid))
    assert [str(warning.message) for warning in recwarn] == []


def test_killed_worker_is_replaced(tmp_path: Path, processes) -> None:
    """What it was at runs again, on another."""
    before = processes.on_each(os.getpid)
    answers = processes.compute([*tasks(killed_once, [str(tmp_path)]), *tasks(square, [5, 6])])
    gone = int((tmp_path / "killed").read_text())
    assert gone in before
    assert answers[0] != gone
    assert [answer for _, answer in answers[1:]] == [25, 36]


def test_workers_that_keep_dying(tmp_path: Path, processes, capfd: pytest.CaptureFixture) -> None:
    """A finite number of tries, one line, and no page of logs."""
    with pytest.raises(HeadwayError) as caught:
        processes.compute(tasks(killed, [str(tmp_path)]))
    assert (tmp_path / "tries").read_text() == "xxxx"
    assert str(caught.value) == (
        "workers: 4 workers died one after another in the same task, as they do out of memory; "
        "give them more (workers.memory_gib), or fewer of them more each (workers.count)"
    )
    assert processes.compute(tasks(first, [np.array([7])])) == [7]
    assert capfd.readouterr() == ("", "")


def test_more_than_memory_holds(tmp_path: Path) -> None:
    """1.5 GiB of results at once on two workers of 700 MiB: they lie in the folder given, until the end."""
    with workers("processes", 2, 700 * MIB, str(tmp_path), 1) as found:
        before = found.on_each(os.getpid)
        kept = found.persist(tasks(numbers, list(range(48))))
        assert found.compute([delayed(first)(part) for part in kept]) == list(range(48))
        assert len(list(tmp_path.rglob("storage/*"))) >= 20
        assert found.on_each(os.getpid) == before
        del kept
    assert list(tmp_path.rglob("storage/*")) == []


def test_task_larger_than_memory(capfd: pytest.CaptureFixture) -> None:
    """No spilling helps; the worker is ended, and nothing waits for ever."""
    with workers("processes", 1, 300 * MIB, None, 1) as found:
        began = time.monotonic()
        with pytest.raises(WorkersError, match=r"workers died one after another .*workers.memory_gib"):
            found.compute([delayed(hold)(600)])
        assert time.monotonic() - began < 60
    assert capfd.readouterr() == ("", "")


def test_workers_that_are_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers whose memory stays full pause; nothing waits for ever."""
    monkeypatch.setattr(cluster, "START_S", 5)
    full = r"none could go on: their memory is full, .*workers.memory_gib"
    with workers("processes", 2, 500 * MIB, None, 1) as found, pytest.raises(HeadwayError, match=full):
        found.compute(tasks(fill, [430 * MIB] * 6))


def fill(memory: int) -> None:
    """Let this process have so much, for good."""
    used = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    sys.held = getattr(sys, "held", np.ones(max(memory - used, 0) // 8))  # type: ignore[attr-defined]
    time.sleep(1)


def hold(mebibytes: int) -> int:
    data = np.ones(mebibytes * MIB // 8)
    time.sleep(5)
    return len(data)


def test_ctrl_c() -> None:
    """It reaches a terminal's whole process group; no worker is left, and nothing is said."""
    code = """
import os, time
from dask.delayed import delayed
from headway.cluster.dask import workers
if __name__ == "__main__":
    try:
        with workers("processes", 2, None, None, 1) as found:
            print(*found.on_each(os.getpid), flush=True)
            found.compute([delayed(time.sleep, pure=False)(60) for _ in range(4)])
    except KeyboardInterrupt:
        print("interrupted")
"""
    words = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen([sys.executable, "-c", code], **words) as process:
        assert process.stdout is not None
        pids = process.stdout.readline().split()
        time.sleep(1)
        os.killpg(process.pid, signal.SIGINT)
        assert process.communicate(timeout=60) == ("interrupted\n", "")
    assert len(pids) == 2
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


def test_scratch_that_is_no_folder(tmp_path: Path) -> None:
    place = str(tmp_path / "none")
    with pytest.raises(HeadwayError, match=f"workers.scratch {re.escape(place)}: no folder"):
        workers("processes", 1, None, place, 1).__enter__()


def test_what_a_killed_process_left_in_scratch_goes_with_the_next(tmp_path: Path) -> None:
    """Files of blocks are as large as stop_times.txt, unpacked."""
    code = f"""
import os, signal
from headway.cluster.dask import workers
if __name__ == "__main__":
    with workers("processes", 1, None, {str(tmp_path)!r}, 1) as found:
        (found.shared / "blocks").write_text("many lines")
        os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL, check=False)
    assert len(list(tmp_path.rglob("blocks"))) == 1
    with workers("processes", 1, None, str(tmp_path), 1) as found:
        assert list(tmp_path.rglob("blocks")) == []
        assert found.shared is not None
        assert found.shared.is_dir()
    assert not found.shared.exists()


def test_nobody_listens() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # and does not listen
        address = f"tcp://127.0.0.1:{held.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(HeadwayError, match=f"^workers.kind {address}: no Dask scheduler answers there"):
            workers(address, None, None, None, 1).__enter__()
        assert time.monotonic() - began < 10


def test_unknown_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_S", 1)
    with pytest.raises(HeadwayError, match="no Dask scheduler answers there"):
        workers("tcp://no.such.host.invalid:8786", None, None, None, 1).__enter__()


def scheduler(*command: str) -> subprocess.Popen:
    paths = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}  # the tasks here are for its workers too
    silent = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, "-m", *command], env=paths, **silent)


@pytest.fixture
def elsewhere():
    """The address of a scheduler of its own, without workers, and the process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    port = address.rpartition(":")[2]
    words = ["--host", "127.0.0.1", "--port", port, "--no-dashboard"]
    with scheduler("distributed.cli.dask_scheduler", *words) as process:
        try:
            yield address, process
        finally:
            process.kill()


def ready(address: str) -> None:
    """Wait until somebody listens."""
    host, port = address.removeprefix("tcp://").split(":")
    for _ in range(300):
        with socket.socket() as tried:
            if tried.connect_ex((host, int(port))) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"nobody listens at {address}")


def test_address(elsewhere, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that others started; other versions are refused; a scheduler that ends is told."""
    address, process = elsewhere
    ready(address)
    with scheduler(
        "distributed.cli.dask_worker", address, "--nworkers", "2", "--nthreads", "1", "--no-dashboard"
    ) as held:
        try:
            with workers(address, None, None, None, 1) as found:
                found.client.wait_for_workers(2, timeout=60)
                pids = found.on_each(os.getpid)
                assert len(set(pids)) == 2
                assert {pid for pid, _ in found.compute(tasks(square, list(range(8))))} <= set(pids)
            monkeypatch.setattr("headway.cluster.installed.version", lambda name: "9.9")
            with pytest.raises(HeadwayError, match=r"has headway .*, this is headway 9.9 on .*; install the same"):
                workers(address, None, None, None, 1).__enter__()
            monkeypatch.undo()
            with workers(address, None, None, None, 1) as found:
                assert found.compute(tasks(square, [3]))[0][1] == 9
                process.kill()
                with pytest.raises(WorkersError, match="the Dask scheduler is lost"):
                    found.compute([delayed(time.sleep)(30)])
        finally:
            held.terminate()


def test_address_without_workers(elsewhere, monkeypatch: pytest.MonkeyPatch) -> None:
    address, _ = elsewhere
    ready(address)
    monkeypatch.setattr(cluster, "START_S", 1)
    with pytest.raises(HeadwayError, match="no worker came in 1 s"):
        workers(address, None, None, None, 1).__enter__()


def test_cuda_without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver(count=0))
    with pytest.raises(HeadwayError, match=r"^workers.kind cuda: the NVIDIA driver sees no GPU; choose threads"):
        workers("cuda", None, None, None, 1).__enter__()


def test_cuda_has_a_worker_per_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """By Dask-CUDA, which starts none without a GPU: what it is asked for."""
    import dask_cuda
    from distributed import LocalCluster

    asked, there = {}, importlib.util.find_spec

    class Pretended(LocalCluster):
        def __init__(self, rmm_async: bool, **options) -> None:
            asked.update(options, rmm_async=rmm_async)
            super().__init__(**options)

    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver(count=2))
    wanted = ("numba_cuda", "dask_cuda")  # the import system asks for others, and reads what it is given
    monkeypatch.setattr(devices.importlib.util, "find_spec", lambda name: there("json" if name in wanted else name))
    monkeypatch.setattr(dask_cuda, "LocalCUDACluster", Pretended)
    with workers("cuda", None, None, None, 7) as found:
        assert found.count == 6
        assert found.on_each(spilling) == ["on", "on"]
    assert (asked["n_workers"], asked["threads_per_worker"], asked["rmm_async"]) == (2, 3, True)
    with workers("cuda", 1, None, None, 7) as found:
        assert found.count == 7
    with pytest.raises(HeadwayError, match=r"^workers.count 3: there are 2 GPUs; give as many at most, or auto$"):
        workers("cuda", 3, None, None, 7).__enter__()
    monkeypatch.setattr(
        devices.importlib.util, "find_spec", lambda name: None if name == "dask_cuda" else there("json")
    )
    with pytest.raises(HeadwayError, match=r"dask-cuda is not installed: pip install headway\[gpu\]"):
        workers("cuda", None, None, None, 7).__enter__()


def spilling() -> str | None:
    """What cuDF takes for whether to spill."""
    return os.environ.get("CUDF_SPILL")
