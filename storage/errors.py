"""The base of every error that a user is meant to read.

It lies here because every room raises it, and this one knows no other: all that `cluster` takes from another room.
"""


class HeadwayError(Exception):
    """Wrong input or state, told in one line: file, row, cause, way out."""


class WorkersError(HeadwayError):
    """What works on an input fails, whatever the input is."""
