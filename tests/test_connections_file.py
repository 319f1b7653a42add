"""A text file of connections: what it may hold, what is wrong with it and where, and its arrivals."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from conftest import NEVER, answers, connections_store
from headway.pipeline.build import build_connections
from headway.pipeline.connections_file import read_connections
from headway.pipeline.engines import ALGORITHMS
from headway.pipeline.gtfs.report import Report
from headway.pipeline.settings import load_settings
from headway.storage.errors import HeadwayError
from headway.storage.store import Store
from hypothesis import given, settings
from hypothesis import strategies as st

Row = tuple[int, int, int, int]


def read(folder: Path, text: str | bytes) -> tuple[list[Row], int]:
    """The connections of a file and how many vertices it has."""
    path = folder / "connections.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    raw, timetable = read_connections(path)
    columns = (raw.tail.tolist(), raw.head.tolist(), raw.departure.tolist(), raw.duration.tolist())
    return list(zip(*columns, strict=True)), timetable.vertices


@pytest.mark.parametrize(
    ("text", "connections", "vertices"),
    [
        ("0 1 5 3", [(0, 1, 5, 3)], 2),
        ("0 1 5 3\n2 1 8 0\n", [(0, 1, 5, 3), (2, 1, 8, 0)], 3),
        ("9 2\n0 1 5 3\n2 1 8 0\n", [(0, 1, 5, 3), (2, 1, 8, 0)], 9),
        ("\n# a comment\n\n 4 1 # vertices, connections\n0\t1  5 3 \n\n", [(0, 1, 5, 3)], 4),
        ("0 1 5 3#x\n#\n   # y\n1 0 007 00\n", [(0, 1, 5, 3), (1, 0, 7, 0)], 2),
        ("\ufeff2 1\r\n0 1 5 3\r\n", [(0, 1, 5, 3)], 2),
        ("0 1 5 3\r1 0 6 7", [(0, 1, 5, 3), (1, 0, 6, 7)], 2),
        ('# 1" wide\n2 2\n0 1 5 3 # it\'s "so\n1 0 6 7 # é\n', [(0, 1, 5, 3), (1, 0, 6, 7)], 2),
        (b"# caf\xe9\n0 1 5 3 # \xff\n", [(0, 1, 5, 3)], 2),
        ("0 0 5 3\n0 0 5 3", [(0, 0, 5, 3)] * 2, 1),
        ("0 1 2147483646 0\n", [(0, 1, 2147483646, 0)], 2),
    ],
)
def test_what_a_file_may_hold(tmp_path: Path, text: str | bytes, connections: list[Row], vertices: int) -> None:
    assert read(tmp_path, text) == (connections, vertices)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no connections"),
        ("\n# nothing\n", "no connections"),
        ("3 0\n", "no connections"),
        ("0 1 5\n", "row 1: 3 fields"),
        ("0 1 5 3\n#\n\n0 1 5 3 9\n", "row 4: 5 fields"),
        ("0 1 5 3 9\n0 1 5 3\n", "row 1: 5 fields"),
        ("0 1 5 3\n2 1\n", "row 2: 2 fields"),
        ("3\n0 1 5 3\n", "row 1: 1 fields"),
        ("0,1,5,3\n", "row 1: 1 fields"),
        ("2 1\n0 1 5 x\n", "row 2: 'x' is not"),
        ("0 1 5 3\n0 1 -5 3\n", "row 2: '-5' is not"),
        ("0 1 5 1.5\n", "row 1: '1.5' is not"),
        ("0 1 5 2147483648\n", "row 1: '2147483648' is not"),
        ("0 1 5 3\n0 1 5 nan\n", "row 2: 'nan' is not"),
        ("0 x\n0 1 5 3\n", "row 1: 'x' is not"),
        ("99999999999999999999 1\n0 1 5 3\n", "row 1: '99999999999999999999' is not"),
        ("1 1\n0 1 5 3\n", "vertex 1 is outside 0..0 of row 1"),
        ("2 2\n0 1 5 3\n", "row 1 promises 2 connections, and 1 follow"),
        ("0 1 5 3\n0 1 5 ٣\n", "row 2: '٣' is not"),
    ],
)
def test_errors_name_the_row(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(HeadwayError, match="connections") as error:
        read(tmp_path, text)
    assert message in str(error.value)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="absent: No such file"):
        read_connections(tmp_path / "absent")


@pytest.mark.parametrize("word", ["1.0", "1e3", "+1", "-0", '"1"', "True", "99999999999999999999", "1\x00", "1\xa0"])
def test_what_only_looks_like_an_integer(tmp_path: Path, word: str) -> None:
    """Each is an error that names its row; none is read as a number and none ends in a traceback."""
    with pytest.raises(HeadwayError, match=r"row 2: .* is not an integer"):
        read(tmp_path, f"0 1 5 3\n0 1 5 {word}\n")


def test_arrivals_stay_below_the_sign_of_never(tmp_path: Path) -> None:
    """Labels are 32 bits wide, and the largest one means unreachable."""
    with pytest.raises(HeadwayError, match="row 2: it arrives at second 2147483647 or later"):
        read(tmp_path, "0 1 5 3\n0 1 2147483640 7\n")
    with pytest.raises(HeadwayError, match="row 1: it arrives"):
        read(tmp_path, "0 1 2147483647 0\n")


def test_number_of_clusters_fits_16_bits(algorithm: str) -> None:
    """65,536 clusters of one minute are 45 days and a half; cluster 65,536 would be taken for cluster 0."""
    last = 65536 * 60 - 1
    found = answers(connections_store([(0, 1, 60, 5), (0, 1, last, 5)], 2, minutes=1), [("0", 61)], algorithm)
    assert found == [{"0": 61, "1": last + 5}]
    with pytest.raises(HeadwayError, match="65537 clusters of 1 min"):
        connections_store([(0, 1, 60, 5), (0, 1, last + 1, 5)], 2, minutes=1)


rows = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.integers(0, 5),
        st.one_of(st.integers(0, 30), st.integers(3590, 3610), st.integers(0, 100_000)),
        st.sampled_from([0, 0, 1, 2, 5, 60, 4000]),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=150)
@given(rows, st.data())
def test_arrivals_equal_relaxing_the_rows(connections: list[Row], data: st.DataObject) -> None:
    """Duplicates, loops, zero-second cycles, isolated vertices; comments and blank lines anywhere."""
    connections += data.draw(st.lists(st.sampled_from(connections), max_size=3))
    least = max(max(u, v) for u, v, _, _ in connections) + 1
    vertices = data.draw(st.sampled_from([None, least, least + 2]))
    store = build(connections, vertices, data)
    asked = [(data.draw(st.sampled_from(connections))[0], data.draw(st.integers(0, 40))) for _ in range(2)]
    asked += [(u, max(0, t + d)) for u, _, t, _ in connections[:3] for d in (-1, 0, 1)]
    if vertices:
        asked.append((vertices - 1, 0))
    asked = [(u, second) for u, second in asked if second < store.timetable.horizon]
    expected = [relax(connections, *query) for query in asked]
    for algorithm in ALGORITHMS:
        assert answers(store, [(str(u), second) for u, second in asked], algorithm) == expected


def build(connections: list[Row], vertices: int | None, data: st.DataObject) -> Store:
    between = st.sampled_from(["\n", "\n", "\n", "\n\n", " # x\n", "\n# 1 2 3 4\n", "\r\n"])
    text = "" if vertices is None else f"{vertices} {len(connections)}\n"
    for row in connections:
        text += " ".join(map(str, row)) + data.draw(between)
    changes = {"build.cluster_minutes": ("", data.draw(st.sampled_from([1, 5, 60]))), "threads": ("", 1)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "connections.txt"
        path.write_bytes(text.encode())
        return build_connections(path, load_settings("laptop", (), changes), Report())


def relax(connections: list[Row], origin: int, second: int) -> dict[str, int]:
    """Bellman-Ford: every row, as often as there are rows, until nothing changes."""
    best = {origin: second}
    changed = True
    while changed:
        changed = False
        for u, v, t, lasts in connections:
            if best.get(u, NEVER) <= t and t + lasts < best.get(v, NEVER):
                best[v] = t + lasts
                changed = True
    return {str(v): arrival for v, arrival in best.items()}


def test_zero_second_cycle(algorithm: str) -> None:
    """All within second 10, written against their order; the last arrives after it."""
    connections = [(3, 4, 10, 1), (2, 3, 10, 0), (3, 1, 10, 0), (1, 2, 10, 0), (0, 1, 4, 6), (5, 5, 10, 0)]
    store = connections_store(connections, 7)
    found = answers(store, [("0", 0), ("2", 10), ("2", 11), ("5", 3), ("6", 0)], algorithm)
    assert found == [
        {"0": 0, "1": 10, "2": 10, "3": 10, "4": 11},
        {"2": 10, "3": 10, "1": 10, "4": 11},
        {"2": 11},
        {"5": 3},
        {"6": 0},
    ]


def test_thousands_of_digits(tmp_path: Path) -> None:
    """More than Python reads as one integer: an error with its row; zeros in front are nothing."""
    file = tmp_path / "file"
    file.write_text(f"0 1 60 30\n0 1 {'7' * 5000} 30\n")
    with pytest.raises(HeadwayError, match=f"row 2: '{'7' * 40}' is not an integer"):
        read_connections(file)
    file.write_text(f"{'0' * 5000}2 1\n0 1 60 30\n")
    assert read_connections(file)[1].vertices == 2
