"""`OUTPUT.partial/`: where a long job keeps what it has finished, so that it can go on after an interruption."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from ..storage.errors import HeadwayError
from ..storage.folder import exchange, locked

JOB = "job.json"


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in a job that has left what `--resume` goes on with."""


def folder_of(output: Path) -> Path:
    """Where the work on an output lies."""
    return output.with_name(output.name + ".partial")


def check_parent(output: Path) -> None:
    """Raise `HeadwayError` where nothing can be written beside an output."""
    if not output.parent.is_dir():
        raise HeadwayError(f"{output}: the folder {output.parent} does not exist; create it first")
    if not os.access(output.parent, os.W_OK | os.X_OK):
        raise HeadwayError(f"{output}: the folder {output.parent} is not writable; name another output")


@contextlib.contextmanager
def job_folder(
    output: Path, job: dict, ours: re.Pattern[str], worth: str, resume: bool, overwrite: bool
) -> Iterator[Path]:
    """`output.partial/`, locked for this run; it stays when the run is interrupted, which is an `Interrupted` then.

    `job` is plain data that tells this job from any other. All names in the folder match `ours`, or it stays as it is.
    After a `HeadwayError` it goes, unless a file matches the glob `worth`.

    Raises `HeadwayError` for a folder that is in the way, at work, unfinished without `resume` or `overwrite`, or, with
    `resume`, begun for another job.
    """
    folder = folder_of(output)
    try:
        new = not os.path.lexists(folder)
        folder.mkdir(exist_ok=True)
        handle = locked(folder)
    except OSError as error:
        raise HeadwayError(f"{folder}: {error.strerror or error}; name another output") from error
    if handle is None:
        raise HeadwayError(f"{folder} is at work in another process; wait for it or name another output")
    try:
        keep = not new and _keeps(folder, job, ours, resume, overwrite)
        for left in folder.iterdir():
            if not keep or left.suffix == ".tmp":
                left.unlink()
        replace(folder / JOB, lambda file: file.write_text(json.dumps(job, indent=1, sort_keys=True)))
        try:
            yield folder
        except HeadwayError:
            if not keep and not any(folder.glob(worth)):
                shutil.rmtree(folder)
            raise
        except KeyboardInterrupt:
            if folder.is_dir():  # and not published yet
                raise Interrupted from None
            raise
    except ConnectionError:  # of whoever does the work, not of a disk
        raise
    except OSError as error:
        raise HeadwayError(f"{folder}: {error.strerror or error}; make room and go on with --resume") from error
    finally:
        os.close(handle)


def _keeps(folder: Path, job: dict, ours: re.Pattern[str], resume: bool, overwrite: bool) -> bool:
    """Whether what lies in an unfinished folder counts. Raises `HeadwayError` where it must stay as it is."""
    if strangers := [left.name for left in folder.iterdir() if left.is_dir() or not ours.fullmatch(left.name)]:
        raise HeadwayError(f"{folder} is in the way and holds {strangers[0]!r}; remove it or name another output")
    if not (resume or overwrite):
        raise HeadwayError(f"{folder} is unfinished; go on with --resume, or begin again with --overwrite")
    found = _read_job(folder)
    if resume and found is not None and (which := differing(found, job)):
        raise HeadwayError(f"{folder} was begun with other {which}; begin again with --overwrite")
    return resume and found is not None


def differing(found: dict, job: dict) -> str:
    """Keys of a job that has another value elsewhere, in words."""
    return ", ".join(key for key in job if found.get(key) != job[key])


def _read_job(folder: Path) -> dict | None:
    try:
        return parsed((folder / JOB).read_bytes())
    except OSError:
        return None


def parsed(text: bytes) -> dict | None:
    """A job as it lies in its file, None where that is damaged."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def replace(file: Path, write: Callable[[Path], object]) -> None:
    """Write a file whole: beside, to disk, renamed. Nothing is left beside it after an exception."""
    beside = file.with_name(file.name + ".tmp")
    try:
        write(beside)
        with beside.open("rb") as stream:
            os.fsync(stream.fileno())
        beside.replace(file)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def publish(folder: Path, output: Path, overwrite: bool) -> None:
    """The finished folder takes the output's place, without its job: that stays where it can't, for `--resume`.

    Raises `HeadwayError` for an output that was not there when the job began.
    """
    replaced = output.exists()
    if replaced and not overwrite:
        raise HeadwayError(f"{output} was made meanwhile; move it away and go on with --resume")
    job = (folder / JOB).read_bytes()
    (folder / JOB).unlink()
    try:
        if replaced:
            exchange(folder, output)
        else:
            folder.rename(output)
    except OSError:
        (folder / JOB).write_bytes(job)
        raise
    if replaced:
        shutil.rmtree(folder)
