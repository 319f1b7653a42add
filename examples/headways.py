"""How far apart departures of each stop are in the next bin of time.

headway build subway.zip --date 2026-09-30 --days 7 -o subway.store
headway snapshots subway.store -o subway-graph --bin 3600 --value headway
python examples/headways.py subway-graph -o headways-model

An edge leads to the next stop, its value is the headway; that of a stop is the mean over its next stops. Learned is the
difference from the same time a day before. Bins may have any width that divides a day. Needs PyTorch.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from headway.pipeline.learning.plan import first_held_out
from headway.pipeline.train import Options, train

import headway as hw

DAY = 86_400  # seconds, as the graph's times


def headways(graph: hw.DTCSR) -> np.ndarray:
    """Minutes, as log(1 + x), float32[ticks, stops]; NaN where nothing leaves."""
    found = np.full((graph.ticks, graph.nodes), np.nan, np.float32)
    for tick, window in enumerate(graph.windows()):
        stops, count = np.unique(window.edges()[0], return_counts=True)
        total = np.bincount(window.edges()[0], window.values(), graph.nodes)[stops]
        found[tick, stops] = np.log1p(total / count / 60)
    return found


def bin_of(graph: hw.DTCSR, path: Path) -> int:
    """Seconds of a tick. Exits for ticks of several widths, or of one that doesn't divide a day."""
    widths = np.unique(np.diff(graph.times))
    if len(widths) != 1 or DAY % widths[0]:
        sys.exit(f"{path}: its ticks are no bins that divide a day; make it by `headway snapshots STORE --bin 3600`")
    return int(widths[0])


def main() -> None:
    """Features and targets of a graph; train; compare with what needs no training."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("graph", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("headways-model"), help="a folder [headways-model]")
    parser.add_argument("--epochs", type=int, default=20)
    given = parser.parse_args()
    graph = hw.load(given.graph)
    width = bin_of(graph, given.graph)
    target, a_day = headways(graph), DAY // width
    first = first_held_out(graph.ticks)  # the first bin that is only predicted
    mean = filled(target[:first]).sum(0) / np.maximum(np.isfinite(target[:first]).sum(0), 1)
    whole = np.where(np.isfinite(target), target, mean)  # a stop without departures has its mean
    day = np.concatenate([np.broadcast_to(mean, (a_day, graph.nodes)), whole])[: graph.ticks]  # a day before
    change, coming = whole - day, np.roll(day, -1, axis=0)  # the next bin's a day before, which is known
    turn = (graph.times + width) % DAY * (2 * np.pi / DAY)  # of the clock, at the beginning of the next bin
    clock = [np.broadcast_to(of(turn)[:, None], target.shape) for of in (np.sin, np.cos)]
    given.output.mkdir(parents=True, exist_ok=True)
    paths = given.output / "features.npy", given.output / "targets.npy"
    columns = [change, np.isfinite(target), coming - mean, *clock]
    np.save(paths[0], np.stack(columns, 2).astype(np.float32))  # [ticks, stops, columns]
    np.save(paths[1], target - day)
    options = Options(features=str(paths[0]), targets=str(paths[1]), lr=0.003)
    curve = train(graph, given.output / "model", options, given.epochs, overwrite=True, told=print)

    print(
        f"mean squared error of log(1 + headway in minutes), last {graph.ticks - first} of {graph.ticks} bins of "
        f"{width} s:"
    )
    print(f"  TGCN                        {curve[-1].held_out:.4f}")
    guesses = {"same time a day before": day, "the bin before": np.roll(whole, 1, axis=0), "mean of the stop": mean}
    for name, guess in guesses.items():
        errors = (target - guess)[first:] ** 2
        known = np.isfinite(errors).any(1)  # every bin counts alike, as in training
        print(f"  {name:26}  {np.nanmean(errors[known], 1).sum() / len(errors):.4f}")


def filled(array: np.ndarray) -> np.ndarray:
    """0 where nothing is known."""
    return np.nan_to_num(array, nan=0.0)


if __name__ == "__main__":
    main()
