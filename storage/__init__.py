"""Sparse hierarchies on disk and in memory: plain dataclasses of arrays."""
