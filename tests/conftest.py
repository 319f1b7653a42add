"""What tests share: stores of small feeds, real feeds where they are, every engine."""

from __future__ import annotations

import logging
import os
import signal
import tempfile
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from headway.kernels import relax
from headway.pipeline.build import build_connections, build_feeds
from headway.pipeline.engines import ALGORITHMS, Arrivals, algorithms_for
from headway.pipeline.gtfs.report import Report
from headway.pipeline.settings import load_settings
from headway.storage.store import Store
from hypothesis import settings

# Numba's CUDA simulator is for a whole process: `test_simulator.py` starts one.
collect_ignore = [] if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1" else ["simulator"]
SHARED = Path(__file__).parents[2] / "shared"
NEVER = 2**31 - 1

# A shell starts background jobs with Ctrl-C ignored, which children inherit: tests of it would wait in vain.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Compiling a kernel takes longer than any deadline, and only once.
settings.register_profile("headway", deadline=None)
settings.load_profile("headway")


def real_feed(name: str) -> Path:
    """A real feed beside the checkout; the test is skipped where there is none."""
    path = SHARED / "feeds" / f"{name}.zip"
    if not path.exists():
        pytest.skip(f"{name} is not beside the checkout")
    return path


def build(feeds: list[Path], day: str = "2026-06-10", report: Report | None = None, **options) -> Store:
    """Build a store in memory; `options` are settings, `walk__mode` for `walk.mode`."""
    changes = {key.replace("__", "."): (key, value) for key, value in options.items()}
    settings = load_settings("laptop", (), {"threads": ("threads", 1), **changes})
    return build_feeds(feeds, date.fromisoformat(day), settings, report or Report())


def connections_store(rows: Sequence[tuple[int, int, int, int]], vertices: int, minutes: int = 60) -> Store:
    """A store of raw connections (u, v, t, lambda), through a file as the paper has it."""
    lines = [f"{vertices} {len(rows)}", *(" ".join(map(str, row)) for row in rows)]
    changes = {"threads": ("threads", 1), "build.cluster_minutes": ("cluster_minutes", minutes)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "connections.txt"
        path.write_text("\n".join(lines))
        return build_connections(path, load_settings("laptop", (), changes), Report())


def answers(store: Store, queries: list[tuple[str, int]], algorithm: str) -> list[dict[str, int]]:
    """For each (origin, departure): id -> second for every stop and station reached."""
    places = store.timetable.places
    ids = places.table["id"].to_pylist()
    rows = [ids.index(origin) for origin, _ in queries]
    starts = [places.vertex[places.offset[row] : places.offset[row + 1]] for row in rows]
    sources = (np.cumsum([0] + [len(start) for start in starts]), np.concatenate([*starts, np.empty(0, np.uint32)]))
    leave = np.array([second for _, second in queries], np.int32)
    labels = Arrivals(store, algorithm)(sources, leave)
    found = []
    for label in labels:
        best = {}
        for row, name in enumerate(ids):
            vertices = places.vertex[places.offset[row] : places.offset[row + 1]]
            if len(vertices) and label[vertices].min() != NEVER:
                best[name] = int(label[vertices].min())
        found.append(best)
    return found


def quick(store: Store) -> list[str]:
    """The algorithms for a store that do not look at all of it in every round."""
    return [name for name in algorithms_for(store) if name not in relax.ALGORITHMS]


@pytest.fixture(params=sorted(ALGORITHMS))
def algorithm(request) -> str:
    """Every query engine in turn."""
    return request.param


@pytest.fixture(scope="class")
def _ray() -> Iterator[None]:
    """A Ray of this machine that many tests share, with room for two actors; it takes seconds to start."""
    import ray

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))  # what is here is for its actors too
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        silent = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.CRITICAL}
        ray.init("local", num_cpus=2, **silent)
        yield
        ray.shutdown()
