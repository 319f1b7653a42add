"""A schedule as text: the loop nest before the first step and after each one; the code that makes it."""

from __future__ import annotations

from .kernel import text_of
from .lower import lower
from .schedule import Schedule, ScheduleError
from .tensors import COO, CSC, CSR, DCSR

_NAMES = {CSR: "CSR", CSC: "CSC", COO: "COO", DCSR: "DCSR"}


def explain(schedule: Schedule) -> str:
    """The nest of every step, the last one at the end."""
    parts = []
    now: Schedule | None = schedule
    while now:
        parts.append("\n".join([now.step or f"# {now.statement.text}", *_nest(now)]))
        now = now.before
    return "\n\n".join(reversed(parts)) + "\n"


def code(schedule: Schedule) -> str:
    """Python that makes the schedule again."""
    formats = [f", {name}={_NAMES.get(form, form)}" for name, form in schedule.sparse]
    pattern = f', pattern="{schedule.pattern}"' if schedule.pattern else ""
    steps, now = [], schedule
    while now.before:
        steps.append(now.step)
        now = now.before
    ring = "" if schedule.statement.accumulate else _ring(schedule)
    return "".join([f'schedule("{schedule.statement.text}"{ring}{pattern}{"".join(formats)})', *reversed(steps)])


def _ring(schedule: Schedule) -> str:
    names = {"min": ", semiring=MIN_PLUS", "|": ", semiring=OR_AND"}
    return names.get(schedule.statement.semiring.sum, "")


def _nest(schedule: Schedule) -> list[str]:
    try:
        nest = lower(schedule)
    except ScheduleError as error:
        return [f"    {' > '.join(schedule.loops)}: {error}"]
    return text_of(schedule).lines([*nest.setup, *nest.body])
