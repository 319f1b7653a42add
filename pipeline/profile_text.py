"""Settings as the text of a profile: every key with its comment and who set it."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import yaml

from .settings import PROFILES, told_settings

COLUMN = 21
MARK = re.compile(r"\[(default|--set [^\]]*)\] ?")
"""Who set a key, before its comment; a profile that was saved with it is not marked twice."""


@dataclass(frozen=True)
class Comment:
    """What a profile says of a key: lines above it, and at the end of its own line."""

    above: tuple[str, ...] = ()
    beside: str = ""


def profile_text(profile: str, overrides: Sequence[str] = ()) -> str:
    """All that a profile and `--set` come to, as a profile. Raises `HeadwayError` as `load_settings` does."""
    told = told_settings(profile, overrides)
    own = _comments(told.text)
    usual = _comments((PROFILES / "laptop.yaml").read_text("utf-8"))
    lines = list(takewhile(lambda line: line.startswith("#"), told.text.splitlines()))

    def write(key: str, value: Any) -> None:
        said = own.get(key) or Comment(beside=usual[key].beside)
        section = key.partition(".")[0]
        who = told.origins.get(key) or told.origins.get(section) or ("" if key in own else "default")
        mark = f"[{' '.join(who.split())}] " if who else ""
        indent = "  " * key.count(".")
        plain = yaml.safe_dump(value, width=sys.maxsize).removesuffix("...\n").strip()
        lines.extend(indent + line for line in said.above)
        lines.append(_line(f"{indent}{key.rpartition('.')[2]}: {plain}", mark + said.beside))

    for name, value in told.settings.model_dump().items():
        if isinstance(value, dict):
            said = own.get(name) or Comment(beside=usual[name].beside)
            lines += ["", *said.above, _line(f"{name}:", said.beside)]
            for key, inner in value.items():
                write(f"{name}.{key}", inner)
        else:
            write(name, value)
    return "\n".join(lines) + "\n"


def _line(text: str, beside: str) -> str:
    return f"{text:<{COLUMN}}  # {beside}" if beside else text


def _comments(text: str) -> dict[str, Comment]:
    """By dotted key, those that a profile sets."""
    lines = text.splitlines()
    found: dict[str, Comment] = {}

    def visit(node: yaml.Node | None, path: str) -> None:
        if not isinstance(node, yaml.MappingNode):
            return
        for key, value in node.value:
            name = f"{path}{key.value}"
            row = key.start_mark.line
            first = row
            while first and lines[first - 1].lstrip().startswith("#"):
                first -= 1
            if first == 0:  # the heading of the file
                first = row
            scalar = isinstance(value, yaml.ScalarNode)
            end = value.end_mark if scalar else key.end_mark
            beside = lines[end.line][end.column :].partition("#")[2].strip() if end.line < len(lines) else ""
            found[name] = Comment(tuple(line.strip() for line in lines[first:row]), MARK.sub("", beside, count=1))
            visit(value, f"{name}.")

    visit(yaml.compose(text), "")
    return found
