"""When made-up lines run: services, headways over the day, running times, dwell, and the exceptions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from geography import BUS, INTERCITY, RAIL, Network, Plan, stops_of

HOUR = 3600
# Night, early, morning peak, midday, afternoon peak, evening, late, after midnight.
PERIODS = (np.array([0, 5, 6.5, 9.5, 15, 19, 21.5, 24, 30]) * HOUR).astype(np.int64)
PEAKS = (2, 4)
# Which set of running times a trip takes, by the period it starts in, when there are 1, 2, 3 or 4 sets.
SETS = np.array(
    [
        [0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 1, 0, 1, 0, 0, 0],
        [2, 2, 1, 0, 1, 0, 2, 2],
        [2, 2, 1, 0, 1, 3, 2, 2],
    ]
)
PACE = (1.0, 1.0, 0.88, 0.95)
SERVICES = ("WK", "SA", "SU", "DY", "SC", "EV")
WK, SA, SU, DY, SC, EV = range(6)
# Seconds lost per stop, metres a second, detour over the straight line, seconds of dwell.
MOTION = {BUS: (22.0, 8.5, 1.25, 0), RAIL: (30.0, 16.0, 1.1, 25), INTERCITY: (120.0, 40.0, 1.15, 120)}
ROUTE_TYPES = {BUS: 3, RAIL: 1, INTERCITY: 2}


@dataclass(frozen=True)
class Line:
    """What a line is, apart from its way."""

    number: int
    mode: int
    express: bool
    loop: bool
    by_frequency: bool
    whole_minutes: bool
    blank_times: bool
    daily: bool


@dataclass(frozen=True)
class Pattern:
    """A sequence of stops with times since departure per set of running times."""

    stops: np.ndarray
    sequence: np.ndarray
    arrive: np.ndarray  # [set, position]
    depart: np.ndarray
    no_pickup: np.ndarray
    no_drop: np.ndarray
    timed: np.ndarray


@dataclass(frozen=True)
class Run:
    """The trips of one pattern in one service; `windows` (start, end, headway) instead, by frequency."""

    line: int
    direction: int
    variant: str
    service: int
    pattern: Pattern
    departures: np.ndarray
    sets: np.ndarray
    windows: np.ndarray | None = None
    exact: bool = False


def traits(plan: Plan, net: Network) -> list[Line]:
    """Deal traits to lines; each trait that the plan asks for at all goes to one line at least."""
    rng = np.random.default_rng([plan.seed, 3])
    total = len(net.paths)

    def deal(share: float, among: np.ndarray) -> np.ndarray:
        chosen = np.zeros(total, bool)
        want = min(len(among), max(1, round(share * total))) if share > 0 else 0
        chosen[rng.permutation(among)[:want]] = True
        return chosen

    everyone, buses = np.arange(total), np.flatnonzero(net.mode == BUS)
    express = deal(plan.express, buses)
    loop = deal(plan.loops, buses[~express[buses]])
    city_lines = np.flatnonzero(net.mode != INTERCITY)
    columns = (
        net.mode,
        express,
        loop,
        deal(plan.by_frequency, city_lines),
        deal(plan.whole_minutes, everyone) | (net.mode == INTERCITY),
        deal(plan.blank_times, buses),
        deal(plan.daily, everyone),
    )
    return [Line(i, int(row[0]), *map(bool, row[1:])) for i, row in enumerate(zip(*columns, strict=True))]


def pattern(
    plan: Plan, net: Network, line: Line, path: np.ndarray, rng: np.random.Generator, first: int, step: int
) -> Pattern:
    """Running times along a path: by distance, slower at peaks where roads are full, quicker at night."""
    n = len(path)
    lost, speed, detour, dwell = MOTION[line.mode]
    if line.express:
        speed *= 1.4
    way = np.diff(net.place_xy[path], axis=0)
    metres = 1000 * detour * np.hypot(way[:, 0], way[:, 1])
    full = net.congestion[path[:-1]] + net.congestion[path[1:]]
    slow = np.where((full > 1.25) & (line.mode == BUS), 1 + 0.4 * (full - 0.85), 1.0)
    base = lost + metres / speed
    rests = np.full(n, dwell)
    if line.mode == BUS:
        rests = np.where(net.station[path], 30, 0)
    rests[[0, -1]] = 0

    arrive = np.zeros((plan.running_times, n), np.int64)
    depart = np.zeros_like(arrive)
    for s in range(plan.running_times):
        hops = np.maximum(8, np.rint(base * PACE[s] * (slow if s == 1 else 1.0))).astype(np.int64)
        arrive[s, 1:] = np.cumsum(hops) + np.cumsum(rests[:-1])
        depart[s] = arrive[s] + rests
    if line.whole_minutes:
        # As planners round: the time at the stop, not the hop, so that some hops take no time at all.
        arrive, depart = (arrive + 30) // 60 * 60, (depart + 30) // 60 * 60
    timed = np.ones(n, bool)
    if line.blank_times:
        timed[:] = np.arange(n) % int(rng.integers(3, 7)) == 0
        timed[-1] = True
    no_pickup, no_drop = np.zeros(n, bool), np.zeros(n, bool)
    if line.express and n >= 6:
        no_drop[: n // 4], no_pickup[-(n // 4) :] = True, True
    elif line.number % 3 == 0:
        no_pickup[-1], no_drop[0] = True, True
    stops = stops_of(net, path, line.mode != BUS)
    return Pattern(stops, first + step * np.arange(n), arrive, depart, no_pickup, no_drop, timed)


def shorten(whole: Pattern, last: int) -> Pattern:
    """The same trip, ending early; its last stop keeps a time, as the specification asks."""
    cut = slice(0, last)
    timed = whole.timed[cut].copy()
    timed[-1] = True
    return Pattern(
        whole.stops[cut],
        whole.sequence[cut],
        whole.arrive[:, cut],
        whole.depart[:, cut],
        whole.no_pickup[cut],
        whole.no_drop[cut],
        timed,
    )


def windows(first: int, last: int, headways: np.ndarray) -> np.ndarray:
    """(start, end, headway) of each period, one headway after the other without a break."""
    rows, at = [], first
    for end, headway in zip(np.minimum(PERIODS[1:], last), headways, strict=True):
        if at < end:
            trips = -(-int(end - at) // int(headway))
            rows.append((at, at + trips * int(headway), int(headway)))
            at += trips * int(headway)
    return np.array(rows, np.int64).reshape(-1, 3)


def headways_of(plan: Plan, net: Network, line: Line, path: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Seconds between trips per period, on a grid of half or whole minutes."""
    if line.mode == INTERCITY:
        base, relief = float(rng.choice([30, 60, 120])), np.ones(8)
    else:
        off = float(rng.choice([1.0, 1.5, 2.0]))
        base = float(rng.choice([5, 6, 7.5, 10, 12, 15]))
        base *= float(np.clip((20_000 / net.city_stops[net.place_city[path[0]]]) ** 0.3, 0.8, 4.0))
        relief = np.array([3 * off, 1.5, 1, off, 1, 1.25 * off, 1.75 * off, 2.5 * off])
        base *= plan.headway
        if line.by_frequency:
            base = min(base, 12.0)  # nobody promises "every two hours" without saying when
    grid = 60 if line.whole_minutes else 30
    seconds = np.minimum(base * 60 * relief, 4 * HOUR)
    return np.maximum(grid, np.rint(seconds / grid) * grid).astype(np.int64)


def jitter(departures: np.ndarray, whole_minutes: bool, rng: np.random.Generator) -> np.ndarray:
    """Move a few trips by a minute or so: timetables are mostly, never wholly, periodic."""
    shift = rng.integers(-1, 2, len(departures)) * 60
    if not whole_minutes:
        shift = rng.integers(-60, 61, len(departures))
    return departures + np.where(rng.random(len(departures)) < 0.04, shift, 0)


def runs(plan: Plan, net: Network, line: Line) -> Iterator[Run]:
    """All trips of a line, grouped by direction, variant and service."""
    rng = np.random.default_rng([plan.seed, 4, line.number])
    path = net.paths[line.number]
    if line.express:
        path = path[:: 3 if len(path) >= 15 else 2]
    if line.loop:
        path = np.concatenate([path, path[-2::-1]])  # out and back as one trip, past the same places
    headways = headways_of(plan, net, line, path, rng)
    first, step = int(rng.integers(0, 2)), int(rng.choice([1, 1, 1, 10]))
    night = line.mode == BUS and line.number % 33 == 7
    opens = 0 if night else int(rng.uniform(4.5, 6) * 60) * 60
    closes = int(rng.uniform(24.5, 26) if line.number % 3 else rng.uniform(20, 24)) * HOUR
    if line.daily:
        services = [(DY, 1.0)]
    else:
        services = [(WK, 1.0), (SA, 1.4), (SU, 1.8)][: 2 if line.number % 10 == 3 else 3]
    for direction in range(1 if line.loop else 2):
        whole = pattern(plan, net, line, path[::-1] if direction else path, rng, first, step)
        short = shorten(whole, len(path) * 2 // 3) if line.number % 7 == 2 and len(path) >= 12 else None
        start = opens + int(rng.integers(0, 30)) * (60 if line.whole_minutes else 47)
        for service, wider in services:
            # Weekends start later and run less often, on the same grid.
            spaced = np.maximum(60, (headways * wider).astype(np.int64) // 30 * 30)
            if line.whole_minutes:
                spaced = np.maximum(60, spaced // 60 * 60)
            slots = windows(start + (HOUR if service in (SA, SU) else 0), closes, spaced)
            if not len(slots):
                continue
            if line.by_frequency:
                yield Run(
                    line.number,
                    direction,
                    "F",
                    service,
                    whole,
                    slots[:1, 0],
                    np.zeros(1, np.int64),
                    slots,
                    exact=line.number % 2 == 0,
                )
                continue
            times = np.concatenate([np.arange(a, b, h) for a, b, h in slots])
            yield from trips(plan, line, direction, service, whole, short, times, rng)
        if line.number % 10 == 4:  # trips for schools, which don't run in holidays
            times = np.array([7.25, 7.5, 14.25], np.float64) * HOUR + 60 * int(rng.integers(0, 15))
            yield from trips(plan, line, direction, SC, whole, None, times.astype(np.int64), rng)
        if line.number % 20 == 5:  # late trips on a few dates only
            times = np.arange(23, 26) * HOUR + 60 * int(rng.integers(0, 30))
            yield from trips(plan, line, direction, EV, whole, None, times, rng)


def trips(
    plan: Plan,
    line: Line,
    direction: int,
    service: int,
    whole: Pattern,
    short: Pattern | None,
    times: np.ndarray,
    rng: np.random.Generator,
) -> Iterator[Run]:
    """Departures as runs; at peaks every third trip turns early where the line has a short variant."""
    period = np.searchsorted(PERIODS, times, side="right") - 1
    sets = SETS[plan.running_times - 1][np.minimum(period, 7)]
    times = np.maximum(0, jitter(times, line.whole_minutes, rng))
    early = np.zeros(len(times), bool)
    if short is not None:
        early = np.isin(period, PEAKS) & (np.arange(len(times)) % 3 == 1)
    for variant, chosen, some in (("", ~early, whole), ("S", early, short)):
        if some is not None and chosen.any():
            yield Run(line.number, direction, variant, service, some, times[chosen], sets[chosen])
