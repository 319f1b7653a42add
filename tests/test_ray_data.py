"""Queries as a step of a Ray Data pipeline."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
import ray.data
from command import tiny_store
from headway.pipeline.api import Engine
from headway.pipeline.ray_data import Answers
from headway.storage.errors import HeadwayError
from headway.storage.store import load


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    return tiny_store(tmp_path_factory.mktemp("data"))


@pytest.mark.usefixtures("_ray")
def test_a_step_of_a_pipeline(store: Path) -> None:
    queries = pa.table(
        {"query_id": range(60), "origin": list("ABC") * 20, "departure": [28_000 + 60 * k for k in range(60)]}
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    answers = ray.data.from_arrow(queries).map_batches(
        Answers,
        fn_constructor_kwargs={"store": str(store), "answer": "reach", "cutoffs": "5,20"},
        batch_format="pyarrow",
        batch_size=16,
        concurrency=1,
    )
    found = answers.to_pandas().sort_values(["query_id", "cutoff_s"]).reset_index(drop=True)
    engine = Engine(load(store), device="cpu", quiet=True)
    expected = engine.reach(queries["origin"].to_pylist(), queries["departure"].to_pylist(), cutoffs=[5, 20])
    assert len(found) == 120
    assert found.astype(str).equals(expected.astype(str))
    assert found["stops"].nunique() > 1


def test_bad_batches(store: Path) -> None:
    answers = Answers(str(store), "od")
    good = {"query_id": [7, 8], "origin": ["A", "A"], "destination": ["C", "B"], "departure": ["8:00", "8:00"]}
    assert answers(pa.table(good))["arrival"].to_pylist() == [30_000, 29_400]
    for changed, cause in (
        ({"origin": ["A", "?"]}, r"^query_id 8: unknown origin '\?'; mend it, or leave it out$"),
        ({"departure": [1.5, 2.0]}, "query_id 7: malformed departure"),
        ({"origin": [1, 2]}, "a batch: column origin is int64; ids are text"),
    ):
        with pytest.raises(HeadwayError, match=cause):
            answers(pa.table(good | changed))
    for name, cause in (("query_id", "it needs a query_id"), ("destination", "no column destination")):
        with pytest.raises(HeadwayError, match=cause):
            answers(pa.table({key: values for key, values in good.items() if key != name}))
