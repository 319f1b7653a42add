"""The paper's algorithms on CPU threads: rounds of a relaxation until no label falls."""

from __future__ import annotations

import numpy as np

from ..kernels import relax
from ..kernels.hierarchy import fitting, hierarchy, walking
from ..kernels.levels import NEVER
from ..kernels.space.kernel import kernel
from ..storage.store import Store


class Relaxation:
    """One query after another; a call may be made from many threads at once.

    A round relaxes what leaves the vertices whose labels fell in the round before (active and nextactive of the
    paper).
    """

    def __init__(self, store: Store, algorithm: str) -> None:
        found = relax.ALGORITHMS[algorithm]
        kind = fitting(store.cluster_ap, found.kind)
        self._relax, self._walk = kernel(found.make(0, kind)), kernel(relax.footpath())
        given = hierarchy(store.cluster_ap, store.connections, kind) | {"width": store.cluster_ap.width}
        statement = self._relax.schedule.statement
        self._operands = {name: given[name] for name in (*statement.operands, *statement.scalars) if name in given}
        self._paths = walking(store.timetable.footpaths) if len(store.timetable.footpaths.to) else None
        self._vertices = store.timetable.vertices

    def search(
        self, order: np.ndarray, sources: tuple[np.ndarray, np.ndarray], leave: np.ndarray, out: np.ndarray
    ) -> None:
        """Earliest arrivals of the queries `order` into `out` int32[queries, vertices]; see `engines.Task`."""
        labels, active = np.empty(self._vertices, np.int32), np.empty(self._vertices, bool)
        steps = [self._relax.prepared(out=labels, threads=1, active=active, **self._operands)]
        if self._paths is not None:
            steps.append(self._walk.prepared(out=labels, threads=1, active=active, F=self._paths))
        for q in order:
            labels[:], active[:] = NEVER, False
            at = sources[1][sources[0][q] : sources[0][q + 1]]
            labels[at], active[at] = leave[q], True
            while active.any():
                before = labels.copy()
                for step in steps:
                    step()
                np.less(labels, before, out=active)
            out[q] = labels
