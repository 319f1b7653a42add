"""A schedule as text: the loop nest before the first step and after each one."""

from __future__ import annotations

from .kernel import text_of
from .lower import lower
from .schedule import Schedule, ScheduleError


def explain(schedule: Schedule) -> str:
    """The nest of every step, the last one at the end."""
    parts = []
    now: Schedule | None = schedule
    while now:
        parts.append("\n".join([now.step or f"# {now.statement.text}", *_nest(now)]))
        now = now.before
    return "\n\n".join(reversed(parts)) + "\n"


def _nest(schedule: Schedule) -> list[str]:
    try:
        nest = lower(schedule)
    except ScheduleError as error:
        return [f"    {' > '.join(schedule.loops)}: {error}"]
    return text_of(schedule).lines([*nest.setup, *nest.body])
