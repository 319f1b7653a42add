"""Blocks that other processes find in a file."""

from __future__ import annotations

import pickle
import re
from io import BytesIO
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from headway.cluster.dask import Workers
from headway.pipeline import blocks
from headway.pipeline.blocks import Block, read_blocks
from headway.pipeline.gtfs import stop_times
from headway.storage.errors import WorkersError
from hypothesis import given
from hypothesis import strategies as st

TEXT = {"a": pa.string(), "b": pa.string()}


@given(st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(["", "x", '"q, u"', "ä"])), min_size=30))
def test_what_is_found_is_what_was_put(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, str]]) -> None:
    data = "a,b\n" + "".join(f"{one},{other}\n" for one, other in rows)
    with patch.object(blocks, "BLOCK", 64):
        cut = list(read_blocks(BytesIO(data.encode()), "feed/table.txt"))
    assert len(cut) > 1
    with (tmp_path_factory.mktemp("shared") / "lines").open("wb") as file:
        sent = [pickle.dumps(block.put(file)) for block in cut]
    found = [pickle.loads(one) for one in sent]
    assert [block.parse(TEXT) for block in found] == [block.parse(TEXT) for block in cut]
    assert [(block.file, block.header, block.first) for block in found] == [
        (block.file, block.header, block.first) for block in cut
    ]


def test_lines_stay_in_the_file(tmp_path: Path) -> None:
    block = Block("feed/table.txt", ("a",), (bytes(range(32, 127)) * 10_000,))
    with (tmp_path / "lines").open("wb") as file:
        assert len(pickle.dumps(block.put(file))) < 500


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("size", [10, 100_000], ids=["found out again by closing", "at once"])
def test_a_full_disk_is_one_line(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_times, "NamedTemporaryFile", lambda **_: Path("/dev/full").open("wb"))  # noqa: SIM115
    words = rf"^{re.escape(str(tmp_path))}: No space left.*workers\.scratch"
    with pytest.raises(WorkersError, match=words), stop_times.shared(Workers(1, shared=tmp_path)) as file:
        Block("feed/table.txt", ("a",), (b"x" * size,)).put(file)


def test_no_room_for_the_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(WorkersError, match=r"none: No such file.*workers\.scratch"):
        stop_times.shared(Workers(1, shared=tmp_path / "none")).__enter__()
