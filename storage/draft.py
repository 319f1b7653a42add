"""The writing side of bundles: made beside their place, fsynced, and moved there in one step."""

import contextlib
import errno
import hashlib
import io
import json
import mmap
import os
import stat
import threading
from collections.abc import Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .bundle import KINDS, LAYOUT, MANIFEST, NAME, THREADS, still
from .errors import HeadwayError
from .folder import replacing

# "bundle" sorts before every other key, so even a manifest cut short is known as ours.
OURS = b'{\n "bundle": "headway '
CHUNK = 1 << 22  # bytes hashed and then written while still in cache; a stop is noticed between two chunks


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
        if found is None or not still(target, found):  # another writer is just replacing it
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
