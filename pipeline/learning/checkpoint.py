"""What is left of a run after each epoch, so that another goes on from there, on whatever devices."""

from __future__ import annotations

import io
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch  # pyright: ignore[reportMissingImports]

from ...storage.errors import HeadwayError
from ..unfinished import replace
from .options import Epoch, Options
from .tasks import Model


def save(
    path: Path, options: Options, nodes: int, columns: int, curve: list[Epoch], model: Model, optimizer: Any
) -> None:
    """Whole or not at all. Raises `HeadwayError` where the disk is full."""
    found = {
        "options": asdict(options),
        "columns": columns,
        "nodes": nodes,
        "curve": [(one.epoch, one.learned, one.held_out) for one in curve],
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
    }
    memory = io.BytesIO()  # of a file that can't be written, PyTorch says nothing that helps
    torch.save(found, memory)
    try:
        replace(path, lambda beside: beside.write_bytes(memory.getbuffer()))
    except OSError as error:
        way_out = "go on with --resume" if path.exists() else "begin again"
        raise HeadwayError(f"{path}: {error.strerror}; make room, then {way_out}") from error


def opened(path: Path, options: Options) -> dict[str, Any]:
    """A checkpoint of the same options. Raises `HeadwayError`."""
    if not path.exists():
        raise HeadwayError(f"{path} is not there; leave --resume out to begin")
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
        theirs = found["options"]
    except Exception as error:  # what torch raises for a file of another kind, or a cut one, is of many types
        reason = str(error).partition("\n")[0]
        raise HeadwayError(f"{path} is no checkpoint of headway train: {reason}") from None
    mine = asdict(options)
    if other := next((name for name in mine if mine[name] != theirs.get(name)), None):
        raise HeadwayError(f"{path} has --{other} {theirs.get(other)}, not {mine[other]}; resume with the same")
    return found


def restore(path: Path, options: Options, nodes: int, columns: int, model: Model, optimizer: Any) -> list[Epoch]:
    """Fill model and optimizer; the curve so far. Raises `HeadwayError`, also for one of another graph."""
    found = opened(path, options)
    if found["columns"] != columns or found["nodes"] != nodes:
        raise HeadwayError(f"{path}: of {found['nodes']} nodes with {found['columns']} features each")
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    return [Epoch(*row) for row in found["curve"]]
