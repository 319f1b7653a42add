"""Text ids against a dictionary."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from dask.sizeof import sizeof
from headway.pipeline.ids import Ids
from hypothesis import example, given
from hypothesis import strategies as st

# Few letters, so that ids share beginnings and are asked for again; bytes of several UTF-8 lengths.
texts = st.lists(st.text("ab0é漢", max_size=4), max_size=40)


@given(texts.map(lambda known: list(dict.fromkeys(known))), texts)
@example([], ["a", ""])
@example(["a"], [])
def test_find(known: list[str], asked: list[str]) -> None:
    number = {text: place for place, text in enumerate(known)}
    found = Ids.of(pa.array(known, pa.string())).find(pa.array(asked, pa.string()))
    assert found.dtype == np.int32
    assert found.tolist() == [number.get(text, -1) for text in asked]


def test_nulls_slices_and_chunks() -> None:
    ids = Ids.of(pa.array(["x", "", "y", "z"])[1:])  # an empty id is not a null
    assert ids.find(pa.chunked_array([["y", None], [], ["", "x"]], pa.string())).tolist() == [1, -1, 0, -1]


def test_what_it_takes_is_known_to_dask() -> None:
    """Blocks travel with it to the workers of a build, which weigh what they hold."""
    ids = Ids.of(pa.array([f"trip {k}" for k in range(10_000)]))
    assert sizeof(ids) > sum(array.nbytes for array in ids)


def test_many() -> None:
    """A table that is filled to its half, with long runs of taken slots."""
    known = [f"{k * 7919 % 100003}:{k}" for k in range(65536)]
    ids = Ids.of(pa.array(known))
    assert ids.find(pa.array(known)).tolist() == list(range(65536))
    assert (ids.find(pa.array([f"{text}!" for text in known])) == -1).all()
