"""In what order a GPU takes queries: a permutation, cut into chains that a kernel may take together."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from headway.pipeline.chains import GAP, SPAN, chains
from hypothesis import given
from hypothesis import strategies as st

queries = st.lists(st.tuples(st.integers(0, 4), st.one_of(st.integers(0, 2000), st.integers(0, 10**6))), max_size=60)


@given(queries)
def test_chains(asked: list[tuple[int, int]]) -> None:
    origin, departure = np.array(asked, np.int32).reshape(-1, 2).T
    order, begin = chains(origin, departure)
    assert sorted(order.tolist()) == list(range(len(asked)))
    assert begin.dtype == np.uint32
    assert begin.tolist()[0] == 0
    assert begin.tolist()[-1] == len(asked)
    earliest = []
    for first, last in pairwise(begin):
        chain = order[first:last]
        assert len(chain) > 0
        assert len(set(origin[chain])) == 1
        steps = -np.diff(departure[chain])
        assert ((steps >= 0) & (steps <= GAP)).all(), "the latest first, each shortly after the next"
        assert departure[chain[0]] - departure[chain[-1]] <= SPAN
        earliest.append(departure[chain[-1]])
    assert earliest == sorted(earliest)


def test_minute_by_minute_is_one_chain() -> None:
    order, begin = chains(np.zeros(32, np.int32), np.arange(32, dtype=np.int32) * 60)
    assert begin.tolist() == [0, 32]
    assert order.tolist() == list(range(31, -1, -1))


def test_no_query() -> None:
    order, begin = chains(np.empty(0, np.int32), np.empty(0, np.int32))
    assert len(order) == 0
    assert begin.tolist() == [0]
