"""The output folder: stores side by side, `current` leading to one of them, one run at a time. POSIX only."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ...storage.errors import HeadwayError
from ...storage.folder import sync
from ..unfinished import check_parent

CURRENT = "current"
LINK = ".current.tmp"
LOCK = ".lock"
STAMP = "%Y%m%dT%H%M%SZ"
STORE = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{12}")
REPORT = re.compile(rf"({STORE.pattern})\.json")
# What a killed run leaves: a store half written (see storage.folder) or half removed, a report half written.
LEFT = re.compile(rf"\.{STORE.pattern}\.([0-9a-f]{{16}}\.partial|removed)|{STORE.pattern}\.json\.tmp")


class Output:
    """A folder of stores named `TIME-KEY`, by UTC time and by what they were built from; see `locked_output`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def current(self) -> str | None:
        """What `current` leads to, as the link says; None without one."""
        try:
            return str((self.path / CURRENT).readlink())
        except OSError:
            return None

    def stores(self) -> list[str]:
        """Names of all stores, the newest first."""
        return sorted((path.name for path in self.path.iterdir() if STORE.fullmatch(path.name)), reverse=True)

    def built_from(self, key: str) -> list[str]:
        """Names of the stores with this key: the current one first, then the newest."""
        found = [name for name in self.stores() if name.endswith(f"-{key}")]
        return sorted(found, key=lambda name: name != self.current())

    def new_name(self, now: datetime, key: str) -> str:
        """A name that sorts after all others, though the clock was set back."""
        newest = [datetime.strptime(name.split("-")[0], STAMP).replace(tzinfo=UTC) for name in self.stores()[:1]]
        stamp = max([now.replace(microsecond=0), *(before + timedelta(seconds=1) for before in newest)])
        return f"{stamp:{STAMP}}-{key}"

    def publish(self, name: str) -> None:
        """`current` leads to this store; to the one before until the very moment. Raises OSError."""
        link = self.path / LINK
        link.unlink(missing_ok=True)
        link.symlink_to(name)
        link.replace(self.path / CURRENT)
        sync(self.path)

    def surplus(self, keep: int) -> list[str]:
        """Stores beyond the current one and the newest others, `keep` together; the oldest first."""
        others = [name for name in self.stores() if name != self.current()]
        return others[keep - 1 :][::-1]

    def remove(self, name: str) -> None:
        """Remove a store and its report; whoever has the store open keeps it. Raises OSError."""
        (self.path / f"{name}.json").unlink(missing_ok=True)
        aside = self.path / f".{name}.removed"
        (self.path / name).rename(aside)
        shutil.rmtree(aside)

    def left_overs(self) -> list[Path]:
        """What killed runs left, and reports whose store is gone."""
        return [
            path
            for path in sorted(self.path.iterdir())
            if LEFT.fullmatch(path.name)
            or ((report := REPORT.fullmatch(path.name)) and not (self.path / report[1]).exists())
        ]

    def check(self) -> None:
        """Raise `HeadwayError` where nothing could be published, before any work."""
        current, link = self.path / CURRENT, self.path / LINK
        if os.path.lexists(current) and not current.is_symlink():
            what = "a folder" if current.is_dir() else "a file"
            raise HeadwayError(f"{current} is {what}, not a link; move it away, or name another output")
        link.unlink(missing_ok=True)
        try:
            link.symlink_to("nowhere")
        except OSError as error:
            cause = error.strerror or error
            raise HeadwayError(
                f"{self.path}: no symbolic link can be made there ({cause}), and stores are published by one; "
                "name an output on another file system"
            ) from None
        link.unlink()


@contextlib.contextmanager
def locked_output(path: Path) -> Iterator[Output | None]:
    """The folder, made if it is missing, for this process alone; None where another one is at work in it.

    The lock ends with its process, however that ends. It is a file of its own that stays: network file systems lock no
    folders. Raises `HeadwayError` for a folder that can't be made, written or locked.
    """
    if not path.exists():
        check_parent(path)
    try:
        path.mkdir(exist_ok=True)
        lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        cause = f"{error.filename or path}: {error.strerror or error}"
        raise HeadwayError(f"{cause}; make it writable, or name another output") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield None
    except OSError as error:
        cause = error.strerror or error
        raise HeadwayError(f"{path}: no lock can be had there ({cause}); name an output elsewhere") from None
    else:
        yield Output(path)
    finally:
        os.close(lock)
