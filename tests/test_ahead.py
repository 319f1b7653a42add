"""Work done ahead of whoever takes it: nothing out of order, nothing lost, nothing left running."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from headway.pipeline.ahead import beside, prefetched, run_ahead


@pytest.mark.parametrize("ahead", [1, 2, 100])
def test_order(ahead: int) -> None:
    with prefetched(iter(range(50)), ahead) as taken:
        assert list(taken) == list(range(50))
    assert list(run_ahead(lambda k: k * k, range(50), ahead)) == [k * k for k in range(50)]


def test_errors_come_after_what_was_made_before() -> None:
    def failing() -> Iterator[int]:
        yield 1
        yield 2
        raise KeyError("three")

    with prefetched(failing(), 5) as taken:
        assert [next(taken), next(taken)] == [1, 2]
        with pytest.raises(KeyError, match="three"):
            next(taken)


def test_no_more_than_asked_for_and_no_thread_left() -> None:
    made = []

    def counting() -> Iterator[int]:
        for k in range(1000):
            made.append(k)
            yield k

    before = threading.active_count()
    with prefetched(counting(), 3) as taken:
        assert next(taken) == 0
    assert len(made) <= 6
    assert threading.active_count() == before


def test_work_begins_before_anything_is_taken() -> None:
    made = threading.Event()

    def telling() -> Iterator[int]:
        made.set()
        yield 1

    with prefetched(telling(), 1) as taken:
        assert made.wait(10)
        assert list(taken) == [1]


def test_beside() -> None:
    done = []
    before = threading.active_count()
    with beside(3) as start:
        for k in range(50):
            start(lambda k=k: done.append(k))
    assert sorted(done) == list(range(50))
    assert threading.active_count() == before


def test_what_fails_beside_is_raised() -> None:
    def fail() -> None:
        raise KeyError("beside")

    with pytest.raises(KeyError, match="beside"), beside(2) as start:
        start(fail)


def test_a_later_call_raises_what_failed() -> None:
    def fail() -> None:
        raise KeyError("beside")

    tried = []

    def many() -> None:
        with beside(2) as start:
            while True:
                start(fail)
                tried.append(1)

    with pytest.raises(KeyError, match="beside"):
        many()
    assert len(tried) < 10


def test_what_is_closed_begins_no_more() -> None:
    begun: list[int] = []

    def work(item: int) -> None:
        begun.append(item)
        if item:
            time.sleep(0.5)

    results = run_ahead(work, range(100), 1)
    next(results)
    results.close()
    assert begun in ([0], [0, 1])
