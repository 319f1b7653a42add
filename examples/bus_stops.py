"""How many passengers board at each bus stop in the next hour.

python examples/bus_stops.py montevideo_bus.json -o bus-model    # PyTorch Geometric Temporal's data set of that name

The stops and the links between them stay; what changes is how many people boarded in the hours before. Learned is the
difference from what is usual for the stop at that hour of the day. Needs PyTorch.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from headway.pipeline.learning.plan import first_held_out
from headway.pipeline.train import Options, train

import headway as hw

LAGS = 24  # hours that a stop is known for


def main() -> None:
    """A graph of an hour a tick, features and targets; train; compare with what needs no training."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("bus-model"), help="a folder [bus-model]")
    parser.add_argument("--epochs", type=int, default=8)
    given = parser.parse_args()
    data = json.loads(given.data.read_text())
    stops = np.array([node["bus_stop"] for node in data["nodes"]])
    boarded = np.log1p(np.array([node["y"] for node in data["nodes"]], np.float32).T)  # [hours, stops]
    ends = [np.array([link[end] for link in data["links"]]) for end in ("source", "target")]
    links = {"src": ends[0], "dst": ends[1], "time": np.zeros(len(ends[0]), np.int64), "op": np.ones(len(ends[0]), int)}
    graph = hw.DTCSR.from_events(links, op="op", nodes=stops, times=np.arange(len(boarded)))

    first, hours = first_held_out(graph.ticks), len(boarded)  # the first hour that is only predicted
    usual = np.stack([boarded[hour:first:24].mean(0) for hour in range(24)])[np.arange(hours) % 24]
    unusual = boarded - usual
    before = np.concatenate([np.zeros((LAGS - 1, len(stops)), np.float32), unusual])
    recent = np.lib.stride_tricks.sliding_window_view(before, LAGS, axis=0)
    coming = np.roll(usual, -1, axis=0)  # usual in the next hour
    given.output.mkdir(parents=True, exist_ok=True)
    features, targets = given.output / "features.npy", given.output / "targets.npy"
    np.save(features, np.concatenate([recent, coming[:, :, None]], 2))  # [hours, stops, columns]
    np.save(targets, unusual)
    options = Options(features=str(features), targets=str(targets), lr=0.003)
    curve = train(graph, given.output / "model", options, given.epochs, overwrite=True, told=print)

    test = boarded[first:]
    print(f"mean squared error of log(1 + boarded), last {len(test)} of {hours} hours:")
    print(f"  TGCN                      {curve[-1].held_out:.4f}")
    print(f"  mean of stop and hour     {((test - usual[first:]) ** 2).mean():.4f}")
    print(f"  the hour before           {((test - boarded[first - 1 : -1]) ** 2).mean():.4f}")
    print(f"  same hour a day before    {((test - boarded[first - 24 : -24]) ** 2).mean():.4f}")


if __name__ == "__main__":
    main()
