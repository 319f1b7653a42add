"""Connected components by cuGraph beside SciPy's, on real devices; when it is asked, and what is said if it fails."""

from __future__ import annotations

import importlib.util
import sys
import types

import numpy as np
import pytest
from headway.cluster.devices import Found, cuda_device
from headway.pipeline import device_components, vertex_order
from headway.pipeline.vertex_order import components
from headway.storage.errors import HeadwayError
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array

trouble = cuda_device().trouble or ("" if importlib.util.find_spec("pylibcugraph") else "cuGraph is not installed")
needs_cugraph = pytest.mark.skipif(bool(trouble), reason=trouble)


def same(pairs: np.ndarray, vertices: int) -> None:
    """Both count the components of `pairs` int[2, ...] alike."""
    ends = np.concatenate([pairs, pairs[::-1]], axis=1)
    graph = coo_array((np.ones(ends.shape[1], np.int8), tuple(ends)), shape=(vertices, vertices)).tocsr()
    assert device_components.components(graph) == components(graph)


@needs_cugraph
@settings(max_examples=100, deadline=None)
@given(st.integers(1, 40), st.data())
def test_small_graphs(vertices: int, data: st.DataObject) -> None:
    vertex = st.integers(0, vertices - 1)
    pairs = data.draw(st.sets(st.tuples(vertex, vertex).filter(lambda pair: pair[0] < pair[1]), max_size=60))
    same(np.array(sorted(pairs), np.int64).reshape(-1, 2).T, vertices)


@needs_cugraph
@pytest.mark.parametrize("share", [0.1, 0.5, 3.0])
def test_half_a_million_vertices(share: float) -> None:
    """Fewer pairs than vertices, about where the giant component appears, and many more."""
    vertices = 500_000
    drawn = np.random.default_rng(0).integers(0, vertices, (2, int(share * vertices)))
    pairs = np.unique(np.sort(drawn, axis=0)[:, drawn[0] != drawn[1]], axis=1)
    same(pairs, vertices)


def symmetric(*pairs: tuple[int, int]) -> csr_array:
    """Five vertices, and these joined."""
    ends = np.array([*pairs, *((v, u) for u, v in pairs)]).T
    return coo_array((np.ones(ends.shape[1], np.int8), tuple(ends)), shape=(5, 5)).tocsr()


def test_large_graphs_are_counted_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones by SciPy, which has counted them before cuGraph is imported."""
    counted = []
    monkeypatch.setattr(device_components, "components", lambda graph: counted.append(graph.nnz) or 7)
    monkeypatch.setattr(vertex_order, "CUGRAPH_PAYS", 4)
    monkeypatch.setattr(vertex_order, "cuda_device", lambda: Found(name="a GPU"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    path, pair = symmetric((0, 1), (1, 2)), symmetric((0, 1))
    assert [components(graph, gpu=True) for graph in (path, pair)] == [7, 4]
    assert components(path) == 3
    assert counted == [4]


@pytest.mark.parametrize("error", [ImportError("libcugraph.so:\nno such file"), MemoryError("out of memory")])
def test_a_cugraph_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(asarray=fail, unique=fail))
    monkeypatch.setitem(sys.modules, "pylibcugraph", types.SimpleNamespace(ResourceHandle=fail))
    with pytest.raises(HeadwayError, match=r"^cuGraph failed: .*; build on CPUs, with --set build.frames=") as found:
        device_components.components(symmetric((0, 1)))
    assert "\n" not in str(found.value)
