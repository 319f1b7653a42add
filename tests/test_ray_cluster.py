"""A Ray cluster of several nodes, all on this machine: its address, and a node that is lost."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import done, refused, tiny_store
from headway.cluster import ray as ray_actors
from headway.cluster.ray import Pool, actors
from headway.pipeline.asked import asked_for
from headway.pipeline.query import run_queries
from headway.pipeline.settings import Settings
from headway.pipeline.sharded import Sharded
from headway.storage.errors import HeadwayError
from headway.storage.store import fingerprint, load
from ray.cluster_utils import Cluster
from replicas import Slow, threads_of


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A head where no actor goes, and two nodes with room for two each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        options = {"include_dashboard": False, "object_store_memory": 2**28}
        found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **options})
        for _ in range(2):
            found.add_node(num_cpus=2, **options)
        yield found
        found.shutdown()


@pytest.fixture(scope="module")
def job(tmp_path_factory) -> Path:
    """A store, queries, and undisturbed answers in process."""
    folder = tmp_path_factory.mktemp("cluster")
    tiny_store(folder)
    random = np.random.default_rng(7)
    frame = pd.DataFrame(
        {"origin": random.choice(list("ABCX"), 70_000), "departure": random.integers(25000, 36000, 70_000)}
    )
    frame.to_parquet(folder / "q.parquet")
    done(*words(folder), "-o", folder / "whole")
    return folder


def words(folder: Path) -> tuple:
    return ("query", folder / "the.store", folder / "q.parquet", "--answer", "reach", "-q")


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_address(cluster: Cluster, job: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(f"threads: 1\nquery: {{workers: {cluster.address}, count: 3}}\n")
    done(*words(job), "-o", tmp_path / "a", "--profile", mine)
    assert content(tmp_path / "a") == content(job / "whole")
    address = re.escape(cluster.address)
    assert re.search(
        f"query.workers {address}: room for 0 actors with a GPU",
        refused(*words(job), "-o", tmp_path / "b", "--profile", mine, "--set", "query.count=auto", "--device", "cuda"),
    )


def test_actors_that_find_no_room(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than there is room for may be asked for in a cluster, which may grow; not for ever."""
    monkeypatch.setattr("headway.cluster.ray.START_S", 3)
    with pytest.raises(HeadwayError, match=r"for 3 s no actor with 64 threads could start; make room in the cluster"):
        actors(cluster.address, 1, False, 64, abs).__enter__()  # type: ignore[arg-type]


def test_actor_takes_its_share_of_the_node_that_it_comes_to(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no GPU when actors are asked for; then come nodes with 6 cores for each, and with 1."""
    nodes, opened = [], Pool.open

    def grow(pool: Pool) -> None:
        for cores in (13, 2):
            nodes.append(cluster.add_node(num_cpus=cores, num_gpus=2, object_store_memory=2**28))
        opened(pool)

    try:
        with monkeypatch.context() as patch:
            patch.setattr(Pool, "open", grow)
            with actors(cluster.address, 4, True, None, threads_of) as pool:
                assert (pool.room.count, pool.room.threads) == (4, None)
                found: set[int] = set()
                while len(found) < 2:  # others are still starting
                    found |= {threads for _, threads in pool.run([0.1] * 16)}
        assert found == {6, 1}
        with actors(cluster.address, 1, True, 3, threads_of) as pool:
            assert [threads for _, threads in pool.run([0])] == [3]
    finally:
        for node in nodes:
            cluster.remove_node(node)


def test_no_node_has_cores_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an actor on the CPU takes is not guessed."""
    head = {"Alive": True, "NodeID": "a", "Resources": {"memory": 1e9}}
    monkeypatch.setattr("ray.nodes", lambda: [head])
    with pytest.raises(HeadwayError, match=r"query.workers auto: no node has cores yet; say --set threads=N, how many"):
        ray_actors._room("auto", 4, None, None)
    assert ray_actors._room("auto", 4, None, 8) == ray_actors.Room(4, False, 8)
    assert ray_actors._room("auto", 4, True, None) == ray_actors.Room(4, True, None)


def test_lost_node(cluster: Cluster, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon of a node is killed (SIGKILL) in the middle of a batch, and its actors with it: others take over."""
    notes = tmp_path / "notes"
    notes.mkdir()
    node = max(cluster.worker_nodes, key=lambda node: node.node_id)
    done_so_far = 0

    def advance(rows: int) -> None:
        nonlocal done_so_far
        if done_so_far < 20_000 <= done_so_far + rows:
            os.kill(node.all_processes["raylet"][0].process.pid, signal.SIGKILL)
        done_so_far += rows

    store, place = load(job / "the.store"), job / "the.store"
    asked, mark = asked_for(store, "reach", "15,30,45,60", None), fingerprint(place)
    monkeypatch.setattr("headway.pipeline.sharded.SECONDS", 0.02)
    with actors(cluster.address, None, False, 1, Slow(place, mark, asked, "edge-profile", Settings(), notes)) as pool:
        assert pool.room.count == 4
        answered = Sharded(store, pool, asked)
        run_queries(store, answered, job / "q.parquet", tmp_path / "a", asked, fingerprint=mark, advance=advance)
    assert content(tmp_path / "a") == content(job / "whole")
    assert len(list(notes.iterdir())) >= 3
