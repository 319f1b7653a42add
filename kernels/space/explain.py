"""A schedule as text: the loop nest before the first step and after each one."""

from __future__ import annotations

from .kernel import text_of
from .lower import lower
from .relations import ScheduleError
from .schedule import Schedule, check_schedule


def explain(schedule: Schedule) -> str:
    """The nest of every step, the last one at the end."""
    check_schedule(schedule)
    parts, now = [], schedule
    while now.before:
        parts.append(f"{now.step}\n\n{nest(now)}")
        now = now.before
    return "\n".join([f"# {now.statement.text}\n\n{nest(now)}", *reversed(parts)])


def nest(schedule: Schedule) -> str:
    """The body of the kernel, or why there is none yet."""
    try:
        made = lower(schedule)
    except ScheduleError as error:
        return f"    {' > '.join(schedule.loops)}: {error}\n"
    return "\n".join(text_of(schedule).lines([*made.setup, *made.body])) + "\n"
