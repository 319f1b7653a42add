"""Iteration spaces: statements over sparse levels, schedules, and readable Numba kernels for CPU and CUDA."""
