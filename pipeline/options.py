"""Options and their values that commands share."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

Profile = Annotated[str, typer.Option(metavar="NAME", help="A profile of conf/, or a .yaml file.")]
Overrides = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the profile.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the output if it exists.")]
StoreSource = Annotated[str, typer.Argument(metavar="STORE", help="A folder that `headway build` wrote, or its URL.")]


class Walk(enum.StrEnum):
    """What `--walk` takes."""

    default = "default"
    none = "none"


class Subtrips(enum.StrEnum):
    """What `--subtrips` takes."""

    none = "none"
    sqrt_trip = "sqrt-trip"
    sqrt_mean = "sqrt-mean"


class AnswerKind(enum.StrEnum):
    """What `--answer` takes."""

    arrivals = "arrivals"
    od = "od"
    reach = "reach"


class Algorithm(enum.StrEnum):
    """What `--algorithm` takes."""

    edge_profile = "edge-profile"
    label_correcting = "label-correcting"
    connection_scan = "connection-scan"
    esdg = "esdg"
    connection = "connection"
    connection_type = "connection-type"
    connection_type_ap = "connection-type-ap"
    cluster_ap = "cluster-ap"
    edge = "edge"
    edge_2 = "edge-2"
    edge_4 = "edge-4"
    edge_8 = "edge-8"
    edge_16 = "edge-16"
    edge_32 = "edge-32"


class Device(enum.StrEnum):
    """What `--device` takes."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"
