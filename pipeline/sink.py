"""Where the files of an unfinished batch lie: in a folder beside its output, or, at a URL, where they stay."""

from __future__ import annotations

import errno
import io
import json
import re
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

from ..storage import remote
from ..storage.errors import HeadwayError
from .unfinished import JOB, Interrupted, differing, job_folder, parsed, publish, replace

WHOLE = "errors.parquet"  # the last to be made
PART = re.compile(r"part-[0-9]{5,}\.parquet")


class Sink(Protocol):
    """Files by name, each there whole or not at all. All raise `HeadwayError`, those of a folder OSError."""

    def names(self) -> list[str]:
        """What is there, sorted."""
        ...

    def write(self, name: str, write: Callable[[Path], object]) -> None:
        """Put a file there that `write` makes."""
        ...

    def read(self, name: str) -> Path | IO[bytes]:
        """A file as PyArrow takes it."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Take files away."""
        ...

    def publish(self) -> None:
        """All is there: make it the output."""
        ...


class Folder:
    """`OUTPUT.partial/` on this machine."""

    def __init__(self, path: Path, output: Path, overwrite: bool) -> None:
        self.path = path
        self._output, self._overwrite = output, overwrite

    def names(self) -> list[str]:
        return sorted(file.name for file in self.path.iterdir())

    def write(self, name: str, write: Callable[[Path], object]) -> None:
        replace(self.path / name, write)

    def read(self, name: str) -> Path:
        return self.path / name

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            (self.path / name).unlink()

    def publish(self) -> None:
        publish(self.path, self._output, self._overwrite)


class Objects:
    """Objects under a URL. There, nothing is renamed: what is whole has `errors.parquet` and no `job.json`."""

    def __init__(self, url: str, job: bytes) -> None:
        self._url, self._job = url, job

    def names(self) -> list[str]:
        return remote.names(self._url)

    def write(self, name: str, write: Callable[[Path], object]) -> None:
        with tempfile.TemporaryDirectory(prefix="headway-") as folder:
            file = Path(folder) / name
            try:
                write(file)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                way_out = "make room, or set TMPDIR to another disk, and go on with --resume"
                raise HeadwayError(f"{file}: {error.strerror}; {way_out}") from None
            self._still_held()
            remote.put(file, f"{self._url}/{name}")

    def read(self, name: str) -> IO[bytes]:
        return io.BytesIO(remote.read(f"{self._url}/{name}"))

    def remove(self, names: Iterable[str]) -> None:
        urls = [f"{self._url}/{name}" for name in names]
        if urls:
            self._still_held()
            remote.remove(urls)

    def publish(self) -> None:
        self.remove([JOB])

    def held(self) -> bool:
        """Whether no other run has taken the place. Nothing locks a URL, and answers of two runs must not mix."""
        return JOB in self.names() and remote.read(f"{self._url}/{JOB}") == self._job

    def _still_held(self) -> None:
        if not self.held():
            raise HeadwayError(f"{self._url} is at work in another process, begun later; name another output")


@contextmanager
def unfinished(output: Path | str, job: dict, ours: re.Pattern[str], resume: bool, overwrite: bool) -> Iterator[Sink]:
    """Where the parts of a batch go and lie, as `job_folder` says, whose rules hold for URLs (text), too."""
    if isinstance(output, Path):
        with job_folder(output, job, ours, "part-*.parquet", resume, overwrite) as folder:
            yield Folder(folder, output, overwrite)
        return
    found = remote.names(output)
    if strangers := [name for name in found if not ours.fullmatch(name)]:
        raise HeadwayError(f"{output} also holds {strangers[0]!r}; name another output")
    kept = _kept(output, found, job, resume, overwrite)
    if not kept:
        # Without errors.parquet they are no answers; one that is killed here leaves nothing that looks like some.
        found.sort(key=lambda name: (name != WHOLE, name))
        remote.remove(f"{output}/{name}" for name in found)
    mark = json.dumps(job | {"run": secrets.token_hex(8)}, indent=1, sort_keys=True).encode()
    with tempfile.NamedTemporaryFile(prefix="headway-") as file:
        file.write(mark)
        file.flush()
        remote.put(Path(file.name), f"{output}/{JOB}")
    sink = Objects(output, mark)
    try:
        yield sink
    except HeadwayError:
        left = sink.names() if not kept and sink.held() else []
        if not any(PART.fullmatch(name) for name in left):
            remote.remove(f"{output}/{name}" for name in left)
        raise
    except KeyboardInterrupt:
        raise Interrupted from None


def _kept(output: str, found: list[str], job: dict, resume: bool, overwrite: bool) -> bool:
    """Whether what lies at a URL counts. Raises `HeadwayError` where it must stay as it is."""
    if JOB not in found and (WHOLE in found or not found):
        return False  # whole answers, to be replaced, or nothing
    if not (resume or overwrite):
        raise HeadwayError(f"{output} is unfinished; go on with --resume, or begin again with --overwrite")
    if not resume or JOB not in found:
        return False
    before = parsed(remote.read(f"{output}/{JOB}"))
    if before is None:
        return False
    if which := differing(before, job):
        raise HeadwayError(f"{output} was begun with other {which}; begin again with --overwrite")
    return True
