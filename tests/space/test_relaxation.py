"""Earliest arrival and windowed sums as statements, on CPU threads."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import NEVER, connections_store
from headway.kernels.space import Compressed, Dense, Format, Progression, Tensor, interpret, kernel, schedule
from headway.kernels.space.interpreter import _entries
from relaxation import CPU, RELAX, WINDOWED, WINDOWED_CPU, WINDOWS, of_cluster_ap


def fixed_point(step, labels: np.ndarray) -> np.ndarray:
    """Rounds until no label falls; every vertex that was reached is active."""
    while True:
        after = step(labels)
        if np.array_equal(after, labels):
            return labels
        labels = after


@pytest.mark.parametrize("how", CPU)
def test_earliest_arrival(how: str) -> None:
    run, rng = kernel(CPU[how]), np.random.default_rng(1)
    for vertices, count in ((9, 150), (30, 200), (3, 1)):
        rows = [
            (*rng.integers(0, vertices, 2).tolist(), int(rng.integers(0, 4 * 3600)), 300 * int(rng.integers(1, 5)))
            for _ in range(count)
        ]
        store = of_cluster_ap(connections_store(rows, vertices))
        rows = sorted(((u, v, t, lasts) for (u, v, lasts, _, t), _ in _entries(store)), key=lambda row: row[2])
        labels = np.full(vertices, NEVER, np.int32)
        labels[rows[0][0]] = max(0, rows[0][2] - 3600)

        def ours(now: np.ndarray, store: Tensor = store) -> np.ndarray:
            return run(out=now.copy(), S=store, active=now < NEVER, width=3600, threads=2)

        def plain(now: np.ndarray, store: Tensor = store) -> np.ndarray:
            return interpret(RELAX.statement, now, S=store, active=now < NEVER, width=3600, arrival=now)

        def scan(rows: list = rows, labels: np.ndarray = labels) -> np.ndarray:
            found = labels.copy()
            for u, v, leave, lasts in rows:  # by departure; all durations are positive
                if found[u] <= leave:
                    found[v] = min(found[v], leave + lasts)
            return found

        assert np.array_equal(fixed_point(ours, labels), scan())
        assert np.array_equal(fixed_point(plain, labels), scan())


@pytest.mark.parametrize("how", WINDOWED_CPU)
def test_windowed_sum(how: str) -> None:
    run, rng = kernel(WINDOWED_CPU[how]), np.random.default_rng(2)
    events = (rng.random((11, 9, 7)) < 0.3) * rng.integers(1, 9, (11, 9, 7)).astype(float)
    at = np.nonzero(events)
    stored, features = Tensor.from_coordinates(at, events[at], events.shape, WINDOWS), rng.integers(1, 9, (7, 4)) * 1.0
    for begin, end in ((0, 9), (2, 5), (5, 5), (7, 3), (-4, 1), (8, 99), (1.5, 4.5)):
        operands = {"A": stored, "X": features, "t0": begin, "t1": end}
        found = run(out=np.ones((11, 4)), **operands)
        window = slice(max(int(np.ceil(begin)), 0), max(int(np.ceil(end)), 0))
        assert np.array_equal(found, 1 + np.einsum("iwj,jk->ik", events[:, window], features))
        assert np.array_equal(found, interpret(WINDOWED.statement, np.ones((11, 4)), **operands))


def test_bounds_that_are_no_ticks() -> None:
    """Strict and lax ones, between two ticks and on one."""
    made = schedule("y[i] = A[i, w, j] where t0 < w <= t1", A=WINDOWS)
    events = np.ones((1, 9, 1))
    stored = Tensor.from_coordinates(np.nonzero(events), events.reshape(-1), events.shape, WINDOWS)
    for begin, end in ((2, 5), (2.5, 5.5), (2, 5.5), (1.5, 2)):
        operands = {"A": stored, "t0": begin, "t1": end}
        assert np.array_equal(kernel(made)(**operands), interpret(made.statement, np.zeros(1), **operands))


def test_progressions_begin_in_order() -> None:
    """One that begins late is the end of the search for a first term, but a cluster may begin before the one before."""
    clusters = {"pos": np.array([0, 2]), "crd": np.array([0, 1], np.uint32)}
    one = np.ones(3, np.int32)

    def tensor(*start: int) -> Tensor:
        begin = np.array(start, np.int32)
        terms = {"pos": np.array([0, 2, 3]), "start": begin, "end": begin, "step": one}
        levels = Format((Dense(), Compressed(), Progression()), (0, 1, 2))
        return Tensor(levels, (1, 2, 99), ({"n": 1}, clusters, terms), None)

    tensor(5, 5, 0)
    with pytest.raises(ValueError, match="the progression at position 1 begins before the one at 0; sort them"):
        tensor(5, 4, 9)


def test_times_are_whole_numbers() -> None:
    store = of_cluster_ap(connections_store([(0, 1, 100, 60)], 2))
    with pytest.raises(ValueError, match="arrival: times are whole numbers"):
        kernel(RELAX)(out=np.zeros(2), S=store, active=np.ones(2, bool), width=3600)
