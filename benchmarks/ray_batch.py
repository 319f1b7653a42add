"""`reach` queries in process and on Ray actors, Parquet to Parquet; start-up and the driver's memory told apart.

    python benchmarks/ray_batch.py --store FOLDER --name city    # writes results/ray-batch-city.json

On GPUs: the first of them in process, one actor, and an actor per GPU. On CPUs: all cores in process, one actor with
all of them, and an actor per core.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import tempfile
from pathlib import Path

from batch import HEADWAY, RATE, write_queries
from harness import Finished, command, machine, record
from headway.cluster.devices import cuda_device
from headway.storage.store import load

FEW = 100  # queries of a first run, in which kernels are compiled


def run(given: argparse.Namespace, queries: Path, output: Path, options: list[str]) -> tuple[Finished, str]:
    """One run of the command, and the SHA-256 of its answers."""
    done = command(
        [HEADWAY, "query", given.store, queries, "-o", output, "--answer", "reach", "--device", given.device, *options]
    )
    digest = hashlib.sha256()
    for part in sorted(output.iterdir()):
        digest.update(part.read_bytes())
    shutil.rmtree(output)
    return done, digest.hexdigest()


def steady(output: str, way: str) -> int:
    """Queries a second from the first line of progress, before which kernels are compiled, to the last."""
    lines = [(int(count.replace(",", "")), int(rate.replace(",", ""))) for count, rate in RATE.findall(output)]
    if len(lines) < 2:
        raise SystemExit(f"{way}: over before the second line of progress; raise --queries")
    (first, first_rate), (last, last_rate) = lines[0], lines[-1]
    return round((last - first) / (last / last_rate - first / first_rate))


def measure(given: argparse.Namespace, work: Path) -> dict:
    """Seconds and queries a second of each way, the fastest of a few runs; memory of the command's own process."""
    many, few, output = work / "many.parquet", work / "few.parquet", work / "answers"
    store = load(given.store)
    write_queries(store, given.queries, many)
    write_queries(store, FEW, few)
    devices, what, one = machine()["cores"], "core", "all cores"
    if given.device == "cuda":
        devices, what, one = cuda_device().count, "GPU", "one GPU"
    each = ["--set", "threads=1"] if given.device == "cpu" else []
    ways = {f"in process, {one}": [], f"an actor with {one}": ["--set", "query.workers=ray", "--set", "query.count=1"]}
    for count in given.actors or [devices]:
        if count > 1:
            ways[f"{count} actors, each with a {what}"] = [
                "--set", "query.workers=ray", "--set", f"query.count={count}", *each
            ]  # fmt: skip
    found: dict[str, list[tuple[Finished, int]]] = {way: [] for way in ways}
    answers = set()
    for options in ways.values():
        run(given, few, output, options)  # compiled
    for _ in range(given.repeats):  # in turn, so that what else the machine does hits all
        for way, options in ways.items():
            done, digest = run(given, many, output, options)
            answers.add(digest)
            found[way].append((done, steady(done.output, way)))
            print(way, done.figures(), found[way][-1][1], "queries/s once started", flush=True)
    if len(answers) > 1:
        raise AssertionError("answers differ")
    results: dict[str, dict] = {}
    first = max(rate for _, rate in next(iter(found.values())))
    for way, runs in found.items():
        done, rate = max(runs, key=lambda one: one[1])
        results[way] = {
            "wall s": round(done.wall_s, 2),
            "start-up s": round(done.wall_s - given.queries / rate, 2),
            "queries/s, whole": round(given.queries / done.wall_s),
            "queries/s, once started": rate,
            "over in process, once started": round(rate / first, 3),
            "driver, peak MiB": max(round(done.peak_rss_mib) for done, _ in runs),
        }
    return results | {"all answers the same bytes": True}


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--queries", type=int, default=10_000_000)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu" if cuda_device().trouble else "cuda")
    parser.add_argument("--actors", type=int, nargs="*", help="how many, instead of one per GPU or core")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--work", type=Path, help="a folder with room for queries and answers; else a temporary one")
    given = parser.parse_args()
    work = Path(tempfile.mkdtemp(dir=given.work))
    try:
        results = measure(given, work)
    finally:
        shutil.rmtree(work)
    print(results)
    config = {
        "cutoffs_min": [15, 30, 45, 60],
        "device": given.device,
        "queries": given.queries,
        "repeats": given.repeats,
    }
    print(f"wrote {record(f'ray-batch-{given.name}', results, config=config).name}")


if __name__ == "__main__":
    main()
