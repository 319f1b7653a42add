"""A bundle: a folder with one `.npy` per array, tables as Parquet, and a `manifest.json`.

    bundle.write("city.store", kind="timetable", version=1, arrays={...}, tables={...}, meta={...})
    store = bundle.open("city.store", "timetable", 1)
    store.array("departure"), store.table("stops"), store.meta

A bundle is whole or absent: it is written beside its place, fsynced, and moved there in one step.
Same input, same bytes: the manifest holds no times, hosts or worker counts. POSIX only (flock, openat).
"""

import contextlib
import errno
import hashlib
import io
import json
import math
import mmap
import os
import re
import stat
import threading
from collections.abc import Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .errors import HeadwayError
from .folder import replacing

MANIFEST = "manifest.json"
LAYOUT = "headway 1"  # of the bundle itself; what it holds has a kind and a version of its own
# "bundle" sorts before every other key, so even a manifest cut short is known as ours.
OURS = b'{\n "bundle": "headway '
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.(npy|parquet)")
KINDS = "biufcSUmM"  # dtypes of fixed width that are their own bytes: no objects, no pickles
CHUNK = 1 << 22  # bytes hashed and then written while still in cache; a stop is noticed between two chunks
THREADS = 4  # hashing and writing release the GIL


def check_output(path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Raises HeadwayError where `write` to `path` would be refused; cheap, for before an expensive build.

    Refused: a parent folder that is missing or not writable; an output that exists, unless `overwrite` is set
    and it is a bundle that holds nothing but its own files.
    """
    target = Path(os.path.realpath(path))
    way_out = "it is not replaced: name another output, or remove it yourself"
    found = None
    try:
        if not target.parent.is_dir():
            raise HeadwayError(f"{path}: the folder {target.parent} does not exist; create it first")
        if not os.access(target.parent, os.W_OK | os.X_OK):
            raise HeadwayError(f"{path}: the folder {target.parent} is not writable; name another output")
        if not os.path.lexists(target):
            return
        found = target.lstat()
        if not overwrite:
            raise HeadwayError(f"{path} exists; name another output, or replace it with --overwrite")
        if not stat.S_ISDIR(found.st_mode):
            raise HeadwayError(f"{path} is a file, not a store; {way_out}")
        with (target / MANIFEST).open("rb") as file:
            ours = file.read(len(OURS)) == OURS
        names = sorted(entry.name for entry in target.iterdir())
    except FileNotFoundError:
        if found is None or not _still(target, found):  # another writer is just replacing it
            return check_output(path, overwrite)
        ours, names = False, []
    except OSError as error:
        raise HeadwayError(f"{path}: {error.strerror}; name another output") from error
    if not ours:
        raise HeadwayError(f"{path} is not a store (it has no {MANIFEST} of Headway); {way_out}")
    if strangers := [name for name in names if name != MANIFEST and not NAME.fullmatch(name)]:
        raise HeadwayError(f"{path} also holds {strangers[0]!r}, which is no part of a store; {way_out}")


def write(
    path: str | os.PathLike[str],
    *,
    kind: str,
    version: int,
    arrays: Mapping[str, np.ndarray],
    tables: Mapping[str, pa.Table],
    meta: dict[str, Any],
    overwrite: bool = False,
) -> None:
    """Writes a bundle: afterwards `path` holds all of it, or what it held before.

    arrays: any shape; booleans, numbers, fixed-width text, times. They come back in C order.
    tables: rows in the order given; how a table is cut into chunks does not show in the file.
    meta: anything JSON can hold; a text `rebuild` is the command line shown where the bundle cannot be read.
    Left-overs of killed writers of the same output are removed, those of live ones never.
    Raises HeadwayError (see `check_output`; disk full; other trouble with the disk), TypeError or ValueError
    for a name, dtype or meta that cannot be stored.
    """
    _check_meta(meta)  # fails here rather than after the work
    with draft(path, overwrite) as made:
        made.write(kind=kind, version=version, arrays=arrays, tables=tables, meta=meta)


class Draft:
    """A bundle that is not written yet (see `draft`), in a folder that nobody else sees."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bytes = 0
        self.written = False
        self._made: dict[str, np.ndarray] = {}

    def array(self, name: str, size: int, kind: type) -> np.ndarray:
        """An array of this dtype, to be filled, whose memory is a file of the bundle. Raises OSError."""
        dtype = np.dtype(kind)
        header = _header(dtype, (size,))
        file = self.folder / f"{name}.npy"
        file.unlink(missing_ok=True)
        with file.open("x+b") as out:
            out.write(header)
            out.flush()
            whole = len(header) + size * dtype.itemsize
            self.bytes += whole
            if hasattr(os, "posix_fallocate"):  # a full disk is an error now; later it would end the process
                os.posix_fallocate(out.fileno(), 0, whole)
            else:
                out.truncate(whole)
            data = mmap.mmap(out.fileno(), whole)
        self._made[name] = np.ndarray((size,), dtype, buffer=data, offset=len(header))
        return self._made[name]

    def write(
        self,
        *,
        kind: str,
        version: int,
        arrays: Mapping[str, np.ndarray],
        tables: Mapping[str, pa.Table],
        meta: dict[str, Any],
    ) -> None:
        """Writes what is not there yet: see `write`. Arrays that `array` made must not change any more."""
        _check_meta(meta)
        parts: dict[str, tuple[bytes, np.ndarray | pa.Buffer]] = {}
        files: dict[str, dict[str, Any]] = {}
        for name, array in arrays.items():
            if array.dtype.kind not in KINDS:
                raise TypeError(f"array {name!r}: dtype {array.dtype} cannot be stored")
            parts[f"{name}.npy"] = _header(array.dtype, array.shape), array
            files[f"{name}.npy"] = {"dtype": array.dtype.str, "shape": list(array.shape)}
        for name, table in tables.items():
            parts[f"{name}.parquet"] = b"", _parquet(table)
            files[f"{name}.parquet"] = {}
        if bad := [name for name in parts if not NAME.fullmatch(name)]:
            raise ValueError(f"{bad[0]!r}: names are letters, digits and _.-")
        if len({name.lower() for name in parts}) < len(parts):
            raise ValueError("two names differ only in case, which some file systems do not keep apart")
        for name, (header, data) in parts.items():
            files[name]["bytes"] = len(header) + (data.nbytes if isinstance(data, np.ndarray) else data.size)
        self.bytes = sum(file["bytes"] for file in files.values())
        there = {f"{name}.npy" for name, array in self._made.items() if arrays.get(name) is array}
        for name in self._made.keys() - {name.removesuffix(".npy") for name in there}:
            (self.folder / f"{name}.npy").unlink()
        for name, digest in _write_parts(self.folder, parts, there).items():
            files[name]["sha256"] = digest
        head = {"bundle": LAYOUT, "kind": kind, "version": version, "meta": meta, "files": files}
        manifest = json.dumps(head, sort_keys=True, allow_nan=False, indent=1) + "\n"
        _write_part(self.folder / MANIFEST, b"", manifest.encode(), False, threading.Event())
        self.written = True


@contextlib.contextmanager
def draft(path: str | os.PathLike[str], overwrite: bool = False) -> Iterator[Draft]:
    """A bundle to be filled and written in the block; at its end it takes its place, as `write` says."""
    check_output(path, overwrite)
    made = None
    try:
        with replacing(Path(os.path.realpath(path)), lambda: check_output(path, overwrite), overwrite) as folder:
            made = Draft(folder)
            yield made
            if not made.written:
                raise RuntimeError(f"{path}: the draft was not written")
    except OSError as error:
        cause = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            way_out = "make room, or name an output on another disk"
        else:
            way_out = "check the disk and its permissions, or name another output"
        needed = made.bytes if made else 0
        raise HeadwayError(f"{path}: {cause}; {needed:,} bytes were to be written: {way_out}") from error


def _check_meta(meta: dict[str, Any]) -> None:
    json.dumps(meta, sort_keys=True, allow_nan=False)


def _header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    header = io.BytesIO()
    layout = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, layout)
    return header.getvalue()


def _parquet(table: pa.Table) -> pa.Buffer:
    # One chunk, and so one dictionary, a column: how many workers made a table must not show in the file.
    sink = pa.BufferOutputStream()
    pq.write_table(table.combine_chunks(), sink, compression="zstd", row_group_size=1 << 20, version="2.6")
    return sink.getvalue()


def _write_part(file: Path, header: bytes, data: Any, there: bool, stop: threading.Event) -> str:
    """Writes header and data unless they are there, flushed to the disk; returns the SHA-256 of both."""
    if isinstance(data, np.ndarray):
        # A copy only where the array is not in C order; bytes, because memoryview knows no datetime64.
        flat = np.asarray(data, order="C").reshape(-1)
        data = flat.view(np.uint8) if flat.nbytes else b""
    digest = hashlib.sha256()
    with file.open("r+b" if there else "xb", buffering=0) as out:
        for whole in (memoryview(header), memoryview(data)):
            for start in range(0, whole.nbytes, CHUNK):
                if stop.is_set():
                    raise InterruptedError(f"{file}: stopped")
                chunk = whole[start : start + CHUNK]
                digest.update(chunk)
                while chunk and not there:
                    chunk = chunk[out.write(chunk) :]
        os.fsync(out.fileno())
    return digest.hexdigest()


def _write_parts(folder: Path, parts: Mapping[str, tuple[bytes, Any]], there: Set[str]) -> dict[str, str]:
    """The digest of each file; those that are `there` are only hashed and flushed."""
    stop = threading.Event()
    with ThreadPoolExecutor(THREADS) as pool:
        jobs = {
            pool.submit(_write_part, folder / name, *part, name in there, stop): name for name, part in parts.items()
        }
        try:
            return {jobs[job]: job.result() for job in as_completed(jobs)}
        except BaseException:  # Ctrl-C too: the others stop at their next chunk
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


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
    The files must not be changed in place while a bundle is open (`write` never does that).
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
            if _still(path, os.fstat(fd)):
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


def _still(path: Path, found: os.stat_result) -> bool:
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
