"""Where a feed's files come from: a zip or a folder."""

from __future__ import annotations

import hashlib
import io
import struct
import zipfile
import zlib
from copy import copy
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, cast

from isal import isal_zlib

from ...storage.errors import HeadwayError

TABLES = (
    "agency.txt",
    "stops.txt",
    "trips.txt",
    "stop_times.txt",
    "calendar.txt",
    "calendar_dates.txt",
    "frequencies.txt",
    "transfers.txt",
)
REQUIRED = ("stops.txt", "trips.txt", "stop_times.txt")

# What `zipfile` raises for damaged archives and methods that it lacks.
UNREADABLE = (zipfile.BadZipFile, OSError, NotImplementedError, ValueError, struct.error)

# The largest national feeds unpack to some 10 GB at about 12:1; deflate can reach 1000:1.
LARGEST = 64 << 30
LARGEST_RATIO = 250
RATIO_MATTERS_FROM = 1 << 30


PACKED = 1 << 18  # bytes inflated at a time


class Inflated(io.RawIOBase):
    """A deflated member of a zip, in a third less time than `zipfile` takes: isal inflates and checks."""

    def __init__(self, packed: IO[bytes], name: str, size: int, crc: int) -> None:
        self._packed, self._name, self._left, self._crc = packed, name, size, crc
        self._inflate = isal_zlib.decompressobj(-zlib.MAX_WBITS)
        self._rest = b""
        self._running = 0

    def read(self, size: int = -1) -> bytes:
        """So many bytes; less at the end only, and no more in all than the zip says. Raises what is in
        `blocks.DAMAGED`."""
        parts: list[bytes] = []
        left = min(size, self._left) if size >= 0 else self._left
        self._left -= left
        while left and not self._inflate.eof:
            if len(self._rest) < PACKED:
                self._rest += self._packed.read(PACKED)
            parts.append(self._inflate.decompress(self._rest, left))
            if not (parts[-1] or self._rest or self._inflate.eof):
                raise EOFError("its end is missing")
            self._rest = self._inflate.unconsumed_tail
            self._running = isal_zlib.crc32(parts[-1], self._running)
            left -= len(parts[-1])
        if (self._inflate.eof or not self._left) and self._running != self._crc:
            raise zipfile.BadZipFile(f"Bad CRC-32 for file {self._name!r}")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        self._packed.close()
        super().close()


def _inflated(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> BinaryIO:
    """A member, whose deflated bytes `zipfile` gives as if they were stored."""
    stored = copy(info)
    stored.compress_type, stored.file_size = zipfile.ZIP_STORED, info.compress_size
    del stored.CRC  # that of what is inflated
    return cast(BinaryIO, Inflated(archive.open(stored), info.filename, info.file_size, info.CRC))


@dataclass(frozen=True)
class Source:
    """The tables of one feed: `name` (file or folder name without `.zip`) and table -> member or path."""

    path: Path
    name: str
    tables: dict[str, str]

    def __contains__(self, table: str) -> bool:
        return table in self.tables

    def open(self, table: str) -> BinaryIO:
        """A binary stream of one table, decompressed while it is read. Raises `HeadwayError` where it can't be."""
        try:
            if self.path.is_dir():
                return Path(self.tables[table]).open("rb")
            # One archive a stream: each reader has its own place in the file, which stays open with the stream.
            with zipfile.ZipFile(self.path) as archive:
                info = archive.getinfo(self.tables[table])
                if info.compress_type == zipfile.ZIP_DEFLATED:
                    return _inflated(archive, info)
                return cast(BinaryIO, archive.open(info))
        except (*UNREADABLE, RuntimeError) as error:
            cause = getattr(error, "strerror", None) or error
            raise HeadwayError(f"{self.name}/{table}: not readable ({cause}); mend or fetch the feed again") from None

    def digest(self) -> str:
        """SHA-256 of the zip, or of the folder's tables in order of their names."""
        files = [self.path] if self.path.is_file() else [Path(p) for _, p in sorted(self.tables.items())]
        total = hashlib.sha256()
        for file in files:
            with file.open("rb") as stream:
                total.update(hashlib.file_digest(stream, "sha256").digest())
        return total.hexdigest()


def open_source(path: Path) -> Source:
    """Find a feed's tables; refuse what is no feed or no safe zip.

    Raises `HeadwayError` for a missing path, a damaged, encrypted or oversized zip, member names that leave
    the archive, and a feed without its required tables.
    """
    name = path.name.removesuffix(".zip")
    if path.is_dir():
        files = [file for depth in ("*.txt", "*/*.txt") for file in path.glob(depth)]
        found = _shallowest({file.relative_to(path).as_posix(): str(file) for file in files}, path)
    elif path.is_file():
        found = _shallowest(_members(path), path)
    else:
        raise HeadwayError(f"{path}: no such file or folder")
    missing = [table for table in REQUIRED if table not in found]
    if missing:
        raise HeadwayError(f"{path}: no {' and no '.join(missing)} beside stop_times.txt: not a GTFS feed")
    if "calendar.txt" not in found and "calendar_dates.txt" not in found:
        raise HeadwayError(f"{path}: neither calendar.txt nor calendar_dates.txt: no day has service")
    return Source(path, name, found)


def _members(path: Path) -> dict[str, str]:
    """Member names of a zip, by themselves, after the checks that make reading it safe."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
    except UNREADABLE as error:
        raise HeadwayError(f"{path}: not a readable zip ({error}); unpack it and give the folder") from None
    for info in infos:
        parts = PurePosixPath(info.filename.replace("\\", "/")).parts
        if ".." in parts or info.filename.startswith(("/", "\\")):
            raise HeadwayError(f"{path}: refused: its member {info.filename!r} points outside the archive")
    needed = [info for info in infos if PurePosixPath(info.filename).name in TABLES]
    for info in needed:
        if info.flag_bits & 1:
            raise HeadwayError(f"{path}: {info.filename} is encrypted; unpack it and give the folder")
    unpacked = sum(info.file_size for info in needed)
    packed = sum(info.compress_size for info in needed)
    if unpacked > LARGEST or (unpacked > RATIO_MATTERS_FROM and unpacked > LARGEST_RATIO * packed):
        raise HeadwayError(
            f"{path}: refused: it would unpack to {unpacked / 1e9:,.0f} GB from {packed / 1e6:,.1f} MB; "
            "if that is right, unpack it and give the folder"
        )
    return {info.filename: info.filename for info in infos}


def _shallowest(files: dict[str, str], path: Path) -> dict[str, str]:
    """Tables of the shallowest folder that holds `stop_times.txt`; macOS's droppings are no folder."""
    homes = [
        PurePosixPath(name).parent
        for name in files
        if PurePosixPath(name).name == "stop_times.txt" and "__MACOSX" not in PurePosixPath(name).parts
    ]
    if not homes:
        raise HeadwayError(f"{path}: no stop_times.txt in it: not a GTFS feed")
    home = min(homes, key=lambda folder: (len(folder.parts), str(folder)))
    return {table: files[str(home / table)] for table in TABLES if str(home / table) in files}
