"""The graph of a build: parts of trips, or raw connections, to connection types, clusters, progressions and profiles.

    parts of the trips --- expand_part ---> connections by range of tails --- assemble_part ---> parts of the store

A part is a fixed number of trips, a range of tails has about a fixed number of connections: both follow from the input
alone, and each sort is stable over parts in their order. So a store has the same bytes on any number of threads and
workers. Tasks do what is heavy and keep their results where they ran; the driver sees a few numbers of each, and in
the end each part once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from dask.delayed import Delayed, delayed

from ..cluster.dask import Workers, workers
from ..storage.errors import HeadwayError
from ..storage.store import Store
from ..storage.timetable import Timetable, Trips
from . import partition, vertex_order
from .ahead import prefetched, run_ahead
from .gather import Gathered, New, Sizes, in_memory, layout, sizes_of
from .gtfs.report import Report
from .network import Network, network_of
from .partition import Assembled, Expanded, TripPart

CONNECTIONS_A_PART = 1 << 18
"""About so many connections are in a range of tails. Fixed, as `network.TRIPS_A_PART` is."""

GATHERERS = 4
"""Threads that put parts into the store's arrays: memory is what they wait for."""

FOR_A_GPU = 1 << 22
"""The same for a GPU, which needs more work at a time; the bytes of a store are the same."""

MOST_CLUSTERS = 2**16  # their numbers are uint16


@dataclass(frozen=True)
class RawConnections:
    """Connections without trips, in any order, repeated ones included: `tail`, `head` uint32, `departure`,
    `duration` int32."""

    tail: np.ndarray
    head: np.ndarray
    departure: np.ndarray
    duration: np.ndarray


class Span(NamedTuple):
    """What the driver has to know of an `Expanded`: its `begin`, the last departure and the longest duration."""

    begin: np.ndarray
    latest: int
    longest: int


class On(NamedTuple):
    """What runs the tasks, and whether each of them has a GPU for what a partition takes."""

    crew: Workers
    gpu: bool = False


def build_store(
    network: Network, subtrips: str, cluster_minutes: int, on: On, report: Report, new: New = in_memory
) -> Store | None:
    """The store of a network, vertices renumbered for locality; None where nothing departs.

    `subtrips` is `none`, `sqrt-trip` or `sqrt-mean`. `new` makes the arrays. The network's parts are let go on the way.
    Raises `HeadwayError` where clusters are too many for their numbers.
    """
    with report.step("order vertices"):
        number, components = vertex_order.order(network.footpaths, [fact.pairs for fact in network.facts], on.gpu)
        places, footpaths = vertex_order.renumber(network.places, network.footpaths, number)
    with report.step("connections"):
        expanded, spans, cuts = expand(network, number, subtrips, on)
        if not sum(int(span.begin[-1]) for span in spans):
            return None
        trips = _trips(network, number, on.crew, new)
    timetable = Timetable(network.horizon, network.vertices, places, trips, footpaths)
    return _assembled(timetable, expanded, spans, cuts, cluster_minutes, components, on, report, new)


def build_raw(
    raw: RawConnections,
    timetable: Timetable,
    cluster_minutes: int,
    on: On,
    report: Report,
    new: New = in_memory,
) -> Store:
    """The store of connections between the vertices of a timetable without trips; there is one at least."""
    parts = [slice(first, first + CONNECTIONS_A_PART) for first in range(0, len(raw.tail), CONNECTIONS_A_PART)]
    with report.step("order vertices"):
        pairs = [vertex_order.distinct_pairs(raw.tail[part], raw.head[part]) for part in parts]
        number, components = vertex_order.order(timetable.footpaths, pairs, on.gpu)
        places, footpaths = vertex_order.renumber(timetable.places, timetable.footpaths, number)
        timetable = replace(timetable, places=places, footpaths=footpaths)
    with report.step("connections"):
        cuts = _cuts(np.bincount(number[raw.tail], minlength=timetable.vertices), on.gpu)
        crew = on.crew
        (numbers,) = crew.persist([delayed(number, traverse=False)])
        ranged = delayed(_ranged)
        columns = (raw.tail, raw.head, raw.departure, raw.duration)
        expanded = crew.persist([ranged(*(column[part] for column in columns), numbers, cuts) for part in parts])
        spans = crew.compute([delayed(_span)(part) for part in expanded])
    return _assembled(timetable, expanded, spans, cuts, cluster_minutes, components, on, report, new)


def clusters_of(latest: int, cluster_minutes: int) -> int:
    """How many clusters lie from second 0 to the last departure."""
    return latest // (cluster_minutes * 60) + 1


def with_clusters(store: Store, cluster_minutes: int, threads: int) -> Store:
    """The same connections in clusters of another width, of which there are at most `MOST_CLUSTERS`."""
    graph, connections = store.cluster_ap, store.connections
    marks = np.arange(CONNECTIONS_A_PART, len(connections.departure), CONNECTIONS_A_PART)
    cuts = np.unique([0, *np.searchsorted(connections.offset, marks), len(graph.duration)])
    with workers("threads", None, None, None, threads) as crew:
        cover = delayed(partition.cover)
        parts = crew.compute(
            [
                cover(connections.offset[first : last + 1], connections.departure, cluster_minutes * 60)
                for first, last in pairwise(cuts.tolist())
            ]
        )
    per_type, number, per_cluster, start, end, step = (np.concatenate(column) for column in zip(*parts, strict=True))
    made = replace(
        graph,
        width=cluster_minutes * 60,
        type_cluster=_offsets(per_type),
        cluster_number=number,
        cluster_first=_offsets(per_cluster),
        start=start,
        end=end,
        step=step,
    )
    return replace(store, cluster_ap=made)


def with_subtrips(store: Store, subtrips: str, threads: int) -> Store:
    """The trips of a store with another scheme of sub-trips, between the same vertices."""
    counts = store.facts["counts"]
    network = network_of(store.timetable)
    with workers("threads", None, None, None, threads) as crew:
        each = np.arange(network.vertices, dtype=np.uint32)
        expanded, spans, cuts = expand(network, each, subtrips, On(crew))
        minutes, components = store.cluster_ap.width // 60, counts["connected components"]
        made = _assembled(store.timetable, expanded, spans, cuts, minutes, components, On(crew), Report(), in_memory)
    return replace(made, facts=store.facts | {"counts": made.facts})


def _offsets(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _cuts(departures: np.ndarray, gpu: bool) -> np.ndarray:
    """Ranges of vertices with about equally many departures (int64[vertices]): int64[ranges + 1]."""
    total = np.cumsum(departures)
    size = FOR_A_GPU if gpu else CONNECTIONS_A_PART
    marks = np.arange(size, total[-1], size)
    return np.unique([0, *np.searchsorted(total, marks), len(departures)])


def expand(network: Network, number: np.ndarray, subtrips: str, on: On) -> tuple[list[Delayed], list[Span], np.ndarray]:
    """The connections of each part, as kept tasks, and the ranges of tails by which they are grouped."""
    departures = np.zeros(network.vertices, np.int64)
    for fact in network.facts:
        departures[number[fact.vertex]] += fact.departures
    cuts = _cuts(departures, on.gpu)
    runs = _offsets(np.array([fact.runs for fact in network.facts], np.int64))
    mean = sum(fact.hops for fact in network.facts) / max(1, int(runs[-1]))
    (numbers,) = on.crew.persist([delayed(number, traverse=False)])
    expand = delayed(_expand)
    expanded = on.crew.persist(
        [
            expand(on.gpu, part, numbers, subtrips, mean, network.horizon, first_run, cuts)
            for part, first_run in zip(network.parts, runs.tolist(), strict=False)
        ]
    )
    return expanded, on.crew.compute([delayed(_span)(part) for part in expanded]), cuts


def _partition(gpu: bool) -> Any:
    """The functions of a partition, on the host or on a GPU: the same bytes."""
    if gpu:
        from . import device_graph

        return device_graph
    return partition


def _expand(
    gpu: bool,
    part: TripPart,
    number: np.ndarray,
    subtrips: str,
    mean: float,
    horizon: int,
    first_run: int,
    cuts: np.ndarray,
) -> Expanded:
    return _partition(gpu).expand_part(
        _renumbered(part, number), _pieces(part, subtrips, mean), horizon, first_run, cuts
    )


def _renumbered(part: TripPart, number: np.ndarray) -> TripPart:
    return part._replace(vertex=number[part.vertex])


def _pieces(part: TripPart, subtrips: str, mean: float) -> np.ndarray:
    """Positions of a sub-trip for each trip, int64[trips]; 0 for none. The paper's two schemes; `mean` is that of the
    hops of all runs."""
    hops = np.maximum(0, np.diff(part.offset) - 1)
    if subtrips == "none":
        return np.zeros(len(hops), np.int64)
    if subtrips == "sqrt-mean":
        hops = np.full(len(hops), mean)
    return np.maximum(2, np.rint(np.sqrt(hops))).astype(np.int64)


def _ranged(
    tail: np.ndarray,
    head: np.ndarray,
    departure: np.ndarray,
    duration: np.ndarray,
    number: np.ndarray,
    cuts: np.ndarray,
) -> Expanded:
    return partition.by_range(number[tail], number[head], departure, duration, np.empty(0, np.uint32), cuts)


def _span(part: Expanded) -> Span:
    return Span(part.begin, int(part.departure.max(initial=0)), int(part.duration.max(initial=0)))


def _trips(network: Network, number: np.ndarray, crew: Workers, new: New) -> Trips:
    """The trips of all parts, one after the other; the network keeps none."""
    rows, runs = (sum(getattr(fact, name) for fact in network.facts) for name in ("rows", "runs"))
    trips = Trips(
        network.ids,
        new("trips.offset", len(network.ids) + 1, np.int64),
        new("trips.vertex", rows, np.uint32),
        new("trips.arrival", rows, np.int32),
        new("trips.departure", rows, np.int32),
        new("trips.flags", rows, np.uint8),
        new("trips.run_offset", len(network.ids) + 1, np.int64),
        new("trips.shift", runs, np.int32),
    )
    trips.offset[0] = trips.run_offset[0] = 0
    trip = row = run = 0
    for part in _in_turn(network.parts, crew):
        trips.offset[trip : trip + len(part.offset)] = part.offset + row
        trips.run_offset[trip : trip + len(part.offset)] = part.run_offset + run
        rows_, runs_ = slice(row, row + len(part.vertex)), slice(run, run + len(part.shift))
        trips.vertex[rows_] = number[part.vertex]
        for name in ("arrival", "departure", "flags"):
            getattr(trips, name)[rows_] = getattr(part, name)
        trips.shift[runs_] = part.shift
        trip, row, run = trip + len(part.offset) - 1, rows_.stop, runs_.stop
    return trips


def _in_turn(tasks: list[Delayed], crew: Workers) -> Iterator[Any]:
    """Results one after the other, some tasks ahead; the list is emptied on the way, so that nothing is kept twice."""

    def waves() -> Iterator[list[Any]]:
        while tasks:
            some = tasks[: 2 * crew.count]
            del tasks[: 2 * crew.count]
            yield crew.compute(some)

    with prefetched(waves(), 1) as computed:
        for wave in computed:
            while wave:
                yield wave.pop(0)


def _assembled(
    timetable: Timetable,
    expanded: list[Delayed],
    spans: list[Span],
    cuts: np.ndarray,
    cluster_minutes: int,
    components: int,
    on: On,
    report: Report,
    new: New,
) -> Store:
    """The store of connections between vertices that have their final numbers. `expanded` is emptied."""
    latest, longest = (max(getattr(span, name) for span in spans) for name in ("latest", "longest"))
    _check(timetable.vertices, latest, longest, cluster_minutes)
    width = cluster_minutes * 60
    with report.shared_step("sort, types", "progressions", "profiles") as seconds:
        assembled, sizes = _assemble(timetable.vertices, expanded, spans, cuts, width, on, seconds)
        lay = layout(sizes)
        gathered = Gathered(sizes, timetable.vertices, width, lay, new)
        laid_out = delayed(_laid_out)
        tasks = [laid_out(on.gpu, part, lay.slots, lay.shift, lay.wide) for part in assembled]
        assembled.clear()
        parts = zip(range(len(sizes)), cuts.tolist(), _in_turn(tasks, on.crew), strict=False)
        for _ in run_ahead(lambda part: gathered.add(*part[:2], *part[2]), parts, GATHERERS):
            pass
        connections, graph, profile = gathered.all(new)
    facts = {
        "horizon": timetable.horizon,
        "stops": timetable.places.stops,
        "stations": len(timetable.places.table) - timetable.places.stops,
        "trips": len(timetable.trips.ids),
        "runs": len(timetable.trips.shift),
        "raw connections": sum(int(span.begin[-1]) for span in spans),
        "connections": len(connections.departure),
        "connection types": len(graph.duration),
        "edges": len(graph.edge_to),
        "progressions": len(graph.start),
        "footpaths": len(timetable.footpaths.to),
        "stops without departures": int(np.count_nonzero(np.diff(graph.vertex_edge) == 0)),
        "connected components": components,
    }
    return Store(timetable, connections, graph, profile, facts)


def _check(vertices: int, latest: int, longest: int, cluster_minutes: int) -> None:
    clusters = clusters_of(latest, cluster_minutes)
    if clusters > MOST_CLUSTERS:
        raise HeadwayError(
            f"departures lie in {clusters} clusters of {cluster_minutes} min, and {MOST_CLUSTERS} is the most; "
            "build with more --cluster-minutes or fewer --days"
        )
    if sum(max(1, value.bit_length()) for value in (vertices - 1, latest, longest)) > 64:
        raise HeadwayError("stops x horizon x longest hop are too large to sort; build with fewer --days")


def _assemble(
    vertices: int,
    expanded: list[Delayed],
    spans: list[Span],
    cuts: np.ndarray,
    width: int,
    on: On,
    seconds: dict[str, float],
) -> tuple[list[Delayed], list[Sizes]]:
    """The part of the store of each range of tails, as kept tasks that give (`Assembled`, its steps' seconds)."""
    piece, assemble = delayed(_piece), delayed(_assemble_pieces)
    tasks = [
        assemble(
            on.gpu,
            first,
            last,
            vertices,
            width,
            *(
                piece(part, place)
                for part, span in zip(expanded, spans, strict=True)
                if span.begin[place] < span.begin[place + 1]
            ),
        )
        for place, (first, last) in enumerate(pairwise(cuts.tolist()))
    ]
    expanded.clear()
    kept = on.crew.persist(tasks)
    sizes: list[Sizes] = []
    for size, took in on.crew.compute([delayed(_sizes)(part) for part in kept]):
        sizes.append(size)
        for name, second in took.items():
            seconds[name] += second
    return kept, sizes


def _piece(part: Expanded, place: int) -> tuple[np.ndarray, ...]:
    """A range's connections."""
    some = slice(part.begin[place], part.begin[place + 1])
    return tuple(column[some] for column in part[1:])


def _assemble_pieces(
    gpu: bool, first: int, last: int, vertices: int, width: int, *pieces: tuple[np.ndarray, ...]
) -> tuple[Assembled, dict[str, float]]:
    some = pieces or (partition.columns(0),)
    tail, head, departure, duration, run = (np.concatenate(column) for column in zip(*some, strict=True))
    return _partition(gpu).assemble_part(tail, head, departure, duration, run, first, last, vertices, width)


def _sizes(made: tuple[Assembled, dict[str, float]]) -> tuple[Sizes, dict[str, float]]:
    return sizes_of(made[0]), made[1]


def _laid_out(
    gpu: bool, made: tuple[Assembled, dict[str, float]], slots: int, shift: int, wide: bool
) -> tuple[Assembled, np.ndarray, np.ndarray]:
    part = made[0]
    return part, *_partition(gpu).layout_part(part.edge_leave, part.leave, part.lasts, slots, shift, wide)
