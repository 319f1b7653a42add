"""Real feeds through every engine: a few queries against the oracle, many against each other."""

from __future__ import annotations

import random

import numpy as np
import pytest
from conftest import answers, build, quick, real_feed
from headway.pipeline.engines import DEFAULT, Arrivals, vertices_of
from headway.storage.store import Store
from oracle import Oracle

# A date on which much of the feed is in service.
DATES = {
    "bart": "2023-04-13",
    "cairns": "2014-12-05",
    "cdmx_metro": "2019-03-06",
    "hart_tampa": "2018-10-05",
    "nyc_mta_subway": "2026-09-30",
    "partridge_region-nord-v2": "2019-01-16",
    "portoalegre_eptc": "2019-06-05",
    "sncf_2016": "2013-12-13",
}
NEW_YORK = ("nyc_mta_bus_bk", "nyc_mta_bus_m", "nyc_mta_bus_busco", "nyc_mta_bus_qns", "nyc_mta_mnr", "nyc_mta_subway")
LARGE = {**{(name,): "2026-09-30" for name in NEW_YORK[:-1]}, NEW_YORK: "2026-09-30"}
CASES = [pytest.param((name,), day, id=name) for name, day in DATES.items()]
CASES += [
    pytest.param(names, day, id=names[0] if len(names) == 1 else "new york", marks=pytest.mark.large)
    for names, day in LARGE.items()
]
# First and last days, weekends, and days before one of 23 or 25 hours.
OTHER_DAYS = [
    ("bart", "2023-02-18"),
    ("cairns", "2014-12-28"),
    ("hart_tampa", "2018-03-10"),
    ("sncf_2016", "2014-01-04"),
]
OTHER_LARGE = [
    *((name, "2026-10-31") for name in NEW_YORK),
    ("nyc_mta_mnr", "2027-03-13"),
    ("cdmx_metro", "2018-03-31"),
]
CASES += [pytest.param((name,), day, id=f"{name} {day}") for name, day in OTHER_DAYS]
CASES += [pytest.param((name,), day, id=f"{name} {day}", marks=pytest.mark.large) for name, day in OTHER_LARGE]

COMPARED = 4
MANY = 200


@pytest.mark.parametrize(("names", "day"), CASES)
def test_engines_equal_the_oracle(names: tuple[str, ...], day: str) -> None:
    feeds = [real_feed(name) for name in names]
    walking = Oracle(feeds, day)
    for walk, oracle in (("none", walking.without_walking()), ("default", walking)):
        store = build(feeds, day, walk__mode=walk)
        assert oracle.horizon == store.timetable.horizon
        asked = sample(store, COMPARED, seed=len(walk))
        expected = [oracle.arrivals(*query) for query in asked]
        assert sum(map(len, expected)) > 2 * COMPARED, "almost nothing was reached"
        for algorithm in quick(store):
            assert answers(store, asked, algorithm) == expected, (walk, algorithm)
        engines_agree(store, MANY)


@pytest.mark.parametrize("options", [{"cluster_minutes": 7, "subtrips": "sqrt-trip"}, {"subtrips": "sqrt-mean"}])
@pytest.mark.parametrize("name", ["bart", "sncf_2016"])
def test_options_change_no_arrival(name: str, options: dict) -> None:
    feeds = [real_feed(name)]
    plain = build(feeds, DATES[name])
    other = build(feeds, DATES[name], **{f"build__{key}": value for key, value in options.items()})
    engines_agree(other, 20)
    asked = sample(plain, 50, seed=3)
    assert answers(other, asked, DEFAULT) == answers(plain, asked, DEFAULT)


def sample(store: Store, count: int, seed: int) -> list[tuple[str, int]]:
    """Queries from stops and stations at any time of the store, one in four on the second day."""
    rng = random.Random(seed)
    ids = store.timetable.places.table["id"].to_pylist()
    leaves = np.diff(store.cluster_ap.vertex_edge) > 0
    places = store.timetable.places
    alive = [name for p, name in enumerate(ids) if leaves[places.vertex[places.offset[p] : places.offset[p + 1]]].any()]
    seconds = [rng.randrange(5 * 3600, 20 * 3600) if k % 4 else rng.randrange(86400, 172800) for k in range(count)]
    return [(rng.choice(alive), second) for second in seconds]


def engines_agree(store: Store, count: int) -> None:
    """All engines give the same labels for so many queries, at any vertex."""
    asked = sample(store, count, seed=count)
    ids = store.timetable.places.table["id"].to_pylist()
    row = {name: k for k, name in enumerate(ids)}
    sources = vertices_of(store, np.array([row[origin] for origin, _ in asked]))
    leave = np.array([second for _, second in asked], np.int32)
    expected = Arrivals(store, DEFAULT)(sources, leave)
    for algorithm in sorted({*quick(store)} - {DEFAULT}):
        assert np.array_equal(Arrivals(store, algorithm)(sources, leave), expected), algorithm
