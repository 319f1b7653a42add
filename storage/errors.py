"""The base of every error that a user is meant to read."""


class HeadwayError(Exception):
    """Wrong input or state, told in one line: file, row, cause, way out."""


class WorkersError(HeadwayError):
    """What works on an input fails, whatever the input is."""
