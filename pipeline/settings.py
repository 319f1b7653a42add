"""Profiles a user picks and overrides, validated."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from ..storage.errors import HeadwayError

if TYPE_CHECKING:
    from ..cluster.dask import Workers

PROFILES = files("headway.conf")
RAY_ADDRESS = re.compile(r"(ray://)?[^\s/:]+:\d+")
ADDRESS = re.compile(r"(tcp|tls|ucx)://[^\s/]+:\d+")


class Section(BaseModel):
    """Keys that are all known, or an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class BuildSettings(Section):
    """How a store is built."""

    days: Annotated[int, Field(ge=1, le=366)] = 2
    cluster_minutes: Annotated[int, Field(ge=1, le=1440)] = 60
    subtrips: Literal["none", "sqrt-trip", "sqrt-mean"] = "none"
    frames: Literal["auto", "pandas", "cudf"] = "auto"


class WalkSettings(Section):
    """How footpaths are made."""

    mode: Literal["default", "none"] = "default"
    radius_m: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 500.0
    speed_mps: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.2
    detour: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0


class GpuSettings(Section):
    """How a GPU is used."""

    memory_gib: Annotated[float, Field(gt=0, allow_inf_nan=False)] | Literal["auto"] = "auto"


def _kind(value: Any) -> str:
    if value not in ("threads", "processes", "cuda") and not ADDRESS.fullmatch(str(value)):
        raise ValueError(f"{value!r} is none of threads, processes, cuda, or an address such as tcp://host:8786")
    return value


class WorkerSettings(Section):
    """What runs the tasks of a build."""

    kind: Annotated[str, BeforeValidator(_kind)] = "threads"
    count: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    memory_gib: Annotated[float, Field(ge=1, allow_inf_nan=False)] | Literal["auto"] = "auto"
    scratch: str = "auto"

    @model_validator(mode="after")
    def _only_local(self) -> WorkerSettings:
        if self.kind not in ("processes", "cuda"):
            for key in ("count", "memory_gib", "scratch"):
                if getattr(self, key) != "auto":
                    raise ValueError(f"{key} is for local workers, kind processes or cuda; {self.kind} takes auto")
        return self


def _answerers(value: Any) -> str:
    if value not in ("threads", "ray", "auto") and not RAY_ADDRESS.fullmatch(str(value)):
        raise ValueError(
            f"{value!r} is none of threads, ray, auto, or an address such as host:6379 or ray://host:10001"
        )
    return value


class QuerySettings(Section):
    """What answers a file of queries."""

    workers: Annotated[str, BeforeValidator(_answerers)] = "threads"
    count: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"

    @model_validator(mode="after")
    def _only_actors(self) -> QuerySettings:
        if self.workers == "threads" and self.count != "auto":
            raise ValueError("count is for actors of Ray, workers ray or an address; threads takes auto")
        return self


class TrainSettings(Section):
    """What trains a model."""

    workers: Annotated[int, Field(ge=1)] | Literal["auto"] = 1


class Settings(Section):
    """Everything that a profile can say."""

    threads: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    build: BuildSettings = BuildSettings()
    walk: WalkSettings = WalkSettings()
    gpu: GpuSettings = GpuSettings()
    workers: WorkerSettings = WorkerSettings()
    query: QuerySettings = QuerySettings()
    train: TrainSettings = TrainSettings()

    def thread_count(self) -> int:
        """Threads to use: as told, or one for each core that this process may run on."""
        return self.threads if self.threads != "auto" else len(os.sched_getaffinity(0))

    def gpu_memory(self) -> int | None:
        """Bytes of GPU memory to use; None: as the GPU's free memory allows."""
        return None if self.gpu.memory_gib == "auto" else int(self.gpu.memory_gib * 2**30)

    def open_workers(self) -> AbstractContextManager[Workers]:
        """The workers of a build. Raises `HeadwayError` where they can't be had."""
        from ..cluster.dask import workers

        told = self.workers
        return workers(
            told.kind,
            None if told.count == "auto" else told.count,
            None if told.memory_gib == "auto" else int(told.memory_gib * 2**30),
            None if told.scratch == "auto" else os.path.expanduser(told.scratch),  # noqa: PTH111
            self.thread_count(),
        )


@dataclass(frozen=True)
class Told:
    """Settings, and who said what: the text of the profile, and `--set` or an option by dotted key."""

    settings: Settings
    text: str
    origins: dict[str, str]


def load_settings(profile: str, overrides: Sequence[str] = (), options: dict[str, Any] | None = None) -> Settings:
    """A profile (a name of `conf/` or a path), then `key=value` overrides, then options that are not None.

    Keys are dotted, `walk.radius_m`. Raises `HeadwayError` naming the key and where it was set.
    """
    return told_settings(profile, overrides, options).settings


def told_settings(profile: str, overrides: Sequence[str] = (), options: dict[str, Any] | None = None) -> Told:
    """As `load_settings`, with who said what."""
    text, found = _profile(profile)
    origins: dict[str, str] = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise HeadwayError(f"--set {override}: write key=value, for example --set walk.radius_m=400")
        try:
            _put(found, key.strip(), yaml.safe_load(value), f"--set {override}")
        except (yaml.YAMLError, ValueError) as error:
            cause = " ".join(str(error).split())
            raise HeadwayError(f"--set {override}: not a readable value ({cause}); see headway config show") from None
        origins[key.strip()] = f"--set {override}"
    for key, (flag, value) in (options or {}).items():
        if value is not None:
            _put(found, key, value, flag)
            origins[key] = f"{flag} {value}"
    try:
        return Told(Settings.model_validate(found), text, origins)
    except ValidationError as error:
        raise HeadwayError(f"{_cause(error, origins, profile)}; see headway config show") from None


def _cause(error: ValidationError, origins: dict[str, str], profile: str) -> str:
    """The first thing wrong, after who said it."""
    first = error.errors()[0]
    parts = [str(part) for part in first["loc"]]
    # The error may lie above what was set (a section that there is not) or below (a number for a section).
    near = [where for key, where in origins.items() if all(a == b for a, b in zip(key.split("."), parts, strict=False))]
    where = near[-1] if near else f"{profile}: {'.'.join(parts)}"
    if first["type"] == "extra_forbidden":
        section = Settings.model_fields[parts[0]].annotation if len(parts) > 1 else Settings
        return f"{where}: no such key; there are {', '.join(section.model_fields)}"  # type: ignore[union-attr]
    cause = first["msg"].removeprefix("Value error, ")
    return f"{where}: {cause[0].lower()}{cause[1:]}"


def _profile(profile: str) -> tuple[str, dict[str, Any]]:
    place = Path(profile) if profile.endswith((".yaml", ".yml")) else PROFILES / f"{profile}.yaml"
    if not place.is_file():
        names = ", ".join(
            sorted(file.name.removesuffix(".yaml") for file in PROFILES.iterdir() if file.name.endswith(".yaml"))
        )
        raise HeadwayError(f"--profile {profile}: no such profile; there are {names}, or give a .yaml file")
    found = read_yaml(place.read_bytes, profile, "headway config show")
    return place.read_text("utf-8"), found


def read_yaml(read: Callable[[], bytes], name: str, example: str) -> dict[str, Any]:
    """Keys and values of a YAML file called `name`. Raises `HeadwayError`, which names an example of what is wanted."""
    try:
        found = yaml.safe_load(read().decode("utf-8"))
    except OSError as error:
        raise HeadwayError(f"{name}: {error.strerror or error}; check the path and its permissions") from None
    except (yaml.YAMLError, ValueError) as error:
        raise HeadwayError(f"{name}: not a readable YAML file ({' '.join(str(error).split())})") from None
    if not isinstance({} if found is None else found, dict):
        raise HeadwayError(f"{name}: keys and values are wanted, as in {example}")
    return found or {}


def _put(tree: dict[str, Any], key: str, value: Any, where: str) -> None:
    *path, last = key.split(".")
    for part in path:
        tree = tree.setdefault(part, {})
        if not isinstance(tree, dict):
            raise HeadwayError(f"{where}: {part} holds no keys; see headway config show")
    tree[last] = value
