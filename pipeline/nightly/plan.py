"""What a plan says: feeds, dates, arguments of the build, where stores go; validated."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from ...storage.errors import HeadwayError
from ..settings import BuildSettings, Section, Settings, WalkSettings, load_settings, read_yaml

HELP = "headway nightly --help"
DAY = r"[12]\d{3}-\d\d-\d\d"
DATES = re.compile(rf"(?P<first>today|{DAY})(\.\.(?P<last>\+\d{{1,3}}|{DAY}))?")


@dataclass(frozen=True)
class Dates:
    """The dates that a store covers: from `first` (None: today) to `last`, which may be a number of days later.

    `last` None is as `--date` alone: as many days as `build.days` says.
    """

    text: str
    first: date | None
    last: date | int | None

    def on(self, today: date) -> tuple[date, int | None]:
        """The first date, and how many days are covered. Raises `HeadwayError` for a last date before the first."""
        first = self.first or today
        if self.last is None:
            return first, None
        last = first + timedelta(days=self.last) if isinstance(self.last, int) else self.last
        if last < first:
            raise HeadwayError(f"dates: {self.text}: {last} lies before {first}; write FIRST..LAST")
        return first, (last - first).days + 1


def _dates(value: Any) -> Dates:
    text = str(value).strip()  # YAML makes a date of a date
    found = DATES.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        first, last = found["first"], found["last"]
        start = None if first == "today" else date.fromisoformat(first)
        end = None if last is None else int(last) if last.startswith("+") else date.fromisoformat(last)
    except ValueError:
        raise ValueError(f"{text!r} is no date or range; write 2026-09-30, today, or today..+7") from None
    return Dates(text, start, end)


def _path(text: str) -> str:
    if "\0" in text:
        raise ValueError("a path holds no null character")
    return text


Place = Annotated[str, Field(min_length=1), AfterValidator(_path)]


class Plan(Section):
    """Everything that a plan can say."""

    feeds: Annotated[list[Place], Field(min_length=1)]
    dates: Annotated[Dates, BeforeValidator(_dates)]
    output: Place
    keep: Annotated[int, Field(ge=1)] = 7
    on_broken_feed: Literal["fail", "leave-out"] = "fail"
    profile: str = "laptop"
    threads: Annotated[int, Field(ge=1)] | Literal["auto"] | None = None
    build: BuildSettings = BuildSettings()
    walk: WalkSettings = WalkSettings()


@dataclass(frozen=True)
class PlanFile:
    """A plan and the file that it lies in, which paths are relative to."""

    file: Path
    plan: Plan

    def place(self, text: str) -> Path:
        """A path of the plan."""
        return self.file.absolute().parent / os.path.expanduser(text)  # noqa: PTH111

    def settings(self, days: int | None) -> Settings:
        """The profile, overruled by what the plan says. Raises `HeadwayError` as `load_settings` does."""
        plan = self.plan
        options: dict[str, Any] = {"threads": ("threads", plan.threads), "build.days": ("dates: days", days)}
        for name, section in (("build", plan.build), ("walk", plan.walk)):
            for key, value in section.model_dump(exclude_unset=True).items():
                options[f"{name}.{key}"] = f"{name}.{key}", value
        is_file = plan.profile.endswith((".yaml", ".yml"))
        try:
            return load_settings(str(self.place(plan.profile)) if is_file else plan.profile, (), options)
        except HeadwayError as error:
            raise HeadwayError(f"{self.file}: {error}") from None


def load_plan(file: Path) -> PlanFile:
    """Read a plan. Raises `HeadwayError` that names the file, the key, the cause and the way out."""
    found = read_yaml(file.read_bytes, str(file), HELP)
    try:
        read = PlanFile(file, Plan.model_validate(found))
    except ValidationError as error:
        raise HeadwayError(f"{file}: {_cause(error)}; see {HELP}") from None
    if read.plan.dates.last is not None and "days" in read.plan.build.model_fields_set:
        raise HeadwayError(f"{file}: build.days: dates {read.plan.dates.text} already say how many; leave it out")
    read.settings(None)
    return read


def _cause(error: ValidationError) -> str:
    """The first thing wrong, after the key that it is about."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        section = {"build": BuildSettings, "walk": WalkSettings}.get(str(first["loc"][0]), Plan)
        return f"{key}: no such key; there are {', '.join(section.model_fields)}"
    if first["type"] == "missing":
        return f"no key {key}, which every plan needs"
    cause = first["msg"].removeprefix("Value error, ")
    return f"{key}: {cause[0].lower()}{cause[1:]}"


def is_pattern(text: str) -> bool:
    """Whether an entry of `feeds` stands for all that it matches."""
    return any(sign in text for sign in "*?[")
