"""Files, frames and arrays of events: what is read, how nodes are numbered, what is said of wrong input."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from headway.pipeline import blocks
from hypothesis import given
from hypothesis import strategies as st
from snapshot_oracle import check_arrays, edges_of

import headway as hw

PLAIN = "src,dst,time\n1,2,10\n2,1,5\n"


def write(folder: Path, text: str, name: str = "events.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def labelled(graph: hw.DTCSR) -> list[tuple]:
    """(source, destination, time) of all events, as the user wrote them, in order of time."""
    ids = graph.ids.to_pylist()
    return [
        (ids[s], ids[d], int(graph.times[window.first])) for window in graph.windows() for s, d, _ in edges_of(window)
    ]


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        "src dst time\n1 2 10\n2 1 5\n",
        "1 2 10\n2 1 5\n",
        "1\t2\t10\n2\t1\t5\n",
        "1,2,10\n2,1,5",
        "  1   2 10  \r\n2 1\t5\r\n",
        '\ufeffdst, time ,src\r\n2,10,1\r\n"1",5,"2"\r\n',
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_forms_of_text(tmp_path: Path, text: str, zipped: bool) -> None:
    path = tmp_path / "events.txt"
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    graph = hw.DTCSR.from_events(path)
    assert labelled(graph) == [(2, 1, 5), (1, 2, 10)]
    assert graph.values is None


@pytest.mark.parametrize("text", ["src,dst,time\n", "src dst time", "1 1 7\n", "1,1,7"])
def test_text_of_a_line(tmp_path: Path, text: str) -> None:
    graph = hw.DTCSR.from_events(write(tmp_path, text))
    assert labelled(graph) == ([] if "src" in text else [(1, 1, 7)])


def test_columns_by_name(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2], "b": [2, 3], "when": [4, 4], "w": [0.5, 2.0], "value": [9, 9]})
    pq.write_table(table, tmp_path / "events.parquet")
    names = {"src": "a", "dst": "b", "time": "when", "value": "w"}
    graph = hw.DTCSR.from_events(tmp_path / "events.parquet", **names)
    assert edges_of(graph.snapshot(0)) == [(0, 1, 0.5), (1, 2, 2)]
    names.pop("value")
    assert edges_of(hw.DTCSR.from_events(table.to_pandas(), **names).snapshot(0)) == [(0, 1, 9), (1, 2, 9)]


IDS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=12),
    st.lists(st.integers(2**33, 2**33 + 9), min_size=2, max_size=12),
    st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=12),
    st.lists(st.text("ab0é -", min_size=1, max_size=3).filter(lambda s: s == s.strip()), min_size=2, max_size=12),
)


@given(IDS)
def test_ids_are_numbered_in_order(ids: list) -> None:
    """Any integers, also past 2**32 and 2**63, and text: ascending, those that occur, and edges join the right ones."""
    source, target = ids[: len(ids) // 2], ids[len(ids) // 2 : len(ids) // 2 * 2]
    kind = np.uint64 if isinstance(ids[0], int) and max(ids) >= 2**63 else None
    columns = tuple(np.array(held, kind) for held in (source, target, range(len(source))))
    graph = hw.DTCSR.from_events((columns[0], columns[1], np.arange(len(source))))
    check_arrays(graph)
    used = {*source, *target}
    assert graph.ids.to_pylist() == sorted(used, key=lambda name: name.encode() if isinstance(name, str) else name)
    assert labelled(graph) == [(s, d, k) for k, (s, d) in enumerate(zip(source, target, strict=True))]
    again = hw.DTCSR.from_events((columns[0], columns[1], np.arange(len(source))), nodes=[*reversed(sorted(used))])
    assert again.ids.to_pylist() == sorted(used, reverse=True)
    assert labelled(again) == labelled(graph)


def test_text_ids_with_leading_zeros(tmp_path: Path) -> None:
    """007 is not 7; a column of plain integers is one of integers."""
    graph = hw.DTCSR.from_events(write(tmp_path, "src,dst,time\n007,7,1\n7,007,2\n"))
    assert labelled(graph) == [("007", "7", 1), ("7", "007", 2)]
    graph = hw.DTCSR.from_events(write(tmp_path, f"src,dst,time\n{2**63 + 5},7,1\n"))
    assert graph.ids.to_pylist() == [7, 2**63 + 5]


@pytest.mark.parametrize("block", [8, 24, 1 << 20])
def test_blocks_of_a_file_are_of_one_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    """Whether ids are integers or text is settled by the whole file, however it is cut; rows are counted through."""
    monkeypatch.setattr(blocks, "BLOCK", block)
    rows = [(f"{k}", f"{k % 3}", k, k / 4) for k in range(20)]
    text = "src,dst,time,value\n" + "".join(f"{s},{d},{t},{v:g}\n" for s, d, t, v in rows)
    assert labelled(hw.DTCSR.from_events(write(tmp_path, text))) == [(int(s), int(d), t) for s, d, t, _ in rows]
    graph = hw.DTCSR.from_events(write(tmp_path, text + "a,2,20,0.5\n"))
    assert labelled(graph) == [(s, d, t) for s, d, t, _ in [*rows, ("a", "2", 20, 0)]]
    assert graph.window(0, 20).values().sum() == sum(v for *_, v in rows) + 0.5
    big = hw.DTCSR.from_events(write(tmp_path, text + f"{2**64 - 1},2,20,0.5\n"))
    assert labelled(big) == [(int(s), int(d), t) for s, d, t, _ in [*rows, (str(2**64 - 1), "2", 20, 0)]]
    for line, words in (
        ("1,2,x,1", "row 22: time 'x'"),
        ("1,2,3,x", "row 22: value 'x'"),
        (",2,3,1", "row 22: src is"),
    ):
        with pytest.raises(hw.HeadwayError, match=words):
            hw.DTCSR.from_events(write(tmp_path, f"{text}{line}\n"))


def test_categories_that_do_not_occur() -> None:
    frame = pd.DataFrame({"src": ["b", "a"], "dst": ["a", "c"], "time": [0, 1]})
    frame["src"] = frame["src"].astype(pd.CategoricalDtype(["z", "b", "a"]))
    assert hw.DTCSR.from_events(frame).ids.to_pylist() == ["a", "b", "c"]


def test_dates_become_seconds() -> None:
    frame = pd.DataFrame({"src": [1], "dst": [2], "time": pd.to_datetime(["2026-01-01 00:00:01"])})
    assert hw.DTCSR.from_events(frame).times.tolist() == [1_767_225_601]
    frame["time"] += pd.Timedelta(milliseconds=1)
    with pytest.raises(hw.HeadwayError, match="has fractions of a second"):
        hw.DTCSR.from_events(frame)


def test_frames_of_other_libraries() -> None:
    """cuDF gives its columns to Arrow by `to_arrow`; here such a frame is played by a small one."""

    class Series:
        def __init__(self, values: list) -> None:
            self.values = values

        def to_arrow(self) -> pa.Array:
            return pa.array(self.values)

    class Frame:
        columns = ("src", "dst", "time")

        def __getitem__(self, name: str) -> Series:
            return Series({"src": [3, 4], "dst": [4, 3], "time": [1, 0]}[name])

    assert labelled(hw.DTCSR.from_events(Frame())) == [(4, 3, 0), (3, 4, 1)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("src,dst\n1,2\n", "row 1: no column time (it has src, dst); name it with --time"),
        ("src,dst,time\n1,2,3\n1,2,x\n", "row 3: time 'x' is no integer"),
        ("src,dst,time\n1,2,3.5\n", "row 2: time '3.5' is no integer"),
        ("src,dst,time\n1,,3\n", "row 2: dst is missing"),
        ("src,dst,time\n1,2,3\n1,2\n", "row 3: time is missing"),
        ("src,dst,time,value\n1,2,3,4\n1,2,3,much\n", "row 3: value 'much' is no finite number"),
        ("src,dst,time,value\n1,2,3,nan\n", "row 2: value nan is no finite number"),
        ("1 2 3\n1 2 x\n", "row 2: time 'x' is no integer"),
        ("1 2\n", "row 1: 2 numbers and no header"),
        ("1 2 3 4 5\n", "row 1: 5 numbers and no header"),
        ("", "no column src"),
        ("src,dst,time\n1,2,3\n" + '"' + "\n", "a quote opens and never closes"),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(hw.HeadwayError) as error:
        hw.DTCSR.from_events(write(tmp_path, text))
    assert words in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "events.csv"))
    assert "\n" not in str(error.value)


def test_wrong_parquet(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    for table, words in (
        ({"src": [1, None], "dst": [1, 2], "time": [1, 2]}, "row 2: src is missing"),
        ({"src": [1.5], "dst": [1], "time": [1]}, "column src is double; ids of nodes are integers or text"),
        ({"src": [1], "dst": [1], "time": [True]}, "column time is bool"),
        ({"src": [1], "dst": [1], "time": [1], "value": [[1]]}, "column value is list"),
        ({"src": [1], "dst": ["a"], "time": [1]}, "some columns are text, others integers"),
    ):
        pq.write_table(pa.table(table), path)
        with pytest.raises(hw.HeadwayError, match=words):
            hw.DTCSR.from_events(path)
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(hw.HeadwayError, match="give a Parquet or CSV file of events"):
        hw.DTCSR.from_events(path)


@pytest.mark.parametrize(
    ("events", "options", "words"),
    [
        (([0], [5], [1]), {"nodes": 5}, r"row 0 \(from 0\): dst 5 is not in 0\.\.4"),
        (([-1], [0], [1]), {"nodes": 5}, r"src -1 is not in 0\.\.4"),
        (([0], [5], [1]), {"nodes": [0, 4]}, "dst 5 is none of the nodes"),
        (([0], [1], [1]), {"nodes": [0, 1, 1]}, "missing or repeated"),
        (([0], [1], [1]), {"nodes": ["a"]}, "some columns are text"),
        (([0, 1], [1], [1]), {}, "columns of different lengths"),
        (([0], [1]), {}, r"2 arrays; give \(src, dst, time"),
        (([[0]], [1], [1]), {}, "column src is list<item: int64>; ids of nodes are integers or text"),
        ((np.zeros((1, 1), int), [1], [1]), {}, "src: only handle 1-dimensional arrays; give one column"),
        (([0], [1], [1]), {"nodes": [0.5]}, "column nodes is double"),
        (([0], [1], [0.5]), {}, "time 0.5 is no integer"),
        (([0], [1], [None]), {}, "time"),
        (([0], [1], [1], [float("inf")]), {}, "is no finite number"),
        (7, {}, "give a file, a frame"),
        ({"src": [1], "dst": [1], "time": [1], "op": ["?"]}, {"op": "op"}, "neither an insertion"),
        ({"src": [1], "dst": [1]}, {}, "no column time"),
        (([2**63], [-1], [1]), {}, "one is above 2"),
        ("no/such/file", {}, "No such file"),
    ],
)
def test_wrong_events(events, options: dict, words: str) -> None:
    if isinstance(events, tuple) and events[0] == [2**63]:
        events = (np.array(events[0], np.uint64), *events[1:])
    with pytest.raises(hw.HeadwayError, match=words) as error:
        hw.DTCSR.from_events(events, **options)
    assert "\n" not in str(error.value)
