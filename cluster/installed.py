"""What must be the same wherever work runs."""

from __future__ import annotations

import sys
from importlib.metadata import version


def installed() -> str:
    """Headway and Python of this process."""
    return f"headway {version('headway')} on Python {sys.version_info.major}.{sys.version_info.minor}"
