"""Plots of a study as PNG, legible without colour."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from .contestants import BEST
from .tables import OWN_WIDTH, Study, Table, shown

# Two of Okabe and Ito's colours, told apart by the colour-blind and in grey.
LOOK = {"cpu": {"color": "#0072B2", "marker": "o"}, "cuda": {"color": "#D55E00", "marker": "s"}}
MEDIAN = "median speedup over connection scan"
FAR = 20  # times that are too much for one linear axis
DPI = 150


def algorithms(study: Study, table: Table, file: Path) -> bool:
    """Speedups as points on a logarithmic axis, a line from that of the connection scan."""
    rows = table.records[::-1]
    speedups = [row["median x"] for row in rows]
    figure, axes = _axes(7.5, 1.2 + 0.3 * len(rows))
    axes.hlines(range(len(rows)), 1, speedups, color="#BBBBBB", linewidth=1.5, zorder=1)
    for name, look in LOOK.items():
        places = [place for place, row in enumerate(rows) if row["device"] == name]
        if places:
            axes.plot(np.take(speedups, places), places, linestyle="none", label=name, zorder=2, **look)
    for place, speedup in enumerate(speedups):
        side = 1 if speedup >= 1 else -1
        axes.annotate(
            f"{shown(speedup)} x",
            (speedup, place),
            xytext=(7 * side, 0),
            textcoords="offset points",
            ha="left" if side > 0 else "right",
            va="center",
            fontsize=8,
        )
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [row["algorithm"] for row in rows])
    _log(axes.xaxis, axes.set_xscale)
    low, high = min(speedups), max(speedups)
    room = max(4.0, (high / low) ** 0.2)  # for the numbers beside the outermost points
    axes.set_xlim(low / room, high * room)
    axes.set_xlabel(f"{MEDIAN} (log scale)")
    axes.set_title("Single queries, each algorithm")
    return _save(figure, axes, file)


def factors(study: Study, table: Table, file: Path) -> bool:
    """Parallel factor against speedup, a point a scheme of sub-trips; none where there is but one."""
    figure, axes = _axes(6, 4)
    for device in study.devices:
        rows = study.schemes_of(BEST, device)
        if len(rows) < 2:
            return False
        points = [(row["parallel factor"], row["median x"]) for row in rows]
        axes.plot(*zip(*points, strict=True), linestyle="none", label=device, **LOOK[device])
        # Schemes with trips of a like length lie close together: every other name stands below its point.
        for place, (row, point) in enumerate(sorted(zip(rows, points, strict=True), key=lambda pair: pair[1])):
            side = {"va": "bottom", "xytext": (0, 6)} if place % 2 == 0 else {"va": "top", "xytext": (0, -6)}
            axes.annotate(row["sub-trips"], point, textcoords="offset points", ha="center", fontsize=8, **side)
    axes.margins(x=0.2)
    axes.set_xlabel("parallel factor, connections / temporal diameter")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    _speedups(axes)
    axes.set_title(f"{BEST}: parallel factor against speedup, by sub-trips")
    return _save(figure, axes, file)


def clusters(study: Study, table: Table, file: Path) -> bool:
    """Speed by width, against that of the store's own."""
    own = study.store.cluster_ap.width // 60
    figure, axes = _lines(table, "cluster, min", OWN_WIDTH)
    axes.set_xlabel("width of a cluster, minutes (log scale)")
    axes.set_ylim(0, 1.2 * max(row[OWN_WIDTH] for row in table.records))
    axes.set_ylabel(f"median speed, that of {own} min = 1")
    axes.set_title(f"{BEST}: width of a cluster")
    return _save(figure, axes, file)


def warps(study: Study, table: Table, file: Path) -> bool:
    """Speedup by lanes."""
    figure, axes = _lines(table, "lanes", "median x")
    axes.set_xlabel("lanes of a virtual warp (log scale)")
    _speedups(axes)
    axes.set_title("edge: lanes for an edge")
    return _save(figure, axes, file)


def _lines(table: Table, across: str, up: str) -> tuple[Figure, Any]:
    """A column by another, on a logarithmic axis with its values as ticks; a line a device."""
    figure, axes = _axes(6, 4)
    for device, look in LOOK.items():
        rows = [row for row in table.records if row["device"] == device]
        if rows:
            axes.plot([row[across] for row in rows], [row[up] for row in rows], label=device, **look)
    ticks = sorted({row[across] for row in table.records})
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    return figure, axes


def _axes(width: float, height: float) -> tuple[Figure, Any]:
    figure = Figure((width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    return figure, axes


def _speedups(axes: Any) -> None:
    """A vertical axis from 0 for what is drawn already, or a logarithmic one where one device is much faster."""
    values = np.concatenate([line.get_ydata() for line in axes.lines])
    if values.max() > FAR * values.min():
        _log(axes.yaxis, axes.set_yscale)
        axes.set_ylim(values.min() / 2, values.max() * 2)
        axes.set_ylabel(f"{MEDIAN} (log scale)")
    else:
        axes.set_ylim(0, 1.2 * values.max())
        axes.set_ylabel(MEDIAN)


def _log(axis: Any, set_scale: Any) -> None:
    """A logarithmic axis with numbers such as 0.01 and 100."""
    set_scale("log")
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _save(figure: Figure, axes: Any, file: Path) -> bool:
    if len(axes.get_legend_handles_labels()[1]) > 1:
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(file, dpi=DPI)
    return True
