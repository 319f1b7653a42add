"""The one error that users see."""


class HeadwayError(Exception):
    """Wrong input or state, told in one line: file, row, cause, way out."""
