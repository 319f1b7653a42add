"""`headway study`: what it measures, tells and keeps, and what it refuses."""

from __future__ import annotations

import csv
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from command import done, headway, refused
from conftest import connections_store
from headway.cluster.devices import Found
from headway.kernels.levels import NEVER
from headway.pipeline import study
from headway.pipeline.asked import Answer
from headway.pipeline.cpu import CpuEngine
from headway.pipeline.engines import ALGORITHMS, Task, algorithms_for
from headway.pipeline.query_file import Queries
from headway.pipeline.study import contestants, measure, plots, sentences
from headway.pipeline.study import report as written
from headway.pipeline.study.tables import OWN_WIDTH, Table
from headway.pipeline.study.variants import SCHEMES, WIDTHS
from headway.storage.store import Store, load
from tiny import feed

PROGRAM = Path(sys.executable).with_name("headway")
TIMETABLE = "\n".join(
    f"t{hour}: A {hour}:00, B {hour}:10, C {hour}:20, D {hour}:30, E {hour}:40, F {hour}:50, G {hour}:55\n"
    f"u{hour}: G {hour}:05, D {hour}:20, A {hour}:59"
    for hour in range(6, 20)
)
TABLES = ("algorithms", "batches", "cluster_widths", "processed", "quantities", "subtrips")
PLOTS = ("algorithms", "cluster_widths", "quantities")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two lines, and a whole study of it."""
    folder = tmp_path_factory.mktemp("study")
    done("build", feed(folder, TIMETABLE), "-o", folder / "the.store", "--date", "2026-06-10", "--walk", "none", "-q")
    done(*words(folder, folder / "report"))
    return folder


def words(folder: Path, output: Path, *more: str) -> tuple:
    return ("study", folder / "the.store", "-o", output, "--device", "cpu", "-q", *more)


def rows(report: Path, name: str) -> list[dict[str, str]]:
    with (report / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def measured(report: Path) -> dict[str, Any]:
    return json.loads((report / "measurements.json").read_text())


def test_report_is_complete(folder: Path) -> None:
    """Every table as CSV and in the text, every plot in the text, and nothing else."""
    report = folder / "report"
    files = {"report.md", "measurements.json", *(f"{n}.csv" for n in TABLES), *(f"{n}.png" for n in PLOTS)}
    assert {file.name for file in report.iterdir()} == files
    text = (report / "report.md").read_text()
    assert set(re.findall(r"\]\(([a-z_.]+)\)", text)) == files - {"report.md", "measurements.json"}
    for name in PLOTS:
        assert (report / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    for name in TABLES:
        header = (report / f"{name}.csv").read_text().splitlines()[0]
        assert "| " + " | ".join(next(csv.reader([header]))) + " |" in text
    blocks = [block.splitlines() for block in text.split("\n\n") if block.startswith("| ")]
    assert [len({line.count("|") for line in block}) for block in blocks] == [1] * len(TABLES)
    names = [row["algorithm"] for row in rows(report, "algorithms")]
    assert sorted(name for name in names if ", sub-trips" not in name) == sorted(
        algorithms_for(load(folder / "the.store"))
    )
    assert [row["device"] for row in rows(report, "algorithms")] == ["cpu"] * len(names)
    assert "Virtual warps" in text.split("## Left out")[1]


def test_tables_agree_with_the_measurements(folder: Path) -> None:
    report = folder / "report"
    times = {name: np.array(some) for name, some in measured(report)["times"].items()}
    assert {len(some) for some in times.values()} == {70}  # seven stops, ten departures each
    scan, esdg = times["connection-scan on cpu"].mean(), times["esdg on cpu"].mean()
    for row in rows(report, "algorithms"):
        name, _, variant = row["algorithm"].partition(", ")
        some = times[f"{name} on cpu" + (f", {variant}" if variant else "")]
        assert int(row["queries"]) == 70
        expected = (some.mean(), np.median(some), np.percentile(some, 95), scan / some.mean(), esdg / some.mean())
        found = [float(row[c]) for c in ("mean ms", "median ms", "p95 ms", "x connection scan", "x ESDG")]
        assert found == pytest.approx(expected)
        assert float(row["median x"]) == pytest.approx(np.median(times["connection-scan on cpu"] / some))
    for row in rows(report, "cluster_widths"):
        variant = "" if row["cluster, min"] == "60" else f", {row['cluster, min']} min"
        some = times[f"cluster-ap on cpu{variant}"]
        assert float(row["mean ms"]) == pytest.approx(some.mean())
        assert float(row["median x, own width"]) == pytest.approx(np.median(times["cluster-ap on cpu"] / some))
    quantity = {row["quantity"]: float(row["value"]) for row in rows(report, "quantities")}
    assert quantity["parallel factor, connections / l"] == (
        quantity["connections"] / quantity["longest path l of the edge-scan-dependency graph"]
    )
    for row in rows(report, "subtrips"):
        assert float(row["parallel factor"]) == int(row["connections"]) / int(row["diameter"])
    batch = rows(report, "batches")[1]
    assert float(batch["queries/s"]) == measured(report)["batches"]["edge-profile on cpu"]["queries per second"]


def test_variants_are_what_a_build_makes(folder: Path) -> None:
    """Other clusters and sub-trips, made of a store, against stores built so."""
    report, path = folder / "report", folder / "feed"
    build = ("build", path, "--date", "2026-06-10", "--walk", "none", "-q")
    for minutes in WIDTHS:
        done(*build, "-o", folder / f"{minutes}.store", "--cluster-minutes", minutes)
    widths = {int(row["cluster, min"]): int(row["progressions"]) for row in rows(report, "cluster_widths")}
    assert widths == {m: load(folder / f"{m}.store").facts["counts"]["progressions"] for m in WIDTHS}
    assert len(set(widths.values())) > 1
    found = {}
    for scheme in SCHEMES:
        done(*build, "-o", folder / f"{scheme}.store", "--subtrips", scheme)
        counts = load(folder / f"{scheme}.store").facts["counts"]
        found[scheme] = (counts["connections"], counts["connection types"])
    assert found["none"] < found["sqrt-trip"]
    table = rows(report, "subtrips")
    assert {row["sub-trips"]: (int(row["connections"]), int(row["types"])) for row in table} == found
    diameters = {row["sub-trips"]: int(row["diameter"]) for row in table}
    assert diameters["sqrt-trip"] < diameters["none"] == 6


def test_a_store_with_sub_trips(folder: Path) -> None:
    """The scheme that the store has is among the three, and the others are made."""
    done("build", folder / "feed", "-o", folder / "sub.store", "--date", "2026-06-10", "--walk", "none", "-q",
         "--subtrips", "sqrt-mean")  # fmt: skip
    done("study", folder / "sub.store", "-o", folder / "sub", "--device", "cpu", "-q")
    counts = ("algorithm", "sub-trips", "connections", "diameter")
    both = [[[row[name] for name in counts] for row in rows(folder / name, "subtrips")] for name in ("report", "sub")]
    assert both[0] == both[1]
    assert [row[1] for row in both[0]] == [*SCHEMES, *SCHEMES]


def test_the_papers_queries() -> None:
    """A hundred sources that something leaves, ten departures from each, always the same."""
    ring = [(v, (v + 1) % 150, 1000 + 10 * v, 60) for v in range(150)]
    store = connections_store([*ring, (0, 1, 90_000, 60)], 200)
    found = measure.paper_queries(store)
    counts = np.unique(found.origin, return_counts=True)
    assert (len(counts[0]), set(counts[1])) == (100, {10})
    assert counts[0].max() < 150
    assert 1000 <= found.departure.min() < 10_000
    assert 80_000 < found.departure.max() < 86_400
    assert len(np.unique(found.origin[:200])) > 80  # any first few are a sample of all
    again = measure.paper_queries(store)
    assert (again.origin.tolist(), again.departure.tolist()) == (found.origin.tolist(), found.departure.tolist())


def test_killed_and_resumed(folder: Path, tmp_path: Path) -> None:
    """A killed process leaves what it has measured; a resumed study keeps it and adds the rest."""
    output = tmp_path / "a"
    file = tmp_path / "a.partial" / "measurements.json"
    process = subprocess.Popen([PROGRAM, *map(str, words(folder, output))], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not file.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    # As a kill in the middle of the turns leaves it: some of the times, of which no clock would tell these.
    before = json.loads(file.read_text())
    whole = measured(folder / "report")
    before["arrivals"] = whole["arrivals"][:40]
    kept = {"connection-scan on cpu": [1.5] * 40, "esdg on cpu": [2.5] * 33, "cluster-ap on cpu, 5 min": [3.5] * 20}
    file.write_text(json.dumps(before | {"times": kept}))
    assert "is unfinished; go on with --resume, or begin again with --overwrite" in refused(*words(folder, output))
    assert "was begun with other length;" in refused(*words(folder, output, "--resume", "--quick"))
    done(*words(folder, output, "--resume"))
    found = measured(output)
    for name, times in found["times"].items():
        some = kept.get(name, [])
        assert (len(times), times[: len(some)]) == (70, some)
        assert not set(times[len(some) :]) & {1.5, 2.5, 3.5}
    assert (found["arrivals"], found["stores"]) == (whole["arrivals"], whole["stores"])
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_nothing_is_measured_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all measured, a resumed study only writes its report, which is the same."""
    output = tmp_path / "a"

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(study, "publish", interrupted)
        result = headway(*words(folder, output))
    assert result.status == 130
    assert result.err.endswith("headway: interrupted; go on with --resume\n")
    monkeypatch.setattr(measure.Stopwatch, "_timed", None)
    monkeypatch.setattr(measure.Stopwatch, "_batch", None)
    before = (tmp_path / "a.partial" / "measurements.json").read_bytes()
    done(*words(folder, output, "--resume"))
    assert (output / "measurements.json").read_bytes() == before


def test_words_follow_from_the_tables() -> None:
    """The fastest is first by the column that orders them; smaller clusters are faster only where the smallest is."""
    names = ("algorithm", "device", "median ms", "x connection scan", "median x")
    table = Table("algorithms", names, [("esdg", "cpu", 1.0, 9.0, 2.0), ("edge-profile", "cpu", 0.5, 1.5, 3.0)])
    study = SimpleNamespace(devices=[])
    assert "edge-profile on cpu, 0.5 ms in the median, 3 x the speed" in sentences.algorithms(study, table)[0]  # type: ignore[arg-type]
    study = SimpleNamespace(devices=["cpu"], store=SimpleNamespace(cluster_ap=SimpleNamespace(width=3600)))
    for speeds, verdict in {(1.2, 1.1, 1.0): "smaller is faster", (1.02, 1.03, 0.9): "smaller is not faster"}.items():
        some = [("cpu", minutes, speed) for minutes, speed in zip((5, 60, 240), speeds, strict=True)]
        table = Table("cluster_widths", ("device", "cluster, min", OWN_WIDTH), some)  # type: ignore[arg-type]
        assert verdict in sentences.clusters(study, table)[1]  # type: ignore[arg-type]


def test_names_of_close_points_stand_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two schemes of sub-trips whose factors and speeds differ by little, as on real feeds."""
    points = [("none", 396.0, 0.0317), ("sqrt-trip", 895.0, 0.0440), ("sqrt-mean", 921.0, 0.0449)]
    found = [dict(zip(("sub-trips", "parallel factor", "median x"), point, strict=True)) for point in points]
    drawn = []
    monkeypatch.setattr(plots, "_save", lambda figure, axes, file: drawn.append((figure, axes)))
    given: Any = SimpleNamespace(devices=["cpu"], schemes_of=lambda name, device: found)
    plots.factors(given, Table("quantities", (), []), tmp_path / "a.png")
    (figure, axes), *_ = drawn
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) == 3
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


@pytest.mark.parametrize("overwrite", [False, True])
def test_something_comes_to_lie_there_meanwhile(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    """It stays, and so does what is measured: moved away, the study goes on."""
    output, options = tmp_path / "a", ["--overwrite"] if overwrite else []
    if overwrite:
        shutil.copytree(folder / "report", output)
    write = written.write_report

    def meanwhile(*given: Any) -> None:
        write(*given)
        output.mkdir(exist_ok=True)
        (output / "thesis.txt").write_text("mine")

    with monkeypatch.context() as patch:
        patch.setattr(written, "write_report", meanwhile)
        line = refused(*words(folder, output, *options))
    assert (
        "also holds 'thesis.txt'" if overwrite else "was made meanwhile; move it away and go on with --resume"
    ) in line
    assert (output / "thesis.txt").read_text() == "mine"
    (output / "thesis.txt").unlink()
    if not overwrite:
        output.rmdir()
    before = (tmp_path / "a.partial" / "measurements.json").read_bytes()
    monkeypatch.setattr(measure.Stopwatch, "_timed", None)
    monkeypatch.setattr(measure.Stopwatch, "_batch", None)
    done(*words(folder, output, "--resume", *options))
    assert (output / "measurements.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert not (output / "job.json").exists()


def test_damaged_measurements(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(measure.Stopwatch, "measure", interrupted)
        assert headway(*words(folder, tmp_path / "a")).status == 130
    times = ('{"times": 5}', '{"times": {"esdg on cpu": ["a"]}}', '{"times": {"connection-scan on cpu": [1, 2]}}')
    for text in ("{", '{"what": 1}', "[]", '{"arrivals": 3}', '{"stores": {"": 3}}', *times):
        (tmp_path / "a.partial" / "measurements.json").write_text(text)
        line = refused(*words(folder, tmp_path / "a", "--resume"))
        assert line.endswith("measurements.json: damaged; begin again with --overwrite")


@pytest.mark.parametrize("many", [1, 70])
def test_a_difference_stops_the_study(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    """One arrival a second late, for a single query or in a batch, is told with the query; nothing is published."""
    make = ALGORITHMS["edge-profile"]
    queries = measure.paper_queries(load(folder / "the.store"))
    bad = int(queries.departure.max())  # some query's

    def broken(store: Store):
        kernel = make(store)

        def run(task: Task) -> None:
            kernel(task)
            for row in np.flatnonzero((task.leave == bad) & (many in (1, len(task.leave)))):
                reached = task.out[row] != NEVER
                task.out[row, np.flatnonzero(reached)[-1]] += 1

        return run

    monkeypatch.setitem(ALGORITHMS, "edge-profile", broken)
    line = refused(*words(folder, tmp_path / "a"))
    k = int(np.flatnonzero(queries.departure == bad)[0])
    origin = load(folder / "the.store").stops[queries.origin[k]]
    where = "edge-profile on cpu" if many == 1 else "edge-profile on cpu, all queries at once,"
    hours, minutes = divmod(bad // 60, 60)
    clock = f"{hours}:{minutes:02}:{bad % 60:02}"
    assert line.startswith(
        f"headway: {where} differs from the connection scan for query {k}, from '{origin}' at {clock};"
    )
    assert not (tmp_path / "a").exists()


def test_quick_gives_slow_algorithms_fewer_queries(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The column of counts says so, and speedups are over the queries that both have answered."""
    monkeypatch.setattr(study, "QUICK", measure.Effort(30, 1e-9))
    done(*words(folder, tmp_path / "a", "--quick"))
    table = {row["algorithm"]: row for row in rows(tmp_path / "a", "algorithms")}
    assert {name: int(row["queries"]) for name, row in table.items()} == {
        name: 30 if name == "connection-scan" else measure.FEWEST for name in table
    }
    times = measured(tmp_path / "a")["times"]
    scan, edge = (np.array(times[f"{name} on cpu"]) for name in ("connection-scan", "edge"))
    assert float(table["edge"]["x connection scan"]) == pytest.approx(scan[:10].mean() / edge.mean())
    assert "`--quick`" in (tmp_path / "a" / "report.md").read_text()


class FakeGpuEngine(CpuEngine):
    """The batch kernel's interface over a CPU engine."""

    keeps_order = True

    def __init__(self, store: Store, memory: int | None) -> None:
        super().__init__(store)

    def compute(self, some: Queries, asked: Answer) -> np.ndarray:
        return np.concatenate([compute() for _, compute in self.pieces(some, asked)])


def test_a_gpu_stands_in_the_same_tables(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what a GPU's modules offer: virtual warps, read-back policies, batches, and the CPU's baseline."""
    asked = []

    class Relaxation:
        def __init__(self, store: Store, name: str, sync: int | str) -> None:
            asked.append((name, sync))
            self._kernel = ALGORITHMS[name](store)

        def search(self, order: np.ndarray, sources: tuple, leave: np.ndarray, out: np.ndarray) -> None:
            count = len(leave)
            nothing = (np.zeros(count + 1, np.int64), np.empty(0, np.uint32))
            self._kernel(Task(order, sources, leave, nothing, np.full(count, NEVER, np.int32), out))

    names = ("esdg", "connection", "connection-type", "connection-type-ap", "cluster-ap", "edge")
    offered = {name: ALGORITHMS[name] for name in names} | {name: ALGORITHMS["edge"] for name in contestants.LANES}
    modules = {
        "device_engines": SimpleNamespace(ALGORITHMS=offered),
        "device_relaxation": SimpleNamespace(DeviceRelaxation=Relaxation),
        "gpu": SimpleNamespace(GpuEngine=FakeGpuEngine),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, f"headway.pipeline.{name}", module)
    for name in (contestants, study.setting):
        monkeypatch.setattr(name, "cuda_device", lambda: Found("Some GPU"))
    done("study", folder / "the.store", "-o", tmp_path / "a", "-q", "--device", "cuda", "--quick")
    table = rows(tmp_path / "a", "algorithms")
    assert [row["algorithm"] for row in table if row["device"] == "cpu"] == ["connection-scan", "edge-profile"]
    shown = {row["algorithm"] for row in table if ", " not in row["algorithm"]}
    assert shown == {"connection-scan", "edge-profile", *names, "batch"}
    assert all(row["x ESDG"] for row in table if row["device"] == "cuda")
    assert [row["lanes"] for row in rows(tmp_path / "a", "virtual_warps")] == ["1", "2", "4", "8", "16", "32"]
    policies = ["every round", "every sqrt(d) rounds", "on the device"]
    assert [row["read back"] for row in rows(tmp_path / "a", "read_back")] == policies
    assert set(asked) == {("cluster-ap", 1), ("cluster-ap", 2), ("cluster-ap", "device")}  # the diameter is 6
    assert [row["engine"] for row in rows(tmp_path / "a", "batches")] == ["connection-scan", "edge-profile", "batch"]
    text = (tmp_path / "a" / "report.md").read_text()
    assert "GPU Some GPU" in text
    assert "## Left out" not in text
    assert (tmp_path / "a" / "virtual_warps.png").exists()


def test_refusals(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line each, and nothing written."""
    monkeypatch.setattr(contestants, "cuda_device", lambda: Found(trouble="no NVIDIA driver"))
    store, output = folder / "the.store", tmp_path / "a"
    line = refused("study", store, "-o", output, "--device", "cuda")
    assert line.endswith("--device cuda: no NVIDIA driver; leave it out, or use --device cpu")
    near = "stop_id,stop_lat,stop_lon\nA,50,8\nB,50.001,8"
    done(
        "build",
        feed(tmp_path, "t: A 8:00, B 8:10", stops=near),
        "-o",
        tmp_path / "w.store",
        "--date",
        "2026-06-10",
        "-q",
    )
    line = refused("study", tmp_path / "w.store", "-o", output)
    assert "the paper's study is defined on connections alone, and this store has footpaths" in line
    assert line.endswith("build one with --walk none")
    (tmp_path / "empty").mkdir()
    assert "empty" in refused("study", tmp_path / "empty", "-o", output)
    assert "does not exist; create it first" in refused("study", store, "-o", tmp_path / "no" / "a")
    assert not output.exists()
    assert not output.with_name("a.partial").exists()


def test_outputs_in_the_way(folder: Path, tmp_path: Path) -> None:
    """A report is replaced by --overwrite, anything else never."""
    store = folder / "the.store"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    assert "exists; name another output" in refused("study", store, "-o", tmp_path / "mine")
    assert "is no report of a study" in refused("study", store, "-o", tmp_path / "mine", "--overwrite")
    (tmp_path / "mine" / "report.md").write_text("mine too")
    assert "also holds 'thesis.txt'" in refused("study", store, "-o", tmp_path / "mine", "--overwrite")
    assert (tmp_path / "mine" / "report.md").read_text() == "mine too"
    (tmp_path / "mine" / "thesis.txt").unlink()
    done(*words(folder, tmp_path / "mine", "--overwrite"))
    assert rows(tmp_path / "mine", "quantities") != []
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]


def test_one_vertex_and_no_trips(tmp_path: Path) -> None:
    """No label ever falls: no factor; no trips: no sub-trips, which the report says with a way out."""
    (tmp_path / "c.txt").write_text("0 0 5 1\n")
    done("build", "--connections", tmp_path / "c.txt", "-o", tmp_path / "c.store", "-q")
    done("study", tmp_path / "c.store", "-o", tmp_path / "a", "--device", "cpu", "-q")
    quantity = {row["quantity"]: row["value"] for row in rows(tmp_path / "a", "quantities")}
    assert (quantity["temporal diameter d, at least"], quantity["parallel factor, connections / d"]) == ("0", "")
    assert not (tmp_path / "a" / "subtrips.csv").exists()
    text = (tmp_path / "a" / "report.md").read_text()
    assert "Sub-trips (Table IV): the store knows no trips" in text.split("## Left out")[1]
    assert "| parallel factor, connections / d | – |" in text


def test_no_connections(tmp_path: Path) -> None:
    """There is no such store to study: the build says so."""
    (tmp_path / "c.txt").write_text("# nothing\n")
    line = refused("build", "--connections", tmp_path / "c.txt", "-o", tmp_path / "c.store")
    assert line.endswith("no connections in it; write a line `u v t lambda` for each")


def test_other_commands_start_without_matplotlib() -> None:
    code = """
import sys
import headway.pipeline.cli, headway.pipeline.study
print([name for name in sys.modules if name.split(".")[0] in ("matplotlib", "cuda", "cupy") or "numba.cuda" in name])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
