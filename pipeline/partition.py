"""One partition of a build on the host: trips to connections, and connections to types, clusters and edge profiles.

Plain arrays go in and come out, so that a partition is the same work in a thread, in another process or on a device.
"""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

import numpy as np

from ..kernels import connections as kernel
from ..kernels import profiles, progressions
from ..kernels.trips import group

SLOT = 1800
KINDS = (np.uint32, np.uint32, np.int32, np.int32, np.uint32)  # of the columns of connections, as in `Expanded`


class TripPart(NamedTuple):
    """Trips that follow each other, as `storage.timetable.Trips` has them: `offset` and `run_offset` int64[trips + 1]
    from 0, `vertex` uint32, `arrival`, `departure` int32 and `flags` uint8 [rows], `shift` int32[runs]."""

    offset: np.ndarray
    vertex: np.ndarray
    arrival: np.ndarray
    departure: np.ndarray
    flags: np.ndarray
    run_offset: np.ndarray
    shift: np.ndarray


class Expanded(NamedTuple):
    """Connections of a part of the trips, grouped by range of tails, in a group in order of trip, then generation.

    `begin` int64[ranges + 1]; `tail`, `head` uint32, `departure`, `duration` int32, `run` uint32, which is empty where
    there are no trips.
    """

    begin: np.ndarray
    tail: np.ndarray
    head: np.ndarray
    departure: np.ndarray
    duration: np.ndarray
    run: np.ndarray


class Assembled(NamedTuple):
    """What a range of tails adds to each array of a store, sorted by (tail, head, duration, departure).

    Counts int32, of which offsets are made: `edges` of each vertex, `edge_types` and `edge_leave` of each edge,
    `type_connections` and `type_clusters` of each type, `connection_runs` of each connection, `cluster_terms` of each
    cluster. Values: `edge_to` uint32, `duration`, `departure` int32, `run` uint32, `cluster_number` uint16, `start`,
    `end`, `step` int32, and each edge's Pareto list `leave`, `lasts` int32.
    """

    edges: np.ndarray
    edge_to: np.ndarray
    edge_types: np.ndarray
    duration: np.ndarray
    type_connections: np.ndarray
    departure: np.ndarray
    connection_runs: np.ndarray
    run: np.ndarray
    type_clusters: np.ndarray
    cluster_number: np.ndarray
    cluster_terms: np.ndarray
    start: np.ndarray
    end: np.ndarray
    step: np.ndarray
    edge_leave: np.ndarray
    leave: np.ndarray
    lasts: np.ndarray


def expand_part(trips: TripPart, piece: np.ndarray, horizon: int, first_run: int, cuts: np.ndarray) -> Expanded:
    """The connections of trips.

    `piece` int64[trips], positions of a sub-trip, 0 for none. Runs are numbered from `first_run`. Range r of tails is
    `cuts[r] : cuts[r + 1]` (int64[ranges + 1]).
    """
    inputs = (*trips, horizon, piece)
    some = (0, len(piece))
    out = columns(kernel.fill(some, *inputs, columns(0)))
    kernel.fill(some, *inputs, out)
    tail, head, departure, duration, run = out
    run += np.uint32(first_run)
    return by_range(tail, head, departure, duration, run, cuts)


def by_range(
    tail: np.ndarray,
    head: np.ndarray,
    departure: np.ndarray,
    duration: np.ndarray,
    run: np.ndarray,
    cuts: np.ndarray,
) -> Expanded:
    """Connections grouped by range of tails, else in their order."""
    ranges = len(cuts) - 1
    range_of = np.repeat(np.arange(ranges, dtype=np.int32), np.diff(cuts))
    begin, order = group(range_of[tail], ranges)
    return Expanded(
        begin, *(column[order] if len(column) else column for column in (tail, head, departure, duration, run))
    )


def columns(size: int) -> tuple[np.ndarray, ...]:
    """Room for so many connections."""
    return tuple(np.empty(size, kind) for kind in KINDS)


def assemble_part(
    tail: np.ndarray,
    head: np.ndarray,
    departure: np.ndarray,
    duration: np.ndarray,
    run: np.ndarray,
    first: int,
    last: int,
    vertices: int,
    width: int,
) -> tuple[Assembled, dict[str, float]]:
    """Types, clusters `width` seconds wide and profiles of the connections whose tails are in [first, last).

    Columns as in `Expanded`, parts of the trips one after the other. Bits of `vertices`, the last departure and the
    longest duration are 64 at most. Also returns the seconds of each step.
    """
    begun = perf_counter()
    type_tail, type_head, of_type, type_offset, leaves, run_offset, runs = _types(
        tail, head, departure, duration, run, first, last, vertices
    )
    sorted_ = perf_counter()
    new_edge = np.ones(len(of_type), np.bool_)
    new_edge[1:] = (type_tail[1:] != type_tail[:-1]) | (type_head[1:] != type_head[:-1])
    edge_type = np.append(np.flatnonzero(new_edge), len(of_type))
    type_clusters, number, terms, start, end, step = cover(type_offset, leaves, width)
    covered = perf_counter()
    edge_leave, leave, lasts = _profiles(edge_type, of_type, type_offset, leaves)
    seconds = {
        "sort, types": sorted_ - begun,
        "progressions": covered - sorted_,
        "profiles": perf_counter() - covered,
    }
    made = Assembled(
        np.bincount(type_tail[edge_type[:-1]] - first, minlength=last - first).astype(np.int32),
        type_head[edge_type[:-1]],
        np.diff(edge_type).astype(np.int32),
        of_type,
        np.diff(type_offset).astype(np.int32),
        leaves,
        np.diff(run_offset).astype(np.int32),
        runs,
        type_clusters,
        number,
        terms,
        start,
        end,
        step,
        edge_leave,
        leave,
        lasts,
    )
    return made, seconds


def _types(
    tail: np.ndarray,
    head: np.ndarray,
    departure: np.ndarray,
    duration: np.ndarray,
    run: np.ndarray,
    first: int,
    last: int,
    vertices: int,
) -> tuple[np.ndarray, ...]:
    """Tail, head, duration and offset of each type, departure and run offset of each connection, and the runs."""
    size = len(tail)
    leave_bits, last_bits = bits(departure), bits(duration)
    _, order = group(tail - np.uint32(first), last - first)
    key = head[order].astype(np.uint64) << np.uint64(leave_bits + last_bits)
    key |= duration[order].astype(np.uint64) << np.uint64(leave_bits)
    key |= departure[order].astype(np.uint64)
    order = order[np.lexsort((key, tail[order]))]  # stable, so that runs stay in order
    out = (
        np.empty(size, np.uint32),
        np.empty(size, np.uint32),
        np.empty(size, np.int32),
        np.empty(size + 1, np.int64),
        np.empty(size, np.int32),
        np.empty(size + 1, np.int64),
        np.empty(size, np.uint32),
    )
    given = run if len(run) else np.zeros(size, np.uint32)
    types, count = kernel.group_types(order, tail, head, departure, duration, given, out)
    type_tail, type_head, of_type, type_offset, leaves, run_offset, runs = out
    if not len(run):
        run_offset, runs = np.zeros(count + 1, np.int64), runs[:0]
    return (
        type_tail[:types].copy(),
        type_head[:types].copy(),
        of_type[:types].copy(),
        type_offset[: types + 1],
        leaves[:count].copy(),
        run_offset[: count + 1],
        runs,
    )


def bits(values: np.ndarray) -> int:
    """Bits of the largest value, at least one."""
    return max(1, int(values.max()).bit_length()) if len(values) else 1


def cover(offset: np.ndarray, departure: np.ndarray, width: int) -> tuple[np.ndarray, ...]:
    """Clusters and progressions of types: `Assembled`'s columns from `type_clusters` to `step`.

    Type i departs at `departure[offset[i] : offset[i + 1]]` (int64[types + 1], int32, sorted).
    """
    size = int(offset[-1] - offset[0])
    per_type, number, per_cluster = (
        np.zeros(len(offset) - 1, np.int64),
        np.empty(size, np.uint16),
        np.empty(size, np.int64),
    )
    terms = tuple(np.empty(size, np.int32) for _ in range(3))
    clusters, total = progressions.cover_types(
        (0, len(offset) - 1),
        offset,
        departure,
        width,
        np.zeros(width + 1, np.bool_),
        (per_type, number, per_cluster, *terms),
    )
    return (
        per_type.astype(np.int32),
        number[:clusters].copy(),
        per_cluster[:clusters].astype(np.int32),
        *(column[:total].copy() for column in terms),
    )


def _profiles(
    edge_type: np.ndarray, duration: np.ndarray, type_offset: np.ndarray, departure: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each edge's Pareto list: how long it is, its departures and durations."""
    edges = len(edge_type) - 1
    per_type = np.diff(type_offset)
    edge = np.repeat(np.repeat(np.arange(edges), np.diff(edge_type)), per_type)
    # Stable, and an edge's types ascend by duration: so do connections of one second.
    order = np.lexsort((departure, edge))
    counts = np.empty(edges, np.int64)
    leave, lasts = np.empty_like(departure), np.empty_like(departure)
    total = profiles.pareto(
        type_offset[edge_type], departure[order], np.repeat(duration, per_type)[order], counts, leave, lasts
    )
    return counts.astype(np.int32), leave[:total].copy(), lasts[:total].copy()


def layout_part(
    edge_leave: np.ndarray, leave: np.ndarray, lasts: np.ndarray, slots: int, shift: int, wide: bool
) -> tuple[np.ndarray, np.ndarray]:
    """`storage.edge_profile`'s groups of these edges alone: int64[slots * edges + 1], and their words.

    Columns of one `Assembled`. `shift` is the bits of a duration; words are uint64 where `wide`, else uint32.
    """
    kind = np.uint64 if wide else np.uint32
    offset = np.concatenate([[0], np.cumsum(edge_leave, dtype=np.int64)])
    index = np.empty(slots * len(edge_leave) + 1, np.int64)
    word = np.empty(len(leave) + slots * len(edge_leave), kind)
    profiles.by_slot(offset, leave, lasts, slots, SLOT, kind(shift), kind(np.iinfo(kind).max), index, word)
    return index, word
