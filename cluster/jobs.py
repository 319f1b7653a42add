"""A command line as a job of a Ray cluster: sent, its output followed, its exit status."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import re
import socket
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from ..storage.errors import HeadwayError
from .ray import CONNECT_S

LOST_S = 300  # without a word from the cluster
RAYS_OWN = re.compile(r"\S+ \S+\tINFO job_manager\.py:\d+ -- |Running entrypoint for job ")
"""Lines that Ray adds to a job's output."""


class Job:
    """A job that runs. Raises `HeadwayError` where the cluster takes none."""

    def __init__(self, address: str, entrypoint: str) -> None:
        self.address = address
        self._client = _client(address)
        try:
            self.name: str = self._client.submit_job(entrypoint=entrypoint)
        except Exception as error:  # of Ray, requests, or whatever answers there
            raise _unfit(address, error) from None

    def follow(self, show: Callable[[str], None]) -> int:
        """Show the lines of its output as they come; its exit status.

        Raises `HeadwayError` when it is stopped, when it ends without a status, and when the cluster is lost.
        """
        output = _Output(show)
        heard = time.monotonic()
        while True:
            try:
                asyncio.run(self._tail(output))
                info = self._client.get_job_info(self.name)
                if info.status.is_terminal():
                    # What was written last may come after the end.
                    output.last(self._client.get_job_logs(self.name))
                    return self._status(info)
                heard = time.monotonic()
            except HeadwayError:
                raise
            except Exception as error:  # a connection that broke, in the words of whoever noticed
                if time.monotonic() - heard > LOST_S:
                    cause = " ".join(str(error).split())
                    raise HeadwayError(f"--address {self.address}: lost ({cause}); {self.ways()}") from None
            output.again()
            time.sleep(1)

    def ways(self) -> str:
        """How to follow and to stop it, in words."""
        rest = f"--address {self.address} {self.name}"
        return f"job {self.name} goes on: `ray job logs --follow {rest}`, `ray job stop {rest}`"

    async def _tail(self, output: _Output) -> None:
        async for text in self._client.tail_job_logs(self.name):
            output.add(text)

    def _status(self, info: Any) -> int:
        if info.status == "SUCCEEDED":
            return 0
        if info.status == "STOPPED":
            raise HeadwayError(f"job {self.name} was stopped; go on with --resume")
        if not info.driver_exit_code or info.driver_exit_code < 0:
            cause = (str(info.message).strip().splitlines() or ["no word why"])[0]
            raise HeadwayError(f"job {self.name} failed: {cause}; go on with --resume")
        return info.driver_exit_code


class _Output:
    """Lines shown once, though their text may come again from its beginning."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._text = ""  # after the last whole line
        self._taken = self._skip = 0

    def again(self) -> None:
        """What comes now comes from the beginning."""
        self._skip = self._taken

    def last(self, text: str) -> None:
        """All of it; the last line may lack its end."""
        self.again()
        self.add(text + "\n" * (text[-1:] not in ("", "\n")))

    def add(self, text: str) -> None:
        fresh = text[self._skip :]
        self._skip -= len(text) - len(fresh)
        self._taken += len(fresh)
        *lines, self._text = (self._text + fresh).split("\n")
        for line in lines:
            if not RAYS_OWN.match(line):
                self._show(line)


def _client(address: str) -> Any:
    if importlib.util.find_spec("ray") is None:
        raise HeadwayError("headway submit: Ray is not installed: pip install headway[ray]")
    parts = urlsplit(address)
    try:
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        if not parts.hostname:
            raise ValueError
    except (KeyError, ValueError):
        raise HeadwayError(f"--address {address}: write the URL of Ray's dashboard, http://host:8265") from None
    try:
        socket.create_connection((parts.hostname, port), CONNECT_S).close()
    except OSError:
        raise HeadwayError(f"--address {address}: no Ray cluster answers there; see docs/cloud.md") from None
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ["RAY_API_SERVER_ADDRESS"] = address  # Ray takes that of its environment first, whatever it is given
    from ray.job_submission import JobSubmissionClient

    try:
        client = JobSubmissionClient(address)
        logging.getLogger(JobSubmissionClient.__module__).setLevel(logging.ERROR)
        return client
    except Exception as error:  # of Ray, requests, or whatever answers there
        raise _unfit(address, error) from None


def _unfit(address: str, error: Exception) -> HeadwayError:
    if type(error).__name__ == "AuthenticationError":
        return HeadwayError(
            f"--address {address}: Ray asks for its token: RAY_AUTH_MODE=token, and the token in RAY_AUTH_TOKEN or "
            "~/.ray/auth_token"
        )
    cause = " ".join(str(error).split()) or type(error).__name__
    return HeadwayError(f"--address {address}: no Ray cluster that takes jobs ({cause}); see docs/cloud.md")
