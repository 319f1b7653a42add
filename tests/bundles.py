"""A small bundle, what it must be, and refusals, for tests."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from headway.storage import bundle, draft
from headway.storage.errors import HeadwayError

TABLE = pa.table({"id": ["a", "b", None], "lat": [1.5, 2.5, 3.5]})


def arrays(fill: int = 1, n: int = 1000) -> dict[str, np.ndarray]:
    return {
        "departure": np.full(n, fill, np.int32),
        "offset": np.arange(n + 1, dtype=np.int64),
        "none": np.zeros((0, 3), np.uint32),
    }


def put(path: Path, fill: int = 1, **options) -> None:
    keywords = {"kind": "timetable", "version": 3, "arrays": arrays(fill), "tables": {"stops": TABLE}}
    keywords |= {"meta": {"fill": fill, "rebuild": "headway build city.zip -o city.store"}}
    draft.write(path, **(keywords | options))


def get(path: Path) -> bundle.Bundle:
    return bundle.open(path, "timetable", 3)


def whole(path: Path) -> int:
    """Verifies the store and returns the number it was filled with."""
    store = get(path)
    store.verify()
    values = np.unique(store.array("departure"))
    assert values.tolist() == [store.meta["fill"]]
    return store.meta["fill"]


def partials(parent: Path) -> list[str]:
    return sorted(p.name for p in parent.iterdir() if p.name.endswith(".partial"))


def refusal(call, *words: str) -> str:
    with pytest.raises(HeadwayError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    for word in words:
        assert word in text
    return text
