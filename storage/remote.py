"""Files and bundles at URLs, `s3://bucket/name` or what else fsspec knows: brought to the local disk, and put there."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import bundle
from .errors import HeadwayError
from .folder import replacing

EXTRAS = {"s3": "s3", "gs": "gcs", "gcs": "gcs"}
NO_FOLDER = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)


def is_url(source: str | Path) -> bool:
    """Whether this names something elsewhere."""
    return "://" in str(source)


@contextmanager
def _opened(url: str) -> Iterator[tuple[Any, str]]:
    """A file system and the path in it. What goes wrong in the block is a `HeadwayError` that names the URL."""
    import fsspec  # takes a while, and most commands name no URL

    scheme = url.partition("://")[0]
    try:
        files, path = fsspec.core.url_to_fs(url)
        files.invalidate_cache()
        yield files, path
    except HeadwayError:
        raise
    except ImportError:
        extra = EXTRAS.get(scheme)
        way_out = f"pip install headway[{extra}]" if extra else "install what fsspec names for it"
        raise HeadwayError(f"{url}: nothing here reads {scheme}://; {way_out}") from None
    except FileNotFoundError:
        raise HeadwayError(f"{url}: nothing is there; check the address") from None
    except Exception as error:  # each kind of storage has its own for credentials, buckets and connections
        cause = " ".join(str(getattr(error, "strerror", None) or error).split())
        way_out = "check the address, your credentials and the network"
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            way_out = "make room on this machine, or set TMPDIR and XDG_CACHE_HOME to another disk"
        elif isinstance(error, OSError) and isinstance(error.filename, str | Path) and error.errno in NO_FOLDER:
            cause = f"{error.filename}: {cause}"
            way_out = "set TMPDIR and XDG_CACHE_HOME to folders that can be written to"
        raise HeadwayError(f"{url}: {cause}; {way_out}") from None


@contextmanager
def brought(source: str | Path) -> Iterator[Path]:
    """A file of this machine: `source` itself, or, for a URL, a copy that lasts as long as the block.

    Raises `HeadwayError` where there is none; those of the block name the URL instead of the copy.
    """
    if not is_url(source):
        yield Path(source)
        return
    with tempfile.TemporaryDirectory(prefix="headway-") as folder:
        copy = Path(folder) / str(source).rpartition("/")[2]
        with _opened(str(source)) as (files, path):
            files.get_file(path, str(copy))
        with _named(copy, str(source)):
            yield copy


def brought_bundle(source: str | Path, kind: str, version: int, say: Callable[[str], None] = lambda text: None) -> Path:
    """A bundle of this machine: `source` itself, or, for a URL, a copy that stays for whoever asks next.

    Copies are in `$XDG_CACHE_HOME/headway/stores` (`~/.cache` without it) under the SHA-256 of their manifests; they
    appear there whole and with every checksum compared, or not at all, brought by one process while others wait.
    Raises `HeadwayError` for what is no whole bundle of this kind and version.
    """
    if not is_url(source):
        return Path(source)
    url = str(source).rstrip("/")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headway" / "stores"
    with _opened(url) as (files, path):
        try:
            manifest = files.cat_file(f"{path}/{bundle.MANIFEST}")
        except FileNotFoundError:
            raise HeadwayError(f"{url}: no {bundle.MANIFEST} there: not a store; check the address") from None
        copy = cache / hashlib.sha256(manifest).hexdigest()
        cache.mkdir(parents=True, exist_ok=True)
        with _alone(cache):
            if not copy.exists():
                with replacing(copy, lambda: None, overwrite=False) as folder, _named(folder, url):
                    (folder / bundle.MANIFEST).write_bytes(manifest)
                    sizes = bundle.listed(folder, kind, version)
                    say(f"bring {url}, {sum(sizes.values()) / 2**20:,.0f} MiB")
                    files.get([f"{path}/{name}" for name in sizes], [str(folder / name) for name in sizes])
                    bundle.open(folder, kind, version).verify()
                    for name in (*sizes, bundle.MANIFEST):
                        with (folder / name).open("rb") as file:
                            os.fsync(file.fileno())
    return copy


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process is in such a block for this folder."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@contextmanager
def _named(copy: Path, url: str) -> Iterator[None]:
    """Errors of the block name a URL instead of its copy."""
    try:
        yield
    except HeadwayError as error:
        raise HeadwayError(str(error).replace(str(copy), url)) from None


def names(url: str) -> list[str]:
    """What lies directly under a URL, sorted; nothing where there is nothing. Raises `HeadwayError`."""
    with _opened(url) as (files, path):
        try:
            found = files.ls(path, detail=False)
        except FileNotFoundError:
            return []
        here = path.rstrip("/") + "/"
        return sorted(name.removeprefix(here) for name in found if name.rstrip("/") != path.rstrip("/"))


def read(url: str) -> bytes:
    """A whole object. Raises `HeadwayError`."""
    with _opened(url) as (files, path):
        return files.cat_file(path)


def put(file: Path, url: str) -> None:
    """An object of a local file's bytes, which appears whole. Raises `HeadwayError`."""
    with _opened(url) as (files, path):
        files.put_file(str(file), path)


def remove(urls: Iterable[str]) -> None:
    """Objects, in this order. Raises `HeadwayError`."""
    for url in urls:
        with _opened(url) as (files, path):
            files.rm_file(path)
