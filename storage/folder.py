"""A folder that appears whole or not at all, though its writer is killed or two write at once. POSIX only."""

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


@contextlib.contextmanager
def replacing(target: Path, check: Callable[[], None], overwrite: bool) -> Iterator[Path]:
    """Yields an empty folder beside `target`; at the end of the block it takes the place of `target`.

    After an exception in the block it is removed and `target` is untouched. Files must be fsynced by the
    block, folders are here. `check` raises where what lies at `target` must stay; it is called just before
    the switch. What killed writers of this target left is removed first, never what a live one works on.
    Raises OSError.
    """
    _remove_stale(target)
    with _partial(target) as folder:
        yield folder
        sync(folder)
        _switch(folder, target, check, overwrite)
        sync(target.parent)


def _partial_name(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(8)}.partial")


@contextlib.contextmanager
def _partial(target: Path) -> Iterator[Path]:
    """A new folder beside `target`, locked while in use; whatever lies at its name afterwards is removed."""
    folder, fd = _partial_name(target), None
    try:
        while fd is None:  # a cleaning writer may take the folder between mkdir and lock
            folder = _partial_name(target)
            folder.mkdir()
            try:
                fd = locked(folder)
            except OSError:  # a file system without locks: there nobody takes it for stale either
                break
        yield folder
    finally:
        try:
            shutil.rmtree(folder, ignore_errors=True)
        except KeyboardInterrupt:  # again: one Ctrl-C leaves nothing, wherever it falls
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            if fd is not None:
                os.close(fd)


def locked(folder: Path) -> int | None:
    """An open descriptor that holds the folder's lock; None where another holds it or the folder is gone.

    The folder itself is locked, so that no lock file is left in a store or beside it. The lock ends with its
    process, however that ends.
    """
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    keep = False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        keep = os.path.samestat(os.fstat(fd), folder.stat())
    except (BlockingIOError, FileNotFoundError):
        pass
    finally:
        if not keep:
            os.close(fd)
    return fd if keep else None


def _remove_stale(target: Path) -> None:
    stale = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{16}}\.partial")
    for folder in [path for path in target.parent.iterdir() if stale.fullmatch(path.name)]:
        with contextlib.suppress(OSError):  # no locks here, or not ours to touch: left alone
            if (fd := locked(folder)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(fd)


def _switch(new: Path, target: Path, check: Callable[[], None], overwrite: bool) -> None:
    """Puts the finished folder in its place; what was there lies at `new` afterwards."""
    while True:  # another writer may put a folder there, or take one away, between any two steps
        try:
            new.rename(target)
            return
        except OSError as error:
            if error.errno not in TAKEN:
                raise
        check()
        if overwrite:
            try:
                return exchange(new, target)
            except OSError as error:
                if error.errno not in (errno.ENOENT, *TAKEN) or not new.exists():
                    raise


def exchange(new: Path, target: Path) -> None:
    """Two folders change places, where the system can in one step. Raises OSError."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is not None:
        here, exchange = ctypes.c_int(-100), ctypes.c_uint(2)  # AT_FDCWD, RENAME_EXCHANGE
        if renameat2(here, os.fsencode(new), here, os.fsencode(target), exchange) == 0:
            return
        code = ctypes.get_errno()
        if code not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
            raise OSError(code, os.strerror(code), str(target))
    # Not Linux, or a file system that cannot exchange: for a moment nothing lies at `target`.
    aside = _partial_name(target)
    target.rename(aside)
    try:
        new.rename(target)
    except BaseException:
        with contextlib.suppress(OSError):
            aside.rename(target)
        raise
    with contextlib.suppress(FileNotFoundError):  # another writer may have removed it as stale
        aside.rename(new)


def sync(folder: Path) -> None:
    """Flush a folder's names to the disk, where the file system can. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:
        # Some network and FUSE file systems cannot flush a folder, which is no reason to lose a build.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(fd)
