"""Actors on this machine: what they hold, what is poisonous, what a dead worker leads to."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from headway.cluster.ray import Poisonous, Pool, actors
from headway.storage.errors import HeadwayError


def make(gpu: bool, threads: int) -> Callable[[Any], Any]:
    state = time.monotonic_ns()
    return lambda item: item(state) if callable(item) else (os.getpid(), state, threads, item)


def refuse(gpu: bool, threads: int) -> Callable[[Any], Any]:
    raise HeadwayError("a.store: it is not there; build it")


def die(gpu: bool, threads: int) -> Callable[[Any], Any]:
    os._exit(1)


def numbered(function: Callable[..., Any], *given: Any) -> Callable[[Any], Any]:
    return lambda state: function(*given)


def kill_once(mark: str) -> int:
    """Killed hard in the middle of its first run, with another item beside it."""
    if not Path(mark).exists():
        time.sleep(0.3)
        Path(mark).write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def pool(count: int = 2, made: Any = make):
    return actors("ray", count, False, 1, made)


def both(found: Pool) -> set[tuple[int, int]]:
    """Process and state of each of two actors, once both have started."""
    states: set[tuple[int, int]] = set()
    while len({pid for pid, _ in states}) < 2:
        states |= {answer[:2] for _, answer in found.run(range(8))}
    assert len(states) == 2
    return states


@pytest.mark.usefixtures("_ray")
class TestActors:
    def test_results_in_order_from_states_made_once(self) -> None:
        with pool() as found:
            assert (found.room.count, found.room.gpu, found.room.threads) == (2, False, 1)
            states = both(found)
            results = list(found.run(range(200)))
        assert [item for item, _ in results] == list(range(200))
        assert [answer[2:] for _, answer in results] == [(1, item) for item in range(200)]
        assert {answer[:2] for _, answer in results} == states
        assert os.getpid() not in {pid for pid, _ in states}

    def test_few_items_are_taken_ahead(self) -> None:
        taken = 0

        def items():
            nonlocal taken
            for number in range(100):
                taken = number
                yield number

        with pool() as found:
            for number, _ in enumerate(found.run(items())):
                assert taken <= number + 8

    def test_as_many_as_there_is_room_for(self) -> None:
        with actors("ray", None, None, None, make) as found:
            assert (found.room.count, found.room.gpu, found.room.threads) == (1, False, 2)
        with actors("ray", None, None, 1, make) as found:
            assert found.room.count == 2
        with pytest.raises(HeadwayError, match=r"room for 2 actors with 1 thread, see query.count and threads"):
            pool(3).__enter__()
        with pytest.raises(HeadwayError, match=r"room for 0 actors with a GPU"):
            actors("ray", None, True, None, make).__enter__()

    def test_opening_may_take_longer_than_there_may_be_no_actor(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An actor that brings a large store is not one that found no room."""
        opening, go_on = tmp_path / "opening", tmp_path / "go on"

        def slow(gpu: bool, threads: int) -> Callable[[Any], Any]:
            opening.touch()
            while not go_on.exists():
                time.sleep(0.05)
            return abs

        def watch() -> None:
            while not opening.exists():
                time.sleep(0.05)
            time.sleep(2)  # until this process knows
            monkeypatch.setattr("headway.cluster.ray.START_S", 0.5)
            time.sleep(2.5)
            go_on.touch()

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            with pool(1, slow) as found:
                assert go_on.exists()
                assert list(found.run([-3])) == [(-3, 3)]
        finally:
            opening.touch()
            watching.join()

    def test_errors_arrive_as_what_they_are(self) -> None:
        def broken(state: int) -> None:
            raise HeadwayError("q.csv: row 5: it is broken; mend it")

        with pool() as found, pytest.raises(HeadwayError, match=r"^q.csv: row 5: it is broken; mend it$"):
            list(found.run([1, broken, 2]))
        with pytest.raises(HeadwayError, match=r"^a.store: it is not there; build it$"):
            pool(made=refuse).__enter__()

    def test_actors_that_die_while_they_start(self) -> None:
        with pytest.raises(HeadwayError, match="3 actors died one after another while they started"):
            pool(made=die).__enter__()

    def test_killed_worker_is_replaced(self, tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
        """What it was at runs again, elsewhere; nobody is blamed, nothing is said."""
        items = [1, 2, numbered(kill_once, str(tmp_path / "mark")), numbered(time.sleep, 0.5), *range(20)]
        with pool() as found:
            results = list(found.run(items, tries=2))
            gone = int((tmp_path / "mark").read_text())
            assert [item for item, _ in results] == items
            assert not any(isinstance(answer, Poisonous) for _, answer in results)
            assert results[2][1] != gone
            assert gone not in {pid for pid, _ in both(found)}
        assert capfd.readouterr() == ("", "")

    def test_poison(self) -> None:
        """Whoever was beside it is answered, and so are those of another run meanwhile."""
        poison, slow = numbered(os._exit, 1), numbered(time.sleep, 0.2)
        with pool() as found:
            results = list(found.run([1, slow, poison, slow, 2, poison, 3]))
            assert [isinstance(answer, Poisonous) for _, answer in results] == [item is poison for item, _ in results]
            inner: list[Any] = []
            outer = []
            for item, answer in found.run([poison, *range(30)]):
                outer.append(answer)
                if item is poison:
                    inner += [answer for _, answer in found.run([5, poison, 6], alone=True)]
            assert [isinstance(answer, Poisonous) for answer in inner] == [False, True, False]
            assert [isinstance(answer, Poisonous) for answer in outer] == [True] + [False] * 30


def test_ray_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(HeadwayError, match=r"^query.workers ray: Ray is not installed: pip install headway\[ray\]$"):
        pool().__enter__()


@pytest.mark.parametrize("start", ["", "ray://"])
def test_nobody_listens(start: str) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # and does not listen
        address = f"{start}127.0.0.1:{held.getsockname()[1]}"
        with pytest.raises(HeadwayError, match=f"^query.workers {address}: no Ray cluster answers there"):
            actors(address, None, None, None, make).__enter__()
