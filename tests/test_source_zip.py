"""Members of zips, inflated by `Source.open`, beside what `zipfile` makes of them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from headway.pipeline.blocks import DAMAGED
from headway.pipeline.gtfs import source
from headway.pipeline.gtfs.reading import scan
from headway.pipeline.gtfs.report import Report
from headway.pipeline.gtfs.source import Source
from headway.storage.errors import HeadwayError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

KEEP = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
texts = st.tuples(st.binary(max_size=60), st.integers(0, 3000)).map(lambda pair: pair[0] * pair[1])
methods = st.sampled_from([zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2])


def zipped(folder: Path, data: bytes, method: int = zipfile.ZIP_DEFLATED) -> Source:
    """A feed of one table."""
    with zipfile.ZipFile(folder / "feed.zip", "w", method) as archive:
        archive.writestr("stops.txt", data)
    return Source(folder / "feed.zip", "feed", {"stops.txt": "stops.txt"})


def pieces(feed: Source, size: int) -> list[bytes]:
    """What is read at a time, without the empty end."""
    with feed.open("stops.txt") as stream:
        return list(iter(lambda: stream.read(size), b""))


@KEEP
@given(data=texts, method=methods, size=st.integers(1, 50_000), packed=st.sampled_from([1, 7, 1000, source.PACKED]))
def test_the_same_bytes_in_full_pieces(tmp_path: Path, data: bytes, method: int, size: int, packed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "PACKED", packed)
        found = pieces(zipped(tmp_path, data, method), max(size, len(data) // 50))
    assert b"".join(found) == data
    assert len({len(piece) for piece in found[:-1]}) <= 1


@KEEP
@given(data=texts.filter(len), place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_damage_never_passes(tmp_path: Path, data: bytes, place: float, flip: int) -> None:
    feed = zipped(tmp_path, data)
    with zipfile.ZipFile(feed.path) as archive:
        info = archive.getinfo("stops.txt")
    whole = bytearray(feed.path.read_bytes())
    whole[info.header_offset + 30 + len(info.filename) + int(place * info.compress_size)] ^= flip
    feed.path.write_bytes(whole)
    try:
        found = b"".join(pieces(feed, 1000))
    except DAMAGED:
        return
    assert found == data  # bits that fill up the last byte


@pytest.mark.parametrize("less", [1, 999])
def test_no_more_than_the_zip_says(tmp_path: Path, less: int) -> None:
    feed = zipped(tmp_path, b"x" * 1000)
    whole = feed.path.read_bytes()
    feed.path.write_bytes(whole.replace((1000).to_bytes(4, "little"), (1000 - less).to_bytes(4, "little")))
    with pytest.raises(zipfile.BadZipFile, match="CRC"):
        pieces(feed, 300)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_a_member_that_ends_with_the_zip(tmp_path: Path, method: int) -> None:
    """Its size in the zip is larger than all that is left of the file."""
    feed = zipped(tmp_path, bytes(range(256)) * 4, method)
    whole = bytearray(feed.path.read_bytes())
    entry = whole.index(b"PK\1\2")
    for place in (20, 24):
        whole[entry + place : entry + place + 4] = (2**31 - 1).to_bytes(4, "little")
    feed.path.write_bytes(whole)
    with pytest.raises(HeadwayError, match=r"^feed/stops.txt: damaged at row 1 or after \([^)]+\); fetch it again$"):
        list(scan(feed, "stops.txt", Report()))
