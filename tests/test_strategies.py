"""The generated feeds must not be vacuous, and the oracle must agree with the contract's own connections."""

import math
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import Oracle, OracleError
from strategies import DATE, feeds, queries, write_feed

EXAMPLES = settings(max_examples=200, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


def draw_oracle(data, **options) -> tuple[dict, Oracle | None]:
    """A generated feed and its oracle, None where the build is an error."""
    tables = data.draw(feeds())
    with tempfile.TemporaryDirectory() as folder:
        path = write_feed(Path(folder) / "feed", tables)
        try:
            return tables, Oracle([path], DATE, **options)
        except OracleError:
            return tables, None


def test_feeds_are_not_vacuous():
    count = Counter()

    @EXAMPLES
    @given(st.data())
    def run(data):
        tables, oracle = draw_oracle(data)
        count["feeds"] += 1
        if oracle is None:
            return
        origin, departure = data.draw(queries(tables))
        reached = [stop for stop in oracle.stops if stop in oracle.arrivals(origin, departure)]
        count["built"] += 1
        count["reach another stop"] += len(reached) > 1
        count["reach three others"] += len(reached) > 3
        count["station"] += origin in oracle.stations
        count["footpaths"] += any(oracle._footpaths)
        count["evening before"] += any(shift < 0 for _, shift in oracle._runs)
        count["trips"] += len(tables["trips.txt"])
        count["trips that run"] += len({id(trip) for trip, _ in oracle._runs})
        for name in ("frequencies.txt", "transfers.txt", "calendar_dates.txt"):
            count[name] += name in tables

    run()
    assert count["built"] >= 0.8 * count["feeds"], count
    assert count["reach another stop"] >= 0.6 * count["built"], count
    assert count["reach three others"] >= 0.15 * count["built"], count
    assert count["trips that run"] >= 0.45 * count["trips"], count
    assert count["station"] > 0
    for name in ("footpaths", "evening before", "frequencies.txt", "transfers.txt", "calendar_dates.txt"):
        assert count[name] >= 0.15 * count["built"], (name, count)


def connections(oracle: Oracle) -> set[tuple[int, int, int, int]]:
    """The contract's connections (from, to, departure, arrival), word by word."""
    out = set()
    for trip, shift in oracle._runs:
        size = len(trip.stops)
        for i in range(size):
            for j in range(i + 1, size):
                between = any(trip.board[p] and trip.alight[p] for p in range(i + 1, j))
                leave = trip.departure[i] + shift
                if trip.board[i] and trip.alight[j] and not between and 0 <= leave < oracle.horizon:
                    out.add((trip.stops[i], trip.stops[j], leave, trip.arrival[j] + shift))
    return out


def relax_until_stable(oracle: Oracle, origin: str, departure: int) -> dict[str, int]:
    """Arrivals by relaxing all connections and footpaths in any order until nothing changes."""
    e = dict.fromkeys(oracle._stations.get(origin, [oracle._index.get(origin)]), departure)
    hops, changed = connections(oracle), True
    while changed:
        changed = False
        edges = [(v, arrive) for u, v, leave, arrive in hops if e.get(u, math.inf) <= leave]
        edges += [(v, e[u] + seconds) for u in e for v, seconds in oracle._footpaths[u]]
        for v, second in edges:
            if second < e.get(v, math.inf):
                e[v], changed = second, True
    return {oracle.stops[v]: second for v, second in e.items()}


@EXAMPLES
@given(st.data(), st.sampled_from([1, 2]), st.sampled_from(["default", "none"]))
def test_riding_trips_agrees_with_connections(data, days, walk):
    tables, oracle = draw_oracle(data, days=days, walk=walk)
    if oracle is None:
        return
    for _ in range(3):
        origin, departure = data.draw(queries(tables, days))
        expect = relax_until_stable(oracle, origin, departure)
        arrivals = oracle.arrivals(origin, departure)
        assert {stop: second for stop, second in arrivals.items() if stop not in oracle.stations} == expect
