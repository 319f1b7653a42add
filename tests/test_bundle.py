"""Bundles: round trip, same bytes, damage."""

import hashlib
import json
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from bundles import TABLE, arrays, get, put, refusal, whole
from headway.storage import bundle, draft
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "city.store"
    put(path)
    return path


# --- round trip ---------------------------------------------------------------------------------------------

DTYPES = [
    "?",
    "i1",
    "<u2",
    "<i4",
    ">i4",
    "<u4",
    "<i8",
    "<f2",
    "<f4",
    "<f8",
    "<c8",
    "S3",
    "<U2",
    "<M8[s]",
    "<m8[ms]",
]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_round_trip(tmp_path: Path, data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    array = data.draw(hnp.arrays(dtype, shape))
    table = pa.table({"x": pa.array(data.draw(st.lists(st.none() | st.text(max_size=3), max_size=4)), pa.string())})
    path = tmp_path / "s"
    draft.write(path, kind="k", version=1, arrays={"a": array}, tables={"t": table}, meta={}, overwrite=True)
    back = bundle.open(path, "k", 1)
    back.verify()
    assert back.array("a").dtype.str == array.dtype.str
    assert back.array("a").shape == array.shape
    assert back.array("a").tobytes() == array.tobytes()
    assert back.table("t").equals(table)


def test_layouts_come_back_in_c_order(tmp_path: Path) -> None:
    base = np.arange(24, dtype=np.int32).reshape(4, 6)
    views = {
        "fortran": np.asfortranarray(base),
        "strided": base[::2, ::-1],
        "broadcast": np.broadcast_to(np.int32(7), (3, 5)),
        "scalar": np.array(5),
        "no_width": np.zeros(3, "S0"),
    }
    draft.write(tmp_path / "s", kind="k", version=1, arrays=views, tables={}, meta={})
    back = bundle.open(tmp_path / "s", "k", 1)
    for name, array in views.items():
        np.testing.assert_array_equal(back.array(name), array)
        assert back.array(name).shape == array.shape
        assert back.array(name).flags.c_contiguous
        assert not back.array(name).flags.writeable
        np.testing.assert_array_equal(np.load(tmp_path / "s" / f"{name}.npy"), array)  # an ordinary .npy


def test_arrays_longer_than_a_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft, "CHUNK", 1000)
    array = np.random.default_rng(0).integers(0, 2**31, 12_345, np.int64)
    draft.write(tmp_path / "s", kind="k", version=1, arrays={"a": array}, tables={}, meta={})
    back = bundle.open(tmp_path / "s", "k", 1)
    back.verify()
    np.testing.assert_array_equal(back.array("a"), array)


def test_meta_and_sizes(store: Path) -> None:
    back = get(store)
    assert back.meta == {"fill": 1, "rebuild": "headway build city.zip -o city.store"}
    on_disk = {p.name: p.stat().st_size for p in store.iterdir() if p.name != "manifest.json"}
    assert back.sizes() == on_disk
    assert set(on_disk) == {"departure.npy", "none.npy", "offset.npy", "stops.parquet"}
    refusal(lambda: back.array("nothing"), "nothing.npy", "no such array")
    refusal(lambda: back.table("nothing"), "nothing.parquet", "no such table")


def test_same_input_same_bytes(tmp_path: Path) -> None:
    def content(name: str, **options) -> dict[str, bytes]:
        put(tmp_path / name, **options)
        return {p.name: p.read_bytes() for p in (tmp_path / name).iterdir()}

    first = content("one")
    time.sleep(0.01)
    assert content("two") == first
    # Neither the order of the arguments, nor memory order, nor the chunks that workers made may show.
    turned = dict(reversed(arrays().items()))
    chunked = pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1, 0), TABLE.slice(1)])
    assert chunked.column("id").num_chunks > 1
    assert content("three", arrays=turned, tables={"stops": chunked}) == first
    assert content("four", arrays=arrays(fill=2)) != first

    def coded(*chunks: list[str]) -> pa.Table:
        columns = [pa.array(chunk, pa.string()).dictionary_encode() for chunk in chunks]
        return pa.table({"line": pa.chunked_array(columns)})

    first = content("five", tables={"t": coded(["S1", "S2", "S1", "S3"])})
    assert content("six", tables={"t": coded(["S1"], ["S2", "S1"], ["S3"])}) == first


def test_what_cannot_be_stored(tmp_path: Path) -> None:
    path = tmp_path / "s"
    for bad in (np.array([None]), np.zeros(2, "i4,i4"), np.zeros(2, "V3")):
        with pytest.raises(TypeError, match="cannot be stored"):
            put(path, arrays={"a": bad})
    for name in ("../a", "a/b", "", ".a", "a b"):
        with pytest.raises(ValueError, match="names are"):
            put(path, arrays={name: np.zeros(1)})
    with pytest.raises(ValueError, match="case"):
        put(path, arrays={"ct": np.zeros(1), "CT": np.zeros(1)})
    with pytest.raises(TypeError):
        put(path, meta={"count": np.int64(1)})
    assert list(tmp_path.iterdir()) == []


def test_open_bundle_outlives_its_replacement(store: Path) -> None:
    old = get(store)
    put(store, fill=2, overwrite=True, tables={"stops": TABLE.slice(0, 1)})
    assert old.table("stops").equals(TABLE)
    assert set(old.array("departure").tolist()) == {1}
    old.verify()
    assert whole(store) == 2
    assert get(store).table("stops").num_rows == 1


def test_a_store_written_from_its_own_arrays(store: Path) -> None:
    old = get(store)
    put(store, arrays={name: old.array(name) for name in arrays()}, overwrite=True)
    assert whole(store) == 1


# --- damage -------------------------------------------------------------------------------------------------


def edit(store: Path, change) -> None:
    file = store / "manifest.json"
    manifest = json.loads(file.read_text())
    result = change(manifest)
    file.write_text(json.dumps(manifest if result is None else result))


def test_not_a_store(tmp_path: Path) -> None:
    refusal(lambda: get(tmp_path / "no"), "no such store", str(tmp_path / "no"))
    (tmp_path / "file").write_text("")
    refusal(lambda: get(tmp_path / "file"), "is a file")
    refusal(lambda: get(tmp_path), "no manifest.json", "unfinished")
    (tmp_path / "manifest.json").mkdir()
    refusal(lambda: get(tmp_path), "manifest.json")


def test_manifest_cut_anywhere(store: Path) -> None:
    file = store / "manifest.json"
    text = file.read_bytes()
    for length in range(0, len(text) - 2, 7):
        file.write_bytes(text[:length])
        refusal(lambda: get(store), "manifest.json", "not JSON")
    file.write_bytes(b"[" * 100_000)
    refusal(lambda: get(store), "not JSON")
    file.write_bytes(b"\xff\xfe" + text)
    refusal(lambda: get(store), "not JSON")


def test_other_kind_and_version(store: Path) -> None:
    refusal(lambda: bundle.open(store, "graph", 3), str(store), "'timetable'", "'graph'")
    text = refusal(lambda: bundle.open(store, "timetable", 4), "version 3", "version 4")
    assert text.endswith("rebuild it: headway build city.zip -o city.store")
    edit(store, lambda m: m["meta"].update(rebuild="headway\nbuild   x"))
    assert refusal(lambda: bundle.open(store, "timetable", 4)).endswith("rebuild it: headway build x")
    edit(store, lambda m: m["meta"].update(rebuild=7))
    assert refusal(lambda: bundle.open(store, "timetable", 4)).endswith("build it again")
    edit(store, lambda m: m.update(bundle="headway 2"))
    refusal(lambda: get(store), "headway 2", "headway 1")


@pytest.mark.parametrize("field", ["bundle", "kind", "version", "meta", "files"])
def test_manifest_fields(store: Path, field: str) -> None:
    original = (store / "manifest.json").read_text()
    for value in (None, True, 1.5, [], [1]):
        edit(store, lambda m, value=value: m.update({field: value}))
        refusal(lambda: get(store), "manifest.json", field)
        (store / "manifest.json").write_text(original)
    edit(store, lambda m: m.pop(field) and None)
    refusal(lambda: get(store), "manifest.json")


BAD = [None, True, -1, 1.5, "x", [], {}, 10**30, [10**30], [-1], ["1"], [True]]


@pytest.mark.parametrize("name", ["departure.npy", "none.npy", "stops.parquet"])
@pytest.mark.parametrize("field", ["bytes", "sha256", "dtype", "shape"])
def test_manifest_entries(store: Path, name: str, field: str) -> None:
    original = (store / "manifest.json").read_text()
    if field in json.loads(original)["files"][name]:
        for value in BAD:
            edit(store, lambda m, value=value: m["files"][name].update({field: value}))
            text = refusal(lambda: get(store).verify(), name)
            assert "rebuild it: headway build" in text
            (store / "manifest.json").write_text(original)
        edit(store, lambda m: m["files"][name].pop(field) and None)
        refusal(lambda: get(store), name)
    edit(store, lambda m: m["files"].update({name: 7}))
    refusal(lambda: get(store), name)


@pytest.mark.parametrize("name", ["../a.npy", "/etc/passwd", "a/b.npy", "..", ".a.npy", "a.txt", "a.npy\n", ""])
def test_names_that_lead_elsewhere(store: Path, name: str) -> None:
    edit(store, lambda m: m["files"].update({name: m["files"]["departure.npy"]}))
    refusal(lambda: get(store), "manifest.json", repr(name))


@pytest.mark.parametrize("name", ["departure.npy", "none.npy", "stops.parquet"])
def test_files_missing_or_of_another_size(store: Path, name: str) -> None:
    file = store / name
    data = file.read_bytes()
    for wrong in (data[:-1], data + b"x", b""):
        file.write_bytes(wrong)
        refusal(lambda: get(store), name, f"{len(wrong):,} bytes", f"{len(data):,}", "rebuild it")
    file.unlink()
    refusal(lambda: get(store), name, "missing", "rebuild it")
    file.mkdir()
    refusal(lambda: get(store), name)


@pytest.mark.parametrize("name", ["departure.npy", "stops.parquet"])
def test_flipped_bytes(store: Path, name: str) -> None:
    file = store / name
    data = bytearray(file.read_bytes())
    for at in [*range(0, min(len(data), 200)), len(data) - 5, len(data) - 1]:
        for mask in (1, 255):
            data[at] ^= mask
            file.write_bytes(data)
            if name == "stops.parquet":
                back = get(store)
                refusal(lambda back=back: back.table("stops"), name, "checksum", "rebuild it")
                refusal(back.verify, name, "checksum", "rebuild it")
            else:  # a header may be found damaged by opening it, and never leads to anything else
                refusal(lambda: get(store).verify(), name, "rebuild it")
            data[at] ^= mask
    file.write_bytes(data)
    assert whole(store) == 1


def test_header_is_compared_with_the_manifest(store: Path) -> None:
    edit(store, lambda m: m["files"]["departure.npy"].update(dtype="<f4"))
    refusal(lambda: get(store), "departure.npy", "<i4 [1000]", "<f4 [1000]")
    edit(store, lambda m: m["files"]["departure.npy"].update(dtype="<i4", shape=[500]))
    refusal(lambda: get(store), "departure.npy", "[1000]", "[500]")


def test_no_pickles(store: Path) -> None:
    np.save(store / "departure.npy", np.array([{}], object), allow_pickle=True)
    size = (store / "departure.npy").stat().st_size
    edit(store, lambda m: m["files"]["departure.npy"].update(dtype="|O", shape=[1], bytes=size))
    refusal(lambda: get(store), "departure.npy")


def test_parquet_that_is_none(store: Path) -> None:
    (store / "stops.parquet").write_bytes(b"PAR1 nonsense PAR1")
    digest = hashlib.sha256(b"PAR1 nonsense PAR1").hexdigest()
    edit(store, lambda m: m["files"]["stops.parquet"].update(bytes=18, sha256=digest))
    store_ = get(store)
    store_.verify()
    refusal(lambda: store_.table("stops"), "stops.parquet", "not a Parquet file")
