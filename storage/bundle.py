"""A bundle: a folder with one `.npy` per array, tables as Parquet, and a `manifest.json`.

    draft.write("city.store", kind="timetable", version=1, arrays={...}, tables={...}, meta={...})
    store = bundle.open("city.store", "timetable", 1)
    store.array("departure"), store.table("stops"), store.meta

A bundle is whole or absent (`draft.py`). Same input, same bytes: the manifest holds no times, hosts or worker counts.
POSIX only (flock, openat).
"""

import hashlib
import io
import json
import math
import mmap
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .errors import HeadwayError

MANIFEST = "manifest.json"
LAYOUT = "headway 1"  # of the bundle itself; what it holds has a kind and a version of its own
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.(npy|parquet)")
KINDS = "biufcSUmM"  # dtypes of fixed width that are their own bytes: no objects, no pickles
THREADS = 4  # hashing and writing release the GIL


class Bundle:
    """An open bundle (see `open`). It stays readable, and the same, when another is written in its place."""

    def __init__(self, path: Path, manifest: dict[str, Any], maps: dict[str, mmap.mmap]) -> None:
        self.path = path
        self.meta: dict[str, Any] = manifest["meta"]
        self._files: dict[str, dict[str, Any]] = manifest["files"]
        self._maps = maps
        self._arrays = {name: self._view(name) for name in maps if name.endswith(".npy")}

    def array(self, name: str) -> np.ndarray:
        """The array as written: same dtype and shape, C order, read-only, memory-mapped.

        Raises HeadwayError where the bundle holds none of that name.
        """
        if f"{name}.npy" not in self._arrays:
            raise self._error(f"{name}.npy", "no such array in the manifest")
        return self._arrays[f"{name}.npy"]

    def table(self, name: str) -> pa.Table:
        """The table as written, read anew by each call and checked against its checksum.

        Raises HeadwayError where it is damaged, or the bundle holds none of that name.
        """
        file = f"{name}.parquet"
        if file not in self._maps:
            raise self._error(file, "no such table in the manifest")
        self._check(file)  # a table is read whole anyway, and a damaged one may decode into anything
        try:
            with pq.ParquetFile(pa.BufferReader(pa.py_buffer(self._maps[file]))) as parquet:
                # No threads: one that lets go of the map while Python ends would abort the process.
                return parquet.read(use_threads=False)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._error(file, "not a Parquet file that this pyarrow reads") from error

    def verify(self) -> None:
        """Compares every checksum; raises HeadwayError with the name of the first file that differs."""
        with ThreadPoolExecutor(THREADS) as pool:
            for _ in pool.map(self._check, sorted(self._files)):
                pass

    def sizes(self) -> dict[str, int]:
        """Bytes per file (`NAME.npy`, `NAME.parquet`), the manifest left out."""
        return {name: self._files[name]["bytes"] for name in sorted(self._files)}

    def _check(self, name: str) -> None:
        if hashlib.sha256(self._maps[name]).hexdigest() != self._files[name]["sha256"]:
            raise self._error(name, "damaged, its checksum is not the manifest's")

    def _view(self, name: str) -> np.ndarray:
        data, spec = self._maps[name], self._files[name]
        file = io.BytesIO(data[:65_536])
        try:
            magic = np.lib.format.read_magic(file)
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        except Exception as error:  # NumPy parses it as Python: a damaged one raises almost anything
            raise self._error(name, "damaged, its header cannot be read") from error
        if magic != (1, 0):
            raise self._error(name, "damaged, its header is not of .npy version 1.0")
        if fortran or dtype.kind not in KINDS or [dtype.str, list(shape)] != [spec["dtype"], spec["shape"]]:
            wrong = f"{dtype.str} {list(shape)}, not the manifest's {spec['dtype']} {spec['shape']}"
            raise self._error(name, wrong)
        if file.tell() + math.prod(shape) * dtype.itemsize != len(data):
            raise self._error(name, "damaged, its length does not fit its shape")
        return np.ndarray(shape, dtype, buffer=data, offset=file.tell())

    def _error(self, name: str, cause: str) -> HeadwayError:
        return HeadwayError(f"{self.path / name}: {cause}; {_way_out(self.meta)}")


def open(path: str | os.PathLike[str], kind: str, version: int) -> Bundle:
    """Opens a bundle of this kind and version. Its files are memory-mapped and their sizes checked.

    Raises HeadwayError: nothing there, a file, no manifest or a damaged one, another kind or version, a file
    that is missing or of another size, an array whose header is not the manifest's.
    The files must not be changed in place while a bundle is open (`draft.write` never does that).
    """
    path = Path(path)
    while True:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            raise HeadwayError(f"{path}: no such store; check the path, or build it first") from None
        except NotADirectoryError:
            raise HeadwayError(f"{path} is a file, not a store (a folder with {MANIFEST})") from None
        except OSError as error:
            raise HeadwayError(f"{path}: {error.strerror}; check the path and its permissions") from error
        try:
            return _open_at(fd, path, kind, version)
        except HeadwayError:
            # Replaced while its files were being opened? Then the new one is whole.
            if still(path, os.fstat(fd)):
                raise
        finally:
            os.close(fd)


def kind(path: str | os.PathLike[str]) -> str:
    """What a bundle says that it holds, before it is opened; empty where it doesn't say. Never raises."""
    try:
        manifest = json.loads((Path(path) / MANIFEST).read_bytes())
        return str(manifest["kind"])
    except (OSError, ValueError, RecursionError, TypeError, KeyError):
        return ""


def listed(path: Path, kind: str, version: int) -> dict[str, int]:
    """Bytes of each file that the manifest in a folder names, whether they are there or not. Raises as `open`."""
    manifest = _checked((path / MANIFEST).read_bytes(), path, kind, version)
    return {name: spec["bytes"] for name, spec in manifest["files"].items()}


def still(path: Path, found: os.stat_result) -> bool:
    """Whether it is there that a file or folder was found."""
    try:
        return os.path.samestat(path.stat(), found)
    except OSError:
        return False


def _open_at(folder: int, path: Path, kind: str, version: int) -> Bundle:
    try:
        with os.fdopen(os.open(MANIFEST, os.O_RDONLY, dir_fd=folder), "rb") as file:
            text = file.read()
    except FileNotFoundError:
        way_out = "check the path, or build it again"
        raise HeadwayError(f"{path}: no {MANIFEST}: not a store, or an unfinished one; {way_out}") from None
    except OSError as error:
        raise HeadwayError(f"{path / MANIFEST}: {error.strerror}; check its permissions") from error
    manifest = _checked(text, path, kind, version)
    maps = {}
    for name, spec in manifest["files"].items():
        way_out = _way_out(manifest["meta"])
        try:
            fd = os.open(name, os.O_RDONLY, dir_fd=folder)
            try:
                if (size := os.fstat(fd).st_size) != spec["bytes"]:
                    wrong = f"{size:,} bytes where the manifest says {spec['bytes']:,}"
                    raise HeadwayError(f"{path / name}: {wrong}; {way_out}")
                maps[name] = mmap.mmap(fd, size, access=mmap.ACCESS_READ)
            finally:
                os.close(fd)
        except FileNotFoundError:
            raise HeadwayError(f"{path / name}: missing; {way_out}") from None
        except OSError as error:
            raise HeadwayError(f"{path / name}: {error.strerror}; check its permissions") from error
    return Bundle(path, manifest, maps)


def _checked(text: bytes, path: Path, kind: str, version: int) -> dict[str, Any]:
    """The manifest, every field of which has its type, of this kind and version."""
    file = path / MANIFEST
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError):
        raise HeadwayError(f"{file}: damaged, it is not JSON; build the store again") from None
    if not isinstance(manifest, dict) or "bundle" not in manifest:
        raise HeadwayError(f"{file}: not a manifest of Headway; check the path")
    for field, want in (("bundle", str), ("kind", str), ("version", int), ("meta", dict), ("files", dict)):
        if type(manifest.get(field)) is not want:
            raise HeadwayError(f"{file}: damaged, field {field!r} is missing or wrong; build the store again")
    way_out = _way_out(manifest["meta"])
    if manifest["kind"] != kind:
        raise HeadwayError(f"{path} holds a {manifest['kind']!r}, not a {kind!r}; check the path")
    if manifest["version"] != version or manifest["bundle"] != LAYOUT:
        was, now = f"{manifest['version']} ({manifest['bundle']})", f"{version} ({LAYOUT})"
        raise HeadwayError(f"{path}: a {kind} of version {was}, this program reads version {now}; {way_out}")
    for name, spec in manifest["files"].items():
        if not NAME.fullmatch(name):
            raise HeadwayError(f"{file}: {name!r} is not a name of a file in a store; {way_out}")
        if not _sound(spec, name.endswith(".npy")):
            raise HeadwayError(f"{file}: damaged, the entry of {name} is wrong; {way_out}")
    return manifest


def _sound(spec: Any, is_array: bool) -> bool:
    """Whether an entry has all its fields, of their types; dtypes are compared with the headers later."""

    def counts(values: Any, least: int) -> bool:
        return isinstance(values, list) and all(type(value) is int and value >= least for value in values)

    if not isinstance(spec, dict) or not counts([spec.get("bytes")], 1) or type(spec.get("sha256")) is not str:
        return False
    return not is_array or (type(spec.get("dtype")) is str and counts(spec.get("shape"), 0))


def _way_out(meta: dict[str, Any]) -> str:
    command = meta.get("rebuild")
    if isinstance(command, str) and command.strip():
        return f"rebuild it: {' '.join(command.split())}"
    return "build it again"
