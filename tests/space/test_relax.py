"""The paper's algorithms as schedules: their texts, and what the core learned for them."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import NEVER, connections_store
from headway.kernels import hierarchy as hierarchy_module
from headway.kernels import relax
from headway.kernels.hierarchy import INSIDE, form, hierarchy
from headway.kernels.space import (
    CSR,
    Compressed,
    Dense,
    Format,
    Schedule,
    ScheduleError,
    Tensor,
    interpret,
    kernel,
    schedule,
)
from headway.kernels.space.interpreter import _entries
from test_cuda_text import no_device, ptx  # noqa: F401  # the fixture is used by name

CUDA = relax.ALGORITHMS | relax.VIRTUAL_WARPS
ONE = schedule("e[v] min= t + l where S[u, v, l, t] and t >= now", S=form("departures"))


def given(kind: str, made: Schedule, listed: int = 0) -> dict:
    """Operands of a schedule for a small store."""
    store = connections_store([(0, 1, 100, 60), (0, 1, 160, 60), (1, 2, 200, 90)], 3)
    operands = hierarchy(store.cluster_ap, store.connections, kind, listed) | {"width": store.cluster_ap.width}
    wanted = {*made.statement.operands, *made.statement.scalars}
    return {name: one for name, one in operands.items() if name in wanted} | {"active": np.ones(3, bool)}


@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize("how", CUDA)
def test_ptx(how: str, table: bool, no_device: None) -> None:  # noqa: F811
    kind = "cluster table" if table and CUDA[how].kind == "clusters" else CUDA[how].kind
    made = CUDA[how].make(256, kind)
    text = ptx(made, np.zeros(3, np.int32), **given(kind, made, CUDA[how].listed))
    assert ".target sm_90" in text
    assert "min.s32" in text  # the atomic


def test_early_terminations_change_nothing() -> None:
    """The first round from every vertex, with them and without, and by the interpreter."""
    for kind in INSIDE:
        labels = np.array([100, 150, 2**31 - 1], np.int32)
        found = []
        for early in (True, False):
            made = relax.relaxation(kind, early)
            operands = given(kind, made)
            expected = interpret(made.statement, labels, arrival=labels, **operands)
            assert np.array_equal(kernel(made)(out=labels.copy(), **operands)[:2], expected[:2])
            found.append(expected)
        assert np.array_equal(*found)


def test_scan_looks_from_the_first_one_on() -> None:
    """Instead of searching; both find the same."""
    sought, looked = ONE.first("t"), ONE.scan("t").first("t")
    assert "lower(" in kernel(sought).source
    assert "lower(" not in kernel(looked).source
    assert "break" in kernel(looked).source
    store = connections_store([(0, 1, t, 60) for t in (5, 9, 50)] + [(0, 2, 7, 7)], 3)
    entries = hierarchy(store.cluster_ap, store.connections, "departures")["S"]
    for now in (0, 6, 9, 10, 51):
        out = np.full(3, 10_000, np.int32)
        a, b = (kernel(made)(out=out.copy(), S=entries, now=now) for made in (sought, looked))
        assert np.array_equal(a, b)
        assert np.array_equal(a, interpret(ONE.statement, out, S=entries, now=now))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ONE.scan("z"), "scan of z: the loops are u, v, l, t"),
        (lambda: ONE.scan("u"), "scan of u: it walks no level"),
        (
            lambda: schedule("y[i] = A[i, j] * B[i, j]", along={"B": "A"}, A=CSR, B=Format((Dense(), Dense()), (0, 1))),
            "along: B does not have the first levels of A",
        ),
        (
            lambda: schedule("y[i] = A[i, j] * B[j, i]", along={"B": "A"}, A=CSR, B=CSR),
            "along: B does not have the first levels of A",
        ),
    ],
)
def test_refused(make, message: str) -> None:
    with pytest.raises(ScheduleError) as error:
        make()
    assert message in str(error.value)


def test_along_shares_arrays() -> None:
    """Values of two matrices at the same places: the second one is read where the first one is walked."""
    made = schedule("y[i] = A[i, j] * B[i, j]", along={"B": "A"}, A=CSR, B=CSR)
    assert eval(made.code, {"schedule": schedule, "CSR": CSR}) == made
    assert "lower(" not in kernel(made).source
    a = Tensor.from_coordinates(([0, 0, 2], [1, 2, 0]), [1.0, 2, 3], (3, 3), CSR)
    b = Tensor(CSR, a.shape, a.arrays, np.array([10.0, 20, 30]))
    assert kernel(made)(A=a, B=b).tolist() == [50, 0, 90]
    other = Tensor.from_coordinates(([0, 0, 2], [1, 2, 0]), [10.0, 20, 30], (3, 3), CSR)
    with pytest.raises(ValueError, match="B must share the arrays of A's first levels"):
        kernel(made)(A=a, B=other)


@pytest.mark.parametrize(("kind", "listed"), [*((kind, n) for kind in INSIDE for n in (2, 3)), ("departures", 4)])
def test_lists_hold_the_same(kind: str, listed: int) -> None:
    """Coordinates of edges, types or connections, one by one, are sound and stand for the same entries."""
    store = connections_store([(0, 2, t, 60) for t in (5, 9, 50)] + [(2, 1, 7, 7), (2, 1, 8, 9)], 4)
    plain = hierarchy(store.cluster_ap, store.connections, kind)["S"]
    found = hierarchy(store.cluster_ap, store.connections, kind, listed)["S"]
    Tensor(found.format, found.shape, found.arrays, None)  # checks
    assert sorted(_entries(found)) == sorted(_entries(plain))


def test_a_table_of_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the same, and stays away where it is too large."""
    store = connections_store([(0, 1, t, 60) for t in (5, 9, 50)] + [(2, 1, 9000, 7), (2, 1, 18_000, 7)], 3)
    graph = store.cluster_ap
    assert hierarchy_module.fitting(graph, "clusters") == "cluster table"
    assert hierarchy_module.fitting(graph, "progressions") == "progressions"
    found, plain = (hierarchy(graph, store.connections, kind)["S"] for kind in ("cluster table", "clusters"))
    Tensor(found.format, found.shape, found.arrays, None)  # checks
    assert sorted(_entries(found)) == sorted(_entries(plain))
    labels = np.array([7, NEVER, 9001], np.int32)
    for kind in ("cluster table", "clusters"):
        made = relax.cluster_ap(0, kind)
        operands = hierarchy(graph, store.connections, kind) | {"width": graph.width, "active": np.ones(3, bool)}
        found = kernel(made)(out=labels.copy(), **operands)
        assert np.array_equal(found, interpret(made.statement, labels, arrival=labels, **operands))
        assert not np.array_equal(found, labels)
    monkeypatch.setattr(hierarchy_module, "DENSE_LIMIT", 8 * 2 * 6 - 1)  # two types, six hours
    assert hierarchy_module.fitting(graph, "clusters") == "clusters"


def test_types_alone() -> None:
    """What belongs to connection types is read at their positions, whatever lies below."""
    assert form("clusters").levels[:3] == form("departures", depth=3).levels == (Dense(), Compressed(), Compressed())
