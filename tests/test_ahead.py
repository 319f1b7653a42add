"""Work done ahead of whoever takes it: nothing out of order, nothing lost, nothing left running."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from headway.pipeline.ahead import prefetched, run_ahead


@pytest.mark.parametrize("ahead", [1, 2, 100])
def test_order(ahead: int) -> None:
    assert list(prefetched(iter(range(50)), ahead)) == list(range(50))
    assert list(run_ahead(lambda k: k * k, range(50), ahead)) == [k * k for k in range(50)]


def test_errors_come_after_what_was_made_before() -> None:
    def failing() -> Iterator[int]:
        yield 1
        yield 2
        raise KeyError("three")

    taken = prefetched(failing(), 5)
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
    taken = prefetched(counting(), 3)
    assert next(taken) == 0
    taken.close()
    assert len(made) <= 6
    assert threading.active_count() == before
