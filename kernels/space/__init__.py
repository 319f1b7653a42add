"""Iteration spaces: statements over sparse levels, schedules, and readable Numba kernels for CPU and CUDA."""

from .assembly import assemble
from .autoschedule import autoschedule, rows_of, tune
from .begin import schedule
from .explain import explain
from .interpreter import interpret
from .kernel import Kernel, kernel
from .levels import Compressed, Dense, Numbered, Singleton
from .relations import ATOMIC, CARRY, NONE, PRIVATE, ScheduleError, shuffle
from .schedule import Schedule
from .statement import MIN_PLUS, OR_AND, PLUS_TIMES, Semiring, Statement, parse
from .tensors import COO, CSC, CSR, DCSR, Format, Tensor, coo_format, csf_format, dense_format
from .time_levels import Progression, Slices, Window

__all__ = [
    "ATOMIC", "CARRY", "COO", "CSC", "CSR", "DCSR", "MIN_PLUS", "NONE", "OR_AND", "PLUS_TIMES", "PRIVATE", "Compressed",
    "Dense", "Format", "Kernel", "Numbered", "Progression", "Schedule", "ScheduleError", "Semiring", "Singleton",
    "Slices", "Statement", "Tensor", "Window", "assemble", "autoschedule", "coo_format", "csf_format", "dense_format",
    "explain", "interpret", "kernel", "parse", "rows_of", "schedule", "shuffle", "tune",
]  # fmt: skip
