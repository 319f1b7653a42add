"""Write a made-up city, or a made-up country, as a GTFS feed of any size.

    python benchmarks/generate.py demo.zip --preset demo
    python benchmarks/generate.py city.zip --preset city --compare real_feed.zip
    python benchmarks/generate.py anywhere/ --stops 5000 --lines 300 --seed 7

The same arguments give the same bytes. Trips and stop times are made and written line by line in chunks, so
memory stays bounded however large the feed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime as dt
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the neighbours, also when imported from elsewhere

from feed_files import Archive, Folder, clock_table, csv_bytes, join, put, text
from geography import INTERCITY, PRESETS, Network, Plan, network
from timetables import DY, EV, ROUTE_TYPES, SA, SC, SERVICES, SU, WK, Run, runs, traits

CHUNK_ROWS = 400_000
LATITUDE, LONGITUDE, KM_PER_DEGREE = 47.0, 8.0, 111.32
STREETS = ["Mill", "Church", "Station", "Harbour", "School", "Park", "Market", "Bridge", "Castle", "River"]
KINDS = ["Street", "Lane", "Road", "Square", "Avenue", "Gardens", "Row, north side", "Row, south side"]
SYLLABLES = ["Al", "Bren", "Cor", "Dun", "El", "Fair", "Gar", "Hol", "In", "Kel", "Lin", "Mar", "Nor", "Ost"]
ENDINGS = ["bury", "dorf", "field", "ford", "ham", "mouth", "stad", "ton", "ville", "wick"]


def city_names(count: int) -> pa.Array:
    """Names for cities, all different."""
    n, many = np.arange(count), len(SYLLABLES) * len(ENDINGS)
    head = pa.array(SYLLABLES).take(pa.array(n % len(SYLLABLES)))
    tail = pa.array(ENDINGS).take(pa.array(n // len(SYLLABLES) % len(ENDINGS)))
    number = pa.array([f" {i // many + 1}" if i >= many else "" for i in range(count)])
    return join(head, tail, number)


def write_stops(out: Folder | Archive, net: Network) -> pa.Array:
    """stops.txt: poles and platforms first, then stations. Returns the ids of the former."""
    per_place = np.diff(net.first_stop)
    owner = np.repeat(np.arange(len(per_place)), per_place)
    slot = np.arange(len(owner)) - net.first_stop[owner]
    stations = np.flatnonzero(net.station)
    place_id = text(np.arange(len(per_place)), 5)
    ids = join(place_id.take(pa.array(owner)), pa.array(list("ABCDEF")).take(pa.array(slot)))
    station_ids = join("S", place_id.take(pa.array(stations)))
    place = np.arange(len(per_place))
    names = join(
        city_names(len(net.city_stops)).take(pa.array(net.place_city)),
        ", ",
        pa.array(STREETS).take(pa.array(place * 7 % len(STREETS))),
        " ",
        pa.array(KINDS).take(pa.array(place // len(STREETS) % len(KINDS))),
        " ",
        text(place),
    )
    parent = pa.array(np.where(net.station, place, 0), mask=~net.station).take(pa.array(owner))
    everywhere = np.concatenate([net.stop_xy, net.place_xy[stations]])
    latitude = LATITUDE + everywhere[:, 1] / KM_PER_DEGREE
    longitude = LONGITUDE + everywhere[:, 0] / (KM_PER_DEGREE * np.cos(np.deg2rad(latitude)))
    put(
        out,
        "stops.txt",
        {
            "stop_id": pa.concat_arrays([ids, station_ids]),
            "stop_name": names.take(pa.array(np.concatenate([owner, stations]))),
            "stop_lat": np.round(latitude, 6),
            "stop_lon": np.round(longitude, 6),
            "location_type": np.repeat([0, 1], [len(owner), len(stations)]),
            "parent_station": pa.concat_arrays(
                [join("S", place_id.take(parent)), pa.nulls(len(stations), pa.string())]
            ),
        },
    )
    return ids


def write_transfers(out: Folder | Archive, plan: Plan, net: Network, ids: pa.Array) -> None:
    """transfers.txt: change times inside stations, and between a few neighbouring places walks or bans."""
    rng = np.random.default_rng([plan.seed, 5])
    source, target = [], []
    for station in np.flatnonzero(net.station):
        inside = np.arange(net.first_stop[station], net.first_stop[station + 1])
        a, b = np.meshgrid(inside, inside, indexing="ij")
        source.append(a.ravel())
        target.append(b.ravel())
    a, b = np.concatenate(source), np.concatenate(target)
    least = np.where(a == b, 60, 60 + 30 * rng.integers(0, 7, len(a)))
    # Consecutive places of a line are neighbours for certain.
    chosen = rng.permutation(len(net.paths))[: max(6, len(net.paths) // 8)]
    pairs = np.unique([net.paths[line][:2] for line in chosen if net.mode[line] != INTERCITY], axis=0)
    kind = np.where(np.arange(len(pairs)) % 3 == 2, 3, 0)
    put(
        out,
        "transfers.txt",
        {
            "from_stop_id": ids.take(pa.array(np.concatenate([a, net.first_stop[pairs[:, 0]]]))),
            "to_stop_id": ids.take(pa.array(np.concatenate([b, net.first_stop[pairs[:, 1]]]))),
            "transfer_type": np.concatenate([np.full(len(a), 2), kind]),
            "min_transfer_time": pa.array(
                np.concatenate([least, np.zeros(len(pairs), np.int64)]),
                mask=np.arange(len(a) + len(pairs)) >= len(a),
            ),
        },
    )


def write_calendar(out: Folder | Archive, date: dt.date) -> None:
    """calendar.txt and calendar_dates.txt: a term around the date, with holidays that miss the date."""
    weekly = {WK: "1111100", SA: "0000010", SU: "0000001", DY: "1111111", SC: "1111100"}
    start, end = date - dt.timedelta(30), date + dt.timedelta(92)
    days = {
        name: [int(weekly[s][i]) for s in weekly]
        for i, name in enumerate(["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"])
    }
    columns = {
        "service_id": [SERVICES[s] for s in weekly],
        **days,
        "start_date": [f"{start:%Y%m%d}"] * len(weekly),
        "end_date": [f"{end:%Y%m%d}"] * len(weekly),
    }
    put(out, "calendar.txt", columns)
    rows = []
    for ahead in (-19, 12, 33, 61, 86):
        day = date + dt.timedelta(ahead)
        usual = SA if day.weekday() == 5 else SU if day.weekday() == 6 else WK
        if usual != SU:
            rows += [(day, usual, 2), (day, SU, 1)]
            if usual == WK:
                rows.append((day, SC, 2))
    for ahead in range(40, 54):  # school holidays
        day = date + dt.timedelta(ahead)
        if day.weekday() < 5:
            rows.append((day, SC, 2))
    rows += [(date + dt.timedelta(ahead), EV, 1) for ahead in (-5, 0, 2, 9, 30)]
    rows = sorted({(SERVICES[s], f"{day:%Y%m%d}", kind) for day, s, kind in rows})
    names = ("service_id", "date", "exception_type")
    put(out, "calendar_dates.txt", dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def write_lines(out: Folder | Archive, plan: Plan, net: Network) -> None:
    """agency.txt, routes.txt and feed_info.txt."""
    agencies = {"T": "City Transport", "R": "Intercity Rail"}
    put(
        out,
        "agency.txt",
        {
            "agency_id": list(agencies),
            "agency_name": list(agencies.values()),
            "agency_url": ["https://example.org"] * 2,
            "agency_timezone": ["Europe/Zurich"] * 2,
        },
    )
    number = np.arange(len(net.paths))
    cities = city_names(len(net.city_stops))
    ends = [cities.take(pa.array(net.place_city[np.array([path[at] for path in net.paths])])) for at in (0, -1)]
    put(
        out,
        "routes.txt",
        {
            "route_id": join("L", text(number)),
            "agency_id": pa.array(np.where(net.mode == INTERCITY, "R", "T")),
            "route_short_name": text(number + 1),
            "route_long_name": join(ends[0], " - ", ends[1], " ", text(number + 1)),
            "route_type": np.array([ROUTE_TYPES[m] for m in net.mode.tolist()]),
        },
    )
    put(
        out,
        "feed_info.txt",
        {
            "feed_publisher_name": ["A made-up feed"],
            "feed_publisher_url": ["https://example.org"],
            "feed_lang": ["en"],
            "feed_version": [f"seed {plan.seed}"],
        },
    )


def chunks(plan: Plan, net: Network, chunk_rows: int) -> Iterator[list[Run]]:
    """Runs of consecutive lines, until they make up about so many rows."""
    batch, rows = [], 0
    for line in traits(plan, net):
        for run in runs(plan, net, line):
            batch.append(run)
            rows += len(run.departures) * len(run.pattern.stops)
        if rows >= chunk_rows:
            yield batch
            batch, rows = [], 0
    if batch:
        yield batch


def ragged(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """start, start + 1, ... for each pair of start and count, end to end."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1]) + np.repeat(starts - (ends - counts), counts)


def tables(batch: list[Run], ids: pa.Array, clock: pa.Array) -> tuple[pa.Table, pa.Table, pa.Table]:
    """trips, stop_times and frequencies of some runs."""
    per_run = np.array([len(run.departures) for run in batch])
    owner = np.repeat(np.arange(len(batch)), per_run)
    prefix = pa.array([f"{r.line}-{SERVICES[r.service]}-{r.direction}{r.variant}-" for r in batch], pa.string())
    trip_id = join(prefix.take(pa.array(owner)), text(ragged(np.zeros(len(batch), np.int64), per_run), 3))

    def per_trip(values: list[object]) -> pa.Array:
        return pa.array(values).take(pa.array(owner))

    trips = pa.table(
        {
            "route_id": per_trip([f"L{run.line}" for run in batch]),
            "service_id": per_trip([SERVICES[run.service] for run in batch]),
            "trip_id": trip_id,
            "direction_id": per_trip([run.direction for run in batch]),
        }
    )

    # All patterns end to end, those of each set of running times after the other.
    size = np.array([len(run.pattern.stops) for run in batch])
    begin = np.concatenate([[0], np.cumsum(size)])

    def all_of(name: str) -> np.ndarray:
        return np.concatenate([getattr(run.pattern, name) for run in batch], axis=-1)

    arrive, depart = all_of("arrive"), all_of("depart")
    departures = np.concatenate([run.departures for run in batch])
    sets = np.concatenate([run.sets for run in batch])
    trip = np.repeat(np.arange(len(owner)), size[owner])
    at = ragged(begin[owner], size[owner])
    untimed = ~all_of("timed")[at]
    stop_times = pa.table(
        {
            "trip_id": trip_id.take(pa.array(trip)),
            "arrival_time": clock.take(pa.array(departures[trip] + arrive[sets[trip], at], mask=untimed)),
            "departure_time": clock.take(pa.array(departures[trip] + depart[sets[trip], at], mask=untimed)),
            "stop_id": ids.take(pa.array(all_of("stops")[at])),
            "stop_sequence": all_of("sequence")[at].astype(np.int32),
            "pickup_type": all_of("no_pickup")[at].astype(np.int8),
            "drop_off_type": all_of("no_drop")[at].astype(np.int8),
            "timepoint": (~untimed).astype(np.int8),
        }
    )

    first = np.cumsum(per_run) - per_run
    spans = [
        (int(first[i]), *map(int, row), int(run.exact))
        for i, run in enumerate(batch)
        if run.windows is not None
        for row in run.windows
    ]
    span = np.array(spans, np.int64).reshape(-1, 5)
    frequencies = pa.table(
        {
            "trip_id": trip_id.take(pa.array(span[:, 0])),
            "start_time": clock.take(pa.array(span[:, 1])),
            "end_time": clock.take(pa.array(span[:, 2])),
            "headway_secs": span[:, 3],
            "exact_times": span[:, 4],
        }
    )
    return trips, stop_times, frequencies


def generate(out: Path | str, plan: Plan, *, chunk_rows: int = CHUNK_ROWS) -> dict[str, int]:
    """Write the feed to a zip (a name that ends so) or a folder; returns the number of rows per table."""
    path = Path(out)
    net = network(plan)
    target = Archive(path) if path.suffix == ".zip" else Folder(path)
    counts = {"stops": len(net.stop_xy), "stations": int(net.station.sum()), "routes": len(net.paths)}
    counts |= {"trips": 0, "stop_times": 0, "frequencies": 0}
    with contextlib.closing(target), contextlib.ExitStack() as stack:
        write_lines(target, plan, net)
        ids = write_stops(target, net)
        write_calendar(target, plan.date)
        write_transfers(target, plan, net, ids)
        clock = clock_table()
        # A zip takes one entry at a time: what belongs to trips waits in files of its own.
        waiting = {n: stack.enter_context(tempfile.TemporaryFile()) for n in ("trips", "frequencies")}
        with target.open("stop_times.txt") as sink:
            for i, batch in enumerate(chunks(plan, net, chunk_rows)):
                trips, stop_times, frequencies = tables(batch, ids, clock)
                sink.write(csv_bytes(stop_times, header=i == 0, quoting="none"))
                for name, table in (("trips", trips), ("frequencies", frequencies)):
                    waiting[name].write(csv_bytes(table, header=i == 0, quoting="none"))
                    counts[name] += len(table)
                counts["stop_times"] += len(stop_times)
        for name, source in waiting.items():
            source.seek(0)
            with target.open(f"{name}.txt") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
    return counts


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The command's options: a preset, and any field of the plan over it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="a folder, or a name that ends in .zip")
    parser.add_argument("--preset", choices=PRESETS, default="city")
    parser.add_argument("--compare", type=Path, nargs="*", default=None, metavar="FEED", help="feeds to set beside")
    parser.add_argument("--no-stats", action="store_true", help="only write")
    for field in dataclasses.fields(Plan):
        kind = dt.date.fromisoformat if field.name == "date" else type(field.default)
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind, metavar=field.name.upper())
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Write a feed, then show what it is like."""
    args = parse(argv)
    given = {f.name: getattr(args, f.name) for f in dataclasses.fields(Plan)}
    plan = dataclasses.replace(
        PRESETS[args.preset], **{name: value for name, value in given.items() if value is not None}
    )
    start = time.perf_counter()
    counts = generate(args.out, plan)
    print(f"{args.out}: " + ", ".join(f"{n:,} {what}" for what, n in counts.items()))
    print(f"written in {time.perf_counter() - start:.1f} s")
    if not args.no_stats:
        import feed_stats

        feed_stats.show([args.out, *(args.compare or [])], plan.date)


if __name__ == "__main__":
    main()
