"""Generated text: golden files, and the examples of docs/spaces.md. `HEADWAY_REFRESH=1` writes them anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from cuda_cases import schedules
from headway.kernels import relax
from headway.kernels.space import CSR, Schedule, csf_format, explain, kernel, parse, schedule, shuffle
from headway.kernels.space.assembly import source_of
from headway.kernels.space.explain import nest
from headway.kernels.space.rounds import Rounds
from relaxation import CPU, CUDA, RELAX, WINDOWED_CPU

GOLDEN = Path(__file__).with_name("golden")
DOCS = Path(__file__).parents[2] / "docs" / "spaces.md"
REFRESH = os.environ.get("HEADWAY_REFRESH") == "1"
SPMV, SPMM = schedule("y[i] = A[i, j] * x[j]", A=CSR), schedule("C[i, k] = A[i, j] * B[j, k]", A=CSR)
PATHS = schedule("d[v] min= d[u] + A[u, v] where active[u]", A=CSR)
MTTKRP = schedule("Y[i, r] = A[i, j, k] * B[j, r] * C[k, r]", A=csf_format(3))


def sources() -> dict[str, str]:
    """Texts by file: the ways of a GPU, earliest arrival, windowed sums, a union."""
    groups = {"cuda": dict(schedules()), "arrival": CPU | CUDA, "window": WINDOWED_CPU}
    found = {
        group: "\n\n".join(f"# --- {how}\n{kernel(made).source}" for how, made in table.items())
        for group, table in groups.items()
    }
    union = parse("Z[i, j] = A[i, j] * B[i, j] + 2 * C[i, j]")
    rounds = {name: Rounds(relax.ALGORITHMS[name].make(256), active="active") for name in ("cluster-ap", "edge")}
    found["rounds"] = "\n\n".join(f"# --- {how}\n{made.source}" for how, made in rounds.items())
    found["union"] = source_of(union, {"A": CSR, "B": CSR, "C": CSR}, CSR)
    return found


@pytest.mark.parametrize("group", ["cuda", "arrival", "window", "rounds", "union"])
def test_golden(group: str) -> None:
    path, text = GOLDEN / f"{group}.py.txt", sources()[group]
    if REFRESH:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text


def test_docs() -> None:
    """Every example of the documentation shows what is generated today."""
    names = {"spmv": SPMV, "spmm": SPMM, "mttkrp": MTTKRP, "relax": RELAX, "shuffle": shuffle}
    names |= {"Rounds": Rounds, "paths": PATHS}

    def example(found: re.Match[str]) -> str:
        made = eval(f"({found[1]})", names)
        assert isinstance(made, Schedule | Rounds)
        text = made.source if isinstance(made, Rounds) else re.sub(r"^    ", "", nest(made), flags=re.MULTILINE)
        return f"```python\n{found[1]}\n```\n\n```text\n{text}```\n"

    text = DOCS.read_text()
    now = re.sub(r"```python\n([^`]*)\n```\n\n```text\n(.*?)```\n", example, text, flags=re.DOTALL)
    if REFRESH:
        DOCS.write_text(now)
    assert text == now or REFRESH
    assert len(re.findall(r"```text", now)) == 19


def test_explain_shows_every_step() -> None:
    made = SPMV.fuse("i", "j", "f").pos("f", "p", "A").split("p", "b", "q", 64).parallelize("b", "threads", "carry")
    text = explain(made)
    steps = re.findall(r"^\.\w+", text, re.MULTILINE)
    assert steps == [".fuse", ".pos", ".split", ".parallelize"]
    assert 'f fuses compressed levels of A: pos("f", ..., "A") comes next' in text
    assert text.endswith(nest(made))
