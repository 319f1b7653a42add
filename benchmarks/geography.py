"""Where made-up stops lie and where made-up lines run: cities, places, walks along neighbouring places.

A place is what a rider calls a stop: one pole, two poles on either side of the road, or a station whose
platforms and poles share a parent. Lines walk over places; headings then pick the pole or platform.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

BUS, RAIL, INTERCITY = 0, 1, 2
STOPS_PER_PLACE = 1.9


@dataclass(frozen=True)
class Plan:
    """Everything that shapes a made-up feed; the same plan gives the same bytes."""

    stops: int = 20_000
    lines: int = 1_500
    seed: int = 1
    date: dt.date = dt.date(2026, 9, 30)
    cities: int = 1
    headway: float = 1.0  # multiplies all headways: 2 halves the number of trips
    shortest: int = 16  # places per line, drawn between these two
    longest: int = 64
    running_times: int = 2  # sets of running times over the day, 1 to 4
    rail: float = 0.04  # shares of lines ...
    express: float = 0.08
    loops: float = 0.03
    by_frequency: float = 0.03
    whole_minutes: float = 0.12
    blank_times: float = 0.06
    daily: float = 0.2

    def __post_init__(self) -> None:
        if not 1 <= self.running_times <= 4:
            raise ValueError(f"running_times must be 1 to 4, not {self.running_times}")
        if self.stops < 100 * self.cities or self.lines < max(1, self.cities):
            raise ValueError("a city needs at least 100 stops and a line")
        if not 4 <= self.shortest <= self.longest:
            raise ValueError(f"places per line from {self.shortest} to {self.longest} make no sense")
        if self.headway <= 0:
            raise ValueError(f"headway must be positive, not {self.headway}")


PRESETS = {
    "demo": Plan(stops=400, lines=40, shortest=8, longest=24),
    "city": Plan(headway=0.95),
    "national": Plan(stops=500_000, lines=22_000, cities=600, headway=4.5),
}


@dataclass(frozen=True)
class Network:
    """Stops, stations and lines as arrays; x and y in kilometres."""

    place_xy: np.ndarray
    place_city: np.ndarray
    congestion: np.ndarray
    station: np.ndarray  # per place: has a parent station
    first_stop: np.ndarray  # per place: its stops are first_stop[p] .. first_stop[p + 1]
    facing: np.ndarray  # per place: direction of the road, radians
    poles: np.ndarray  # per place: 1 or 2 poles; a station's platforms follow them
    stop_xy: np.ndarray
    city_stops: np.ndarray  # per city: how many stops it was meant to have
    paths: list[np.ndarray]  # per line: places in order
    mode: np.ndarray  # per line: BUS, RAIL or INTERCITY


def city_sizes(plan: Plan) -> np.ndarray:
    """Stops per city, Zipf-like, each at least 60."""
    weight = 1 / np.arange(1, plan.cities + 1) ** 0.9
    sizes = np.maximum(60, plan.stops * weight / weight.sum()).astype(np.int64)
    sizes[0] += plan.stops - sizes.sum()
    return sizes


def spread(sizes: np.ndarray) -> np.ndarray:
    """Standard deviation of a city's stops in kilometres, so that larger cities are denser too."""
    return np.sqrt(sizes / (16 * 3.5 * sizes**0.2))


def place_cities(sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Centres of cities that keep their distance, in a country that grows with them."""
    reach = 2.5 * spread(sizes)
    side = 2.2 * np.sqrt((reach**2).sum())
    centres = np.zeros((len(sizes), 2))
    for c in range(1, len(sizes)):
        tries = rng.uniform(-side / 2, side / 2, size=(64, 2))
        gap = np.linalg.norm(tries[:, None] - centres[None, :c], axis=2) - (reach[c] + reach[:c])
        slack = gap.min(axis=1)
        centres[c] = tries[np.argmax(slack > 0) if (slack > 0).any() else np.argmax(slack)]
    return centres


def scatter(n: int, centre: np.ndarray, sigma: float, rng: np.random.Generator) -> np.ndarray:
    """n places around a centre: evenly spaced (a low-discrepancy sequence), thinning outwards."""
    i = np.arange(n)
    u = (rng.random() + 0.7548776662466927 * i) % 1
    v = (rng.random() + 0.5698402909980532 * i) % 1
    radius = 1.9 * sigma * u**0.6
    points = np.stack([radius * np.cos(2 * np.pi * v), radius * np.sin(2 * np.pi * v)], axis=1)
    return centre + points + rng.normal(scale=0.04, size=(n, 2))


def places(plan: Plan) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Places of all cities: coordinates, city, towns' centre per place; stops per city, cities' centres."""
    rng = np.random.default_rng([plan.seed, 1])
    sizes = city_sizes(plan)
    centres = place_cities(sizes, rng)
    xy, city, town = [], [], []
    for c, (size, centre, sigma) in enumerate(zip(sizes, centres, spread(sizes), strict=True)):
        n = int(np.ceil(size / STOPS_PER_PLACE))
        suburbs = int(min(12, n // 150))
        share = rng.dirichlet(np.full(suburbs, 3.0)) * 0.35 if suburbs else np.zeros(0)
        counts = (n * share).astype(int)
        angle, far = rng.uniform(0, 2 * np.pi, suburbs), rng.uniform(1.5, 2.6, suburbs) * sigma
        for k, at, s in [
            (n - counts.sum(), centre, sigma),
            *(
                (counts[j], centre + far[j] * np.array([np.cos(angle[j]), np.sin(angle[j])]), sigma * 0.3)
                for j in range(suburbs)
            ),
        ]:
            xy.append(scatter(int(k), at, s, rng))
            city.append(np.full(int(k), c))
            town.append(np.tile(at, (int(k), 1)))
    return np.concatenate(xy), np.concatenate(city), np.concatenate(town), sizes, centres


def walk(
    xy: np.ndarray,
    starts: np.ndarray,
    heading: np.ndarray,
    lengths: np.ndarray,
    near: np.ndarray,
    road: np.ndarray,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Walk all lines at once: at each step to the neighbour that lies most nearly ahead.

    `road` adds a liking per (place, neighbour) that all lines share, so that lines gather on main roads.
    """
    path = np.full((len(starts), int(lengths.max())), -1, np.int64)
    path[:, 0] = starts
    count = np.ones(len(starts), np.int64)
    heading = heading.copy()
    alive = np.arange(len(starts))
    for step in range(1, path.shape[1]):
        alive = alive[lengths[alive] > step]
        if not len(alive):
            break
        at = path[alive, step - 1]
        options = near[at]
        away = xy[options] - xy[at][:, None]
        ahead = np.cos(np.arctan2(away[..., 1], away[..., 0]) - heading[alive, None])
        score = ahead + road[at] + 0.25 * rng.normal(size=options.shape)
        seen = (options[:, :, None] == path[alive, None, :step]).any(axis=2)
        score[seen | (ahead < -0.4)] = -9  # a line that would have to turn back ends here
        best = score.argmax(axis=1)
        rows = np.arange(len(alive))
        go = score[rows, best] > -9
        alive, best, away = alive[go], best[go], away[go]
        path[alive, step] = options[go, best]
        count[alive] = step + 1
        taken = away[np.arange(len(alive)), best]
        turn = np.angle(np.exp(1j * (np.arctan2(taken[:, 1], taken[:, 0]) - heading[alive])))
        heading[alive] += 0.15 * turn + 0.1 * rng.normal(size=len(alive))
    return [path[i, : count[i]] for i in range(len(starts))]


def lines_on(
    xy: np.ndarray,
    towns: np.ndarray,
    weight: np.ndarray,
    lines: int,
    lengths: tuple[int, int],
    fewest: int,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """`lines` walks over the given places; in rounds, so that later lines start where none has been."""
    near = cKDTree(xy).query(xy, k=min(9, len(xy)))[1][:, 1:]
    # The same liking in both directions, drawn per place: a line and its opposite take the same road.
    liking = rng.random(len(xy))
    road = 0.08 * (liking[:, None] * liking[near])
    visited = np.zeros(len(xy), bool)
    done: list[np.ndarray] = []
    for attempt in range(40):
        want = lines - len(done)
        if want <= 0:
            break
        batch = max(1, min(want, lines // 8)) if attempt < 30 else want
        chance = weight * np.where(visited, 0.03, 1.0)
        starts = rng.choice(len(xy), size=batch, p=chance / chance.sum())
        inward = towns[starts] - xy[starts]
        heading = np.arctan2(inward[:, 1], inward[:, 0])
        heading += np.where(rng.random(batch) < 0.6, rng.normal(scale=0.5, size=batch), 2.5)
        span = rng.integers(lengths[0], lengths[1] + 1, size=batch)
        fresh = road + 0.25 * ~visited[near]  # planners leave no street without a line
        for path in walk(xy, starts, heading, span, near, fresh, rng):
            if len(path) >= fewest:
                done.append(path)
                visited[path] = True
    while len(done) < lines:  # rare: a tiny city; the same way again makes another line of it
        done.append(done[len(done) % max(1, len(done))])
    return done[:lines]


def network(plan: Plan) -> Network:
    """Places, lines over them, then stops: as many poles and platforms as the plan asks for."""
    xy, city, town, sizes, centres = places(plan)
    rng = np.random.default_rng([plan.seed, 2])
    count = len(xy)
    intercity = min(plan.lines // 10, int(1.5 * plan.cities)) if plan.cities >= 5 else 0
    rail = max(1, round(plan.rail * (plan.lines - intercity)))
    bus = plan.lines - intercity - rail

    paths = lines_on(xy, town, np.ones(count), bus, (plan.shortest, plan.longest), 5, rng)
    # Tracks: one place in fifteen of the forty largest cities, as far as these are large enough to have any.
    large = sizes >= min(sizes.max(), max(300, np.sort(sizes)[-min(40, len(sizes))]))
    tracks = np.flatnonzero(large[city])
    tracks = rng.permutation(tracks)[: max(12, len(tracks) // 15)]
    spans = (max(5, plan.shortest // 2), max(6, plan.longest // 2))
    found = lines_on(xy[tracks], town[tracks], np.ones(len(tracks)), rail, spans, 4, rng)
    paths += [tracks[path] for path in found]
    if intercity:
        middle = cKDTree(xy).query(centres)[1]
        whole = np.tile(np.average(centres, axis=0, weights=sizes), (len(centres), 1))
        found = lines_on(centres, whole, np.sqrt(sizes), intercity, (4, 16), 3, rng)
        paths += [middle[path] for path in found]
    mode = np.repeat([BUS, RAIL, INTERCITY], [bus, rail, intercity])

    station = np.zeros(count, bool)
    for path in paths[bus:]:
        station[path] = True
    # What platforms and single poles leave goes to second poles, so that the total comes out exactly.
    spare = plan.stops - count - 2 * int(station.sum())
    if not 0 <= spare <= count:
        raise ValueError("too many stations for so few stops: ask for fewer rail lines")
    poles = np.ones(count, np.int64)
    poles[rng.permutation(count)[:spare]] = 2
    stops = poles + 2 * station
    first = np.concatenate([[0], np.cumsum(stops)])
    facing = rng.uniform(0, np.pi, count)
    owner = np.repeat(np.arange(count), stops)
    slot = np.arange(len(owner)) - first[owner]
    side = np.where(slot % 2 == 0, 1.0, -1.0) * np.where(slot >= poles[owner], 0.03, 0.012)
    across = np.stack([np.sin(facing[owner]), -np.cos(facing[owner])], axis=1)
    return Network(
        place_xy=xy,
        place_city=city,
        congestion=rng.random(count),
        station=station,
        first_stop=first,
        facing=facing,
        poles=poles,
        stop_xy=xy[owner] + side[:, None] * across,
        city_stops=sizes,
        paths=paths,
        mode=mode,
    )


def stops_of(net: Network, path: np.ndarray, on_rail: bool) -> np.ndarray:
    """The pole or platform at each place of a path: the side of the road that the line's heading asks for."""
    way = np.diff(net.place_xy[path], axis=0)
    way = np.concatenate([way[:1], way])  # a vehicle stops on the side from which it comes
    heading = np.arctan2(way[:, 1], way[:, 0])
    back = np.cos(heading - net.facing[path]) < 0
    if on_rail:
        return net.first_stop[path] + net.poles[path] + back
    return net.first_stop[path] + (back & (net.poles[path] == 2))
