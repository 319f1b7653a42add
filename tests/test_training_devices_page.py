"""docs/training-devices.md: its examples run, and the options that it names are there."""

from __future__ import annotations

import re
from pathlib import Path

from command import done
from headway.pipeline.settings import load_settings

PAGE = (Path(__file__).parents[1] / "docs" / "training-devices.md").read_text()


def test_python_runs() -> None:
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "docs/training-devices.md", "exec"), names)


def test_options_and_keys_are_there() -> None:
    text = done("train", "--help")
    for option in set(re.findall(r"--[a-z]+", PAGE)):
        assert option in text, option
    for override in re.findall(r"--set (\S+)", PAGE):
        load_settings("laptop", [override])
    assert load_settings("gpu-node").train.workers == "auto"
