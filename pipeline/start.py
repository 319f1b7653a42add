"""Where the command begins, before anything is imported: Ctrl-C is no traceback then either."""

from __future__ import annotations

import sys


def main() -> None:
    """As `cli.main`."""
    try:
        from .cli import main as run
    except KeyboardInterrupt:
        print("headway: interrupted", file=sys.stderr)
        sys.exit(130)
    run()
