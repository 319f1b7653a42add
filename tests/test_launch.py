"""Launch files say nothing that packages, profiles and parsers don't know."""

from __future__ import annotations

import re
import shlex
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import click
import dask.config
import distributed  # noqa: F401, its defaults are part of the configuration
import pytest
import yaml
from headway.pipeline.settings import load_settings

ROOT = Path(__file__).parents[1]
LAUNCH = ROOT / "cluster" / "launch"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
COMPOSE = yaml.safe_load((LAUNCH / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
DOCKERFILE = (LAUNCH / "Dockerfile").read_text()
PAGE = (ROOT / "docs" / "cluster.md").read_text()


def parsed(words: list[str]) -> dict:
    """What a `dask` command makes of its words. Raises click's errors for what it does not know."""
    assert words[0] == "dask"
    command = entry_points(group="dask_cli")[words[1]].load()
    rest = words[2:]
    while isinstance(command, click.Group):
        command = command.commands[rest.pop(0)]
    # Dask's commands pass unknown options on to preloaded modules, of which there are none here.
    command.context_settings = {**command.context_settings, "ignore_unknown_options": False}
    return command.make_context(command.name or "", rest).params


def commands_of_the_page() -> list[list[str]]:
    """The `dask` commands of the page, with lines joined and words in capitals filled in."""
    blocks = re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    filled = [line.partition("  #")[0].replace("HOST", "10.0.0.5").replace("SCRATCH", "/scratch") for line in lines]
    return [shlex.split(line) for line in filled if line.startswith("dask ")]


def test_scheduler_and_workers() -> None:
    scheduler = parsed(SERVICES["scheduler"]["command"])
    workers = parsed(SERVICES["workers"]["command"])
    address = load_settings("cloud").workers.kind
    assert address == workers["scheduler"] == f"tcp://scheduler:{scheduler['port']}"
    mounted = [volume.rpartition(":")[2] for volume in SERVICES["workers"]["volumes"]]
    assert workers["local_directory"] in mounted
    assert (workers["nthreads"], workers["rmm_async"], workers["enable_cudf_spill"]) == (1, True, True)


def test_a_wrong_option_is_found() -> None:
    with pytest.raises(click.NoSuchOption):
        parsed(["dask", "cuda", "worker", "tcp://scheduler:8786", "--rmm-asink"])
    with pytest.raises(KeyError):
        parsed(["dask", "cuda", "serve"])


def test_commands_of_the_page() -> None:
    found = commands_of_the_page()
    assert [words[1] for words in found] == ["scheduler", "cuda", "worker"]
    for words in found:
        parsed(words)


def test_environment_is_known() -> None:
    """A misspelt key of Dask's configuration would be silently without effect."""
    keys = [key for service in SERVICES.values() for key in service.get("environment", {})]
    keys += re.findall(r"export (DASK_\w+)=", PAGE)
    assert len(keys) == 3
    for key in keys:
        path = key.removeprefix("DASK_").lower().replace("__", ".").replace("_", "-")
        dask.config.get(path)  # raises KeyError


def test_nothing_is_open_to_the_world() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert [port.split(":")[0] for port in ports] == ["127.0.0.1"] * 2


def test_image() -> None:
    for service in SERVICES.values():
        place = LAUNCH / service["build"]["context"]
        assert place.resolve() == ROOT
        assert place.resolve() / service["build"]["dockerfile"] == LAUNCH / "Dockerfile"
    (extras,) = re.findall(r"\[([\w,]+)\]'", DOCKERFILE)
    needs = [need for extra in extras.split(",") for need in PROJECT["project"]["optional-dependencies"][extra]]
    assert {"cudf-cu13", "dask-cuda", "gcsfs", "ray", "s3fs"} <= {re.split("[=<>\\[]", need)[0] for need in needs}
    (user,) = re.findall("^USER (.*)$", DOCKERFILE, re.MULTILINE)
    assert user != "root"
    cuda = re.findall(r"^FROM nvidia/cuda:(\d+)\.", DOCKERFILE, re.MULTILINE)
    assert all(f"cu{cuda[0]}" in need for need in needs if "cu1" in need)
    assert SERVICES["headway"]["entrypoint"] == list(PROJECT["project"]["scripts"])


def test_the_image_is_given_all_that_a_wheel_is_built_from() -> None:
    ignored = (LAUNCH / "Dockerfile.dockerignore").read_text().splitlines()
    given = {line[1:] for line in ignored if line.startswith("!")}
    rooms = {folder.split("/")[0] for folder in PROJECT["tool"]["setuptools"]["package-dir"].values()}
    needed = {"pyproject.toml", PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]}
    assert given == rooms | needed
    assert "*" in ignored
