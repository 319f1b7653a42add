"""Profiles: every key documented, shown as text that is a profile again, wrong ones told by file and key."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from command import done, headway
from headway.pipeline.profile_text import profile_text
from headway.pipeline.settings import Section, Settings, load_settings
from hypothesis import given
from hypothesis import strategies as st

CONF = Path(__file__).parents[1] / "conf"
PROFILES = sorted(file.stem for file in CONF.glob("*.yaml"))
KEYS = [
    key if not isinstance(value, Section) else f"{key}.{inner}"
    for key, value in Settings()
    for inner in (type(value).model_fields if isinstance(value, Section) else [""])
]


def lines(text: str) -> dict[str, str]:
    """Dotted key -> its line."""
    found, section = {}, ""
    for line in text.splitlines():
        key = line.strip().partition(":")[0]
        if not line or line.startswith("#"):
            continue
        if line.startswith("  "):
            found[f"{section}.{key}"] = line
        else:
            section = key
            found[key] = line
    return found


def test_profiles_there_are() -> None:
    assert PROFILES == ["cloud", "gpu-node", "laptop", "one-gpu"]
    kinds = {name: load_settings(name).workers.kind for name in PROFILES}
    assert kinds == {"cloud": "tcp://scheduler:8786", "gpu-node": "cuda", "laptop": "threads", "one-gpu": "threads"}
    answer = {name: load_settings(name).query.workers for name in PROFILES}
    assert answer == {"cloud": "ray://ray-head:10001", "gpu-node": "ray", "laptop": "threads", "one-gpu": "threads"}


def test_laptop_is_the_defaults_with_every_key() -> None:
    found = yaml.safe_load((CONF / "laptop.yaml").read_text())
    assert Settings.model_validate(found) == Settings()
    assert set(KEYS) <= set(lines((CONF / "laptop.yaml").read_text()))


@pytest.mark.parametrize("name", PROFILES)
def test_every_key_is_documented(name: str) -> None:
    for text in ((CONF / f"{name}.yaml").read_text(), profile_text(name)):
        assert [key for key, line in lines(text).items() if key in KEYS and len(line.partition("# ")[2]) < 8] == []
    assert set(KEYS) <= set(lines(profile_text(name)))


@pytest.mark.parametrize("name", PROFILES)
def test_what_is_shown_is_a_profile(name: str, tmp_path: Path) -> None:
    """Saved, changed and used; shown again it stays as it is."""
    saved = tmp_path / "mine.yaml"
    saved.write_text(done("config", "show", "--profile", name))
    assert load_settings(str(saved)) == load_settings(name)
    again = profile_text(str(saved))
    saved.write_text(again)
    assert profile_text(str(saved)) == again
    saved.write_text(again.replace("radius_m: 500.0", "radius_m: 321"))
    assert load_settings(str(saved)).walk.radius_m == 321


def test_who_set_what(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("# Ours.\nwalk:\n  # We walk far.\n  radius_m: 900  # by bicycle\nbuild: {days: 3}\n")
    text = profile_text(str(mine), ["build.days=4", "gpu={memory_gib: 3}"])
    found = lines(text)
    assert text.startswith("# Ours.\nthreads: ")
    assert "  # We walk far.\n  radius_m: 900.0 " in text
    assert found["walk.radius_m"].endswith("  # by bicycle")
    assert "days: 4 " in found["build.days"]
    assert "# [--set build.days=4]" in found["build.days"]
    assert "# [--set gpu={memory_gib: 3}] GPU memory" in found["gpu.memory_gib"]
    assert "# [default] metres a second" in found["walk.speed_mps"]
    mine.write_text(text)
    assert "[" not in profile_text(str(mine))


NAMES = st.text("#: '\"-az\u00e9/[]{},&*!|>%@`\\", min_size=1)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "threads": st.just("auto") | st.integers(1, 99),
            "build": st.fixed_dictionaries({}, optional={"days": st.integers(1, 366)}),
            "walk": st.fixed_dictionaries({}, optional={"radius_m": st.floats(0, 1e6), "detour": st.floats(0.1, 1e6)}),
            "workers": st.fixed_dictionaries({"kind": st.just("cuda")}, optional={"scratch": NAMES}),
            "query": st.fixed_dictionaries({"workers": st.just("a:1")}, optional={"count": st.integers(1, 99)}),
        },
    )
)
def test_any_settings_survive_being_shown(tmp_path_factory: pytest.TempPathFactory, told: dict) -> None:
    saved = tmp_path_factory.mktemp("profile") / "mine.yaml"
    saved.write_text(yaml.safe_dump(told))
    wanted = load_settings(str(saved))
    saved.write_text(profile_text(str(saved)))
    assert load_settings(str(saved)) == wanted


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("workers: {kind: gpu}", "mine.yaml: workers.kind: 'gpu' is none of threads, processes, cuda, or an address"),
        ("workers: {kind: tcp://host}", "mine.yaml: workers.kind: 'tcp://host' is none of"),
        ("workers: {kind: cuda, count: 0}", "mine.yaml: workers.count"),
        ("workers: {kind: cuda, memory_gib: 0.2}", "mine.yaml: workers.memory_gib"),
        (
            "workers: {count: 2}",
            "mine.yaml: workers: count is for local workers, kind processes or cuda; threads",
        ),
        ("workers: {kind: tcp://a:1, scratch: /x}", "mine.yaml: workers: scratch is for local workers"),
        ("workers: {size: 2}", "mine.yaml: workers.size: no such key; there are kind, count, memory_gib, scratch"),
        ("worker: {count: 2}", "mine.yaml: worker: no such key; there are threads, build, walk, gpu, workers, query"),
        (
            "query: {workers: tcp://a:1}",
            "query.workers: 'tcp://a:1' is none of threads, ray, auto, or an address such as host:6379",
        ),
        ("query: {count: 2}", "mine.yaml: query: count is for actors of Ray, workers ray or an address; threads"),
        ("query: {workers: ray, count: 0}", "mine.yaml: query.count"),
        ("build: {frames: polars}", "mine.yaml: build.frames: input should be 'auto', 'pandas' or 'cudf'"),
    ],
)
def test_wrong_profiles(text: str, cause: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(text)
    result = headway("config", "show", "--profile", mine)
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    assert cause in result.err
