"""An S3 server on the loopback, and buckets in it."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec
import pytest
import requests
from headway.kernels.jit import CACHE
from moto.server import ThreadedMotoServer

BUCKET = "s3://transit"


@contextmanager
def s3_server(cache: Path) -> Iterator[dict[str, str]]:
    """Its environment, set in this process while it runs: where it is, and where copies of stores go."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    environment = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "XDG_CACHE_HOME": str(cache),
        "NUMBA_CACHE_DIR": CACHE,  # where compiled kernels are already
    }
    with pytest.MonkeyPatch.context() as patch:
        for key, value in environment.items():
            patch.setenv(key, value)
        requests.post(f"{environment['AWS_ENDPOINT_URL']}/moto-api/reset")  # servers of a process share their buckets
        fsspec.filesystem("s3").clear_instance_cache()
        fsspec.filesystem("s3").mkdir(BUCKET)
        try:
            yield environment
        finally:
            fsspec.filesystem("s3").clear_instance_cache()
            server.stop()


def uploaded(path: Path, name: str = "") -> str:
    """A file or folder in the bucket."""
    url = f"{BUCKET}/{name or path.name}"
    fsspec.filesystem("s3").put(str(path) + "/" * path.is_dir(), url + "/" * path.is_dir(), recursive=True)
    return url


def objects(url: str) -> dict[str, bytes]:
    """What lies under a URL."""
    files = fsspec.filesystem("s3")
    files.invalidate_cache()
    found = files.cat(files.find(url))
    return {name.rpartition("/")[2]: content for name, content in found.items()}


def nobody_listens() -> str:
    """An address on the loopback where nothing is."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"
