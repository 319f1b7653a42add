"""Which of several feeds can't be used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...storage.errors import HeadwayError, WorkersError


class FeedError(HeadwayError):
    """One feed can't be used; `path` is the feed's, as it was given."""

    def __init__(self, message: str, path: Path) -> None:
        super().__init__(message)
        self.path = path

    def __reduce__(self) -> tuple:
        return FeedError, (str(self), self.path)  # on its way from one process to another


@contextmanager
def of_feed(path: Path) -> Iterator[None]:
    """Whatever is wrong in the block is wrong with this feed: raises `FeedError`; with workers, `WorkersError`."""
    try:
        yield
    except WorkersError:
        raise
    except HeadwayError as error:
        raise FeedError(str(error), path) from error
    except OSError as error:
        cause = f"{error.filename or path}: {error.strerror or error}; check the path and its permissions"
        raise FeedError(cause, path) from error
