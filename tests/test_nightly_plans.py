"""Plans of `headway nightly` that can't be read, each refused in a line."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import refused
from headway.pipeline.nightly.plan import Plan, load_plan
from headway.pipeline.settings import load_settings
from nights import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


GOOD = {"feeds": "[a.zip]", "dates": "today", "output": "out"}
PLANS = [
    # (changes to a good plan, words of the line)
    ({"feeds": None}, "no key feeds, which every plan needs"),
    ({"dates": None}, "no key dates"),
    ({"output": None}, "no key output"),
    ({"feed": "[a.zip]"}, "feed: no such key; there are feeds, dates, output, keep, on_broken_feed"),
    ({"feeds": "[]"}, "feeds: list should have at least 1 item"),
    ({"feeds": "a.zip"}, "feeds: input should be a valid list"),
    ({"feeds": "[a.zip, 3]"}, "feeds.1: input should be a valid string"),
    ({"feeds": '["a\\0.zip"]'}, "feeds.0: a path holds no null character"),
    ({"feeds": "[~]"}, "feeds.0: input should be a valid string"),
    ({"dates": "tomorrow"}, "dates: 'tomorrow' is no date or range; write 2026-09-30, today, or today..+7"),
    ({"dates": "today+7"}, "dates: 'today+7'"),
    ({"dates": "2026-09-31..+1"}, "dates: '2026-09-31..+1'"),
    ({"dates": "2026-09-31"}, "not a readable YAML file"),
    ({"dates": "[today]"}, "dates: \"['today']\""),
    ({"dates": "2026-09-30..2026-09-01"}, "dates: 2026-09-30..2026-09-01: 2026-09-01 lies before 2026-09-30"),
    ({"dates": "2026-06-10..+366"}, "dates: days 367: input should be less than or equal to 366"),
    ({"dates": "today..+1", "build": "{days: 2}"}, "build.days: dates today..+1 already say how many; leave it out"),
    ({"output": "''"}, "output: "),
    ({"output": '"a\\0b"'}, "output: a path holds no null character"),
    ({"keep": "0"}, "keep: input should be greater than or equal to 1"),
    ({"on_broken_feed": "ignore"}, "on_broken_feed: input should be 'fail' or 'leave-out'"),
    ({"profile": "none"}, "--profile none: no such profile; there are "),
    ({"profile": "none.yaml"}, "none.yaml: no such profile"),
    ({"threads": "0"}, "threads"),
    ({"build": "{minutes: 5}"}, "build.minutes: no such key; there are days, cluster_minutes, subtrips"),
    ({"build": "{cluster_minutes: 0}"}, "build.cluster_minutes: input should be greater"),
    ({"walk": "{radius_m: far}"}, "walk.radius_m: input should be a valid number"),
    ({"walk": "5"}, "walk: "),
    ({"gpu": "{memory_gib: 1}"}, "gpu: no such key"),
    ({"feeds": "["}, "not a readable YAML file"),
]


@pytest.mark.parametrize(("changes", "words"), PLANS, ids=[words[:50] for _, words in PLANS])
def test_bad_plan(place: Place, changes: dict[str, str | None], words: str) -> None:
    lines = [f"{key}: {value}" for key, value in (GOOD | changes).items() if value is not None]
    place.file.write_text("\n".join(lines))
    line = refused("nightly", place.file)
    assert line.startswith(f"headway: {place.file}: ")
    assert words in line
    assert not (place.out / "current").exists()


def test_the_example() -> None:
    """It says the defaults, as it claims."""
    file = Path(__file__).parents[1] / "examples" / "nightly.yaml"
    found = load_plan(file)
    needed = {name: getattr(found.plan, name) for name in ("feeds", "output")}
    least = Plan.model_validate({**needed, "dates": "today..+7"})
    assert found.plan == least
    assert found.settings(8) == load_settings("laptop", (), {"build.days": ("days", 8)})


def test_bad_file(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    assert f"{file}: No such file or directory" in refused("nightly", file)
    file.write_text("")
    assert f"{file}: no key feeds" in refused("nightly", file)
    file.write_text("- a\n- b\n")
    assert f"{file}: keys and values are wanted, as in headway nightly --help" in refused("nightly", file)
    file.write_bytes("feeds: [ö]".encode("latin-1"))
    assert f"{file}: not a readable YAML file" in refused("nightly", file)
    assert "PLAN" in refused("nightly")
