"""How the command line hears of Ctrl-C in a job that can go on."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

from .unfinished import Interrupted


class Unfinished(Exception):
    """As `Interrupted`."""


class Commands(TyperGroup):
    """Typer makes the same status of all that Ctrl-C raises, and what it is gets lost: here it gets by."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Interrupted:
            raise Unfinished from None
