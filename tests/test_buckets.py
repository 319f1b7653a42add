"""The queue of vertices in buckets, against a dictionary."""

from __future__ import annotations

import numpy as np
from headway.kernels import buckets
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

VERTICES = 6


class Queue(RuleBasedStateMachine):
    """Labels within `spread` buckets of the one at work, as the engines have them."""

    @initialize(spread=st.integers(1, 20), now=st.integers(0, 100))
    def start(self, spread: int, now: int) -> None:
        self.head, self.after, self.before, self.place = buckets.make(VERTICES, spread + 1)
        self.bits = len(self.head) - 1
        assert len(self.head) > spread
        assert len(self.head) & self.bits == 0
        self.spread, self.now = spread, now
        self.model: dict[int, int] = {}

    @rule(vertex=st.integers(0, VERTICES - 1), ahead=st.integers(0, 20))
    def put(self, vertex: int, ahead: int) -> None:
        bucket = self.now + ahead % (self.spread + 1)
        fresh = buckets.put(self.head, self.after, self.before, self.place, vertex, bucket)
        assert fresh == (vertex not in self.model)
        self.model[vertex] = bucket

    @rule()
    def pop(self) -> None:
        vertex = buckets.pop(self.head, self.after, self.before, self.place, self.now)
        inside = [v for v, bucket in self.model.items() if bucket == self.now]
        if inside:
            assert vertex in inside
            del self.model[vertex]
        else:
            assert vertex == buckets.NONE

    @rule()
    def drain(self) -> None:
        out = np.full(VERTICES, -7, np.int32)
        count = buckets.drain(self.head, self.after, self.place, self.now, out)
        inside = [v for v, bucket in self.model.items() if bucket == self.now]
        assert sorted(out[:count].tolist()) == sorted(inside)
        assert set(out[count:].tolist()) <= {-7}
        for vertex in inside:
            del self.model[vertex]

    @rule()
    def go_on(self) -> None:
        """To the next bucket, once this one is empty."""
        if self.now not in self.model.values():
            self.now += 1

    @rule()
    def clear(self) -> None:
        buckets.clear(self.head, self.place)
        self.model.clear()

    @invariant()
    def each_vertex_is_where_it_belongs(self) -> None:
        if not hasattr(self, "model"):
            return
        found = {}
        for slot in range(len(self.head)):
            vertex, previous = self.head[slot], buckets.NONE
            while vertex != buckets.NONE:
                assert self.before[vertex] == previous
                assert self.place[vertex] == slot
                found[int(vertex)] = slot
                vertex, previous = self.after[vertex], vertex
        assert found == {vertex: bucket & self.bits for vertex, bucket in self.model.items()}
        assert {v for v in range(VERTICES) if self.place[v] != buckets.NONE} == set(found)


Queue.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
test_queue = Queue.TestCase
