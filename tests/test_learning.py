"""PyTorch's layers against dense PyTorch, and their gradients against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from dynamic_graphs import graph_of, graphs, windows
from headway.pipeline.dynamic_graph import DTCSR
from headway.storage.errors import HeadwayError
from headway.storage.window import Window
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from headway.pipeline.learning import gates, tasks  # noqa: E402
from headway.pipeline.learning.functional import gcn, mean, total  # noqa: E402
from headway.pipeline.learning.layers import GCN, TGCN  # noqa: E402
from headway.pipeline.learning.snapshots import Snapshot, Snapshots  # noqa: E402
from headway.pipeline.learning.team import Team  # noqa: E402

DOUBLE = torch.float64


def snapshot(window: Window) -> Snapshot:
    return Snapshots(window.graph).of(window)


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def adjacency(window: Window, weights: torch.Tensor) -> torch.Tensor:
    """Dense [destination, source], repeated pairs summed; differentiable in the weights."""
    source, destination, edge = (torch.from_numpy(one.astype(np.int64)) for one in window.edges())
    n = window.graph.nodes
    empty = torch.zeros(n, n, dtype=weights.dtype)
    return empty.index_put((destination, source), weights[edge], accumulate=True)


def dense_gcn(window: Window, features: torch.Tensor, weights: torch.Tensor, loops: bool) -> torch.Tensor:
    a = adjacency(window, weights)
    if loops:
        source, destination, _ = window.edges()
        lone = torch.ones(len(a), dtype=a.dtype)
        lone[source[source == destination].astype(np.int64)] = 0
        a = a + torch.diag(lone)
    degree = a.sum(1)
    scale = torch.where(degree > 0, 1 / degree.clamp(min=1e-30).sqrt(), 0.0)
    return scale[:, None] * (a @ (scale[:, None] * features))


def dense_tgcn(layer: TGCN, window: Window, x: torch.Tensor, h: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """As its authors write it."""

    def conv(made: GCN) -> torch.Tensor:
        return dense_gcn(window, x @ made.lin.weight.T, weights, loops=True) + made.bias

    z = torch.sigmoid(layer.linear_z(torch.cat([conv(layer.conv_z), h], 1)))
    r = torch.sigmoid(layer.linear_r(torch.cat([conv(layer.conv_r), h], 1)))
    c = torch.tanh(layer.linear_h(torch.cat([conv(layer.conv_h), h * r], 1)))
    return z * h + (1 - z) * c


@given(windows(), st.booleans(), st.booleans())
def test_gcn(window: Window, loops: bool, weighted: bool) -> None:
    """Values and gradients; no NaN where nodes have no edges."""
    m = window.graph.events
    mine, theirs = (numbers(window.graph.nodes, 3).requires_grad_() for _ in range(2))
    weights = [(numbers(m, seed=1).abs() + 0.1).requires_grad_() for _ in range(2)]
    ours = gcn(snapshot(window), mine, weights[0] if weighted else None, loops)
    dense = dense_gcn(window, theirs, weights[1] if weighted else torch.ones(m, dtype=DOUBLE), loops)
    torch.testing.assert_close(ours, dense)
    (ours * numbers(*ours.shape, seed=2)).sum().backward()
    (dense * numbers(*ours.shape, seed=2)).sum().backward()
    torch.testing.assert_close(mine.grad, theirs.grad)
    if weighted:
        torch.testing.assert_close(weights[0].grad, weights[1].grad)


@settings(max_examples=25)
@given(windows())
def test_finite_differences(window: Window) -> None:
    """Of every function, in features and weights."""
    found, n = snapshot(window), window.graph.nodes
    features = numbers(n, 2).requires_grad_()
    weights = (numbers(window.graph.events, seed=1).abs() + 0.5).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, w: total(found, x, w), (features, weights))
    assert torch.autograd.gradcheck(lambda x: mean(found, x), (features,))
    assert torch.autograd.gradcheck(lambda x, w: gcn(found, x, w), (features, weights))
    assert torch.autograd.gradcheck(lambda x, w: gcn(found, x, w, weighted_degree=False), (features, weights))


@settings(max_examples=25)
@given(graphs(), st.sampled_from([2, 40]), st.sampled_from([2, 512]))
def test_tgcn_over_all_snapshots(graph: DTCSR, inputs: int, rows: int) -> None:
    """Forward, loss and the gradients of every parameter; inputs few and many, rows in one block or several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gates, "ROWS", rows)
        check_tgcn(graph, inputs)


def check_tgcn(graph: DTCSR, inputs: int) -> None:
    torch.manual_seed(3)
    layer = TGCN(inputs, 4).double()
    weights = numbers(graph.events, seed=1).abs()
    losses, gradients = [], []
    for ours in (True, False):
        state, loss = torch.zeros(graph.nodes, 4, dtype=DOUBLE), torch.zeros((), dtype=DOUBLE)
        for tick, found in enumerate(Snapshots(graph)):
            x = numbers(graph.nodes, inputs, seed=tick)
            if ours:
                state = layer(found, x, state, weights)
            else:
                state = dense_tgcn(layer, found.window, x, state, weights)
            loss = loss + (state * numbers(*state.shape, seed=9)).sum()
        layer.zero_grad()
        loss.backward()
        losses.append(loss.detach())
        gradients.append([parameter.grad.clone() for parameter in layer.parameters()])
    torch.testing.assert_close(*losses)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_snapshot_without_edges() -> None:
    """Zeros, and no gradient: with self loops a node has its own row."""
    found = snapshot(graph_of([(0, 1, 0), (1, 0, 2)], 2).snapshot(1))
    x, w = numbers(2, 3).requires_grad_(), torch.ones(2, dtype=DOUBLE, requires_grad=True)
    for y in (total(found, x, w), mean(found, x), gcn(found, x, w, self_loops=False)):
        assert not y.detach().any()
        x.grad = w.grad = None
        y.sum().backward()
        assert not x.grad.any()
        assert w.grad is None or not w.grad.any()
    assert torch.equal(gcn(found, x), x)


def test_graph_without_events() -> None:
    """E = 0: a TGCN has states and gradients, of weights [0] too."""
    found = snapshot(DTCSR.from_snapshots([np.empty((2, 0), np.int64)], nodes=3).snapshot(0, distinct=True))
    x, w, layer = numbers(3, 2).requires_grad_(), torch.ones(0, dtype=DOUBLE, requires_grad=True), TGCN(2, 4).double()
    assert torch.equal(gcn(found, x, w), x)
    layer(found, x, None, w).sum().backward()
    assert x.grad.isfinite().all()
    assert layer.conv_z.lin.weight.grad.any()


def test_a_step_moves_every_parameter_alike_for_any_number_of_workers() -> None:
    """A tick without links gives the map of the state a gradient of 0, not none: Adam goes on."""
    of = graph_of([(0, 1, 0), (1, 2, 3)], 3)
    snapshots, model, task = Snapshots(of), tasks.Model(8, 4), tasks.Links(of, None, 0)
    state = model.layer(snapshots.of(of.snapshot(0)), torch.ones(3, 8))
    task.loss(model, state, snapshots.of(of.snapshot(1)), 1).backward()
    Team(0, 1).add_up(model.parameters())
    assert all(one.grad is not None and not one.grad.any() for one in model.parameters())


def test_one_node() -> None:
    found = snapshot(graph_of([(0, 0, 0)], 1).snapshot(0))
    assert gcn(found, torch.full((1, 2), 3.0)).tolist() == [[3, 3]]
    assert TGCN(2, 4)(found, torch.ones(1, 2)).shape == (1, 4)


def test_features_are_kept_for_the_gradient_of_weights_only() -> None:
    found = snapshot(graph_of([(0, 1, 0), (1, 2, 0)], 3).snapshot(0))
    x, w = numbers(3, 4).requires_grad_(), torch.ones(2, dtype=DOUBLE)
    kept: list[tuple[int, ...]] = []

    def keep(one: torch.Tensor) -> torch.Tensor:
        kept.append(tuple(one.shape))
        return one

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda one: one):
        gcn(found, x), gcn(found, x, w)
        assert (3, 4) not in kept
        gcn(found, x, w.requires_grad_())
    assert (3, 4) in kept


def test_memory_is_shared() -> None:
    """A tensor's array is the one that kernels read."""
    from headway.pipeline.learning.functional import array

    x = torch.zeros(3, 2)
    array(x)[1, 1] = 5
    assert x[1, 1] == 5
    graph = graph_of([(0, 1, 0)], 2)
    assert np.shares_memory(snapshot(graph.snapshot(0)).incoming.columns, graph.by_destination.column_indices)


@pytest.mark.parametrize(
    ("features", "weights", "what"),
    [
        (torch.ones(3, 1), None, r"features \(3, 1\); give \[2, columns\]"),
        (torch.ones(2), None, r"give \[2, columns\]"),
        (torch.ones(2, 1, dtype=torch.int64), None, "float32 or float64"),
        (torch.ones(2, 1), torch.ones(3), r"weights \(3,\); give \[1\]"),
        (torch.ones(2, 1), torch.ones(1, dtype=DOUBLE), "give one type"),
        (torch.ones(2, 1), torch.tensor([-1.0]), "negative edge weight"),
    ],
)
def test_wrong_input(features: torch.Tensor, weights: torch.Tensor | None, what: str) -> None:
    found = snapshot(graph_of([(0, 1, 0)], 2).snapshot(0))
    with pytest.raises(HeadwayError, match=what):
        gcn(found, features, weights)


def test_negative_weights_by_unweighted_degree() -> None:
    found = snapshot(graph_of([(0, 1, 0)], 2).snapshot(0))
    y = gcn(found, torch.ones(2, 1), torch.tensor([-1.0]), self_loops=False, weighted_degree=False)
    assert y.tolist() == [[0], [0]]  # node 0 has no in-degree
    y = gcn(found, torch.ones(2, 1), torch.tensor([-1.0]), weighted_degree=False)
    assert y[1].item() == pytest.approx(0.5 - 0.5**0.5)
