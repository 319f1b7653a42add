"""The useful departure of a connection type: the paper's rule, which is the first departure in time."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import NEVER, connections_store
from headway.kernels.levels import first_term, seek, useful_departure
from headway.storage.cluster_ap import ClusterAp
from hypothesis import example, given, settings
from hypothesis import strategies as st

Progression = tuple[int, int, int]


def plain(graph: ClusterAp, kind: int) -> dict[int, list[Progression]]:
    """The progressions of a type by cluster."""
    out = {}
    for c in range(graph.type_cluster[kind], graph.type_cluster[kind + 1]):
        some = slice(graph.cluster_first[c], graph.cluster_first[c + 1])
        columns = (graph.start[some].tolist(), graph.end[some].tolist(), graph.step[some].tolist())
        out[int(graph.cluster_number[c])] = list(zip(*columns, strict=True))
    return out


def by_the_rule(clusters: dict[int, list[Progression]], width: int, second: int) -> int:
    """The contract: `k = e[u] // width`; the least term >= e[u] in cluster k; none there: the start of the next
    progression after cluster k; beyond the last cluster: none."""
    k = second // width
    inside = [term for start, end, step in clusters.get(k, []) for term in range(start, end + 1, step)]
    later = [progressions[0][0] for number, progressions in sorted(clusters.items()) if number > k]
    return min((term for term in inside if term >= second), default=(later or [NEVER])[0])


@pytest.mark.parametrize("minutes", [1, 5, 60, 180, 1440])
@settings(max_examples=60)
@given(
    types=st.lists(st.sets(st.integers(0, 2 * 86400 - 1), min_size=1, max_size=25).map(sorted), min_size=1, max_size=4),
    headways=st.lists(
        st.tuples(st.integers(0, 86400), st.sampled_from([60, 90, 300, 420, 3600]), st.integers(1, 30)), max_size=3
    ),
    others=st.lists(st.integers(0, 2 * 86400 + 7200), max_size=20),
)
@example(types=[[0]], headways=[], others=[0, 1, 2 * 86400 - 1])
@example(types=[[2 * 86400 - 1]], headways=[], others=[0])
def test_useful_departure(minutes: int, types: list[list[int]], headways: list, others: list[int]) -> None:
    for n, (start, step, count) in enumerate(headways):
        terms = {start + step * k for k in range(count)}
        types = [sorted(terms.union(types[0])), *types[1:]] if n else [*types, sorted(terms)]
    rows = [(0, 1, t, lasts) for lasts, terms in enumerate(types) for t in terms]
    graph = connections_store(rows, 2, minutes).cluster_ap
    arrays = (graph.type_cluster, graph.cluster_number, graph.cluster_first, graph.start, graph.end, graph.step)
    for kind, terms in enumerate(types):
        clusters = plain(graph, kind)
        near = {t + d for t in terms for d in (-1, 0, 1)} | {t // graph.width * graph.width for t in terms}
        for second in near.union(others) - {-1}:
            found = useful_departure(graph.width, *arrays, kind, second)
            assert found == by_the_rule(clusters, graph.width, second)
            assert found == min((t for t in terms if t >= second), default=NEVER)


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20), st.integers(0, 8)), max_size=6),
    st.lists(st.integers(0, 200), max_size=4),
    st.integers(0, 260),
)
def test_first_term(progressions: list[tuple[int, int, int]], around: list[int], earliest: int) -> None:
    """Among any progressions sorted by first term, overlapping or not, inside longer arrays."""
    progressions.sort()
    every = [(99, 199, 1)] * len(around) + [(s, s + d * n, d) for s, d, n in progressions] + [(0, 300, 1)]
    start, end, step = (np.array(column, np.int32) for column in zip(*every, strict=True))
    terms = {s + d * k for s, d, n in progressions for k in range(n + 1)}
    found = first_term(start, end, step, len(around), len(every) - 1, earliest)
    assert found == min((t for t in terms if t >= earliest), default=NEVER)


@given(st.lists(st.integers(0, 20)).map(sorted), st.integers(-1, 22), st.data())
def test_seek(keys: list[int], key: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(keys)))
    last = data.draw(st.integers(first, len(keys)))
    expected = next((p for p in range(first, last) if keys[p] >= key), last)
    assert seek(np.array(keys, np.int64), first, last, key) == expected
