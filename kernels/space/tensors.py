"""Tensors over levels: from and to SciPy, NumPy and CuPy without copies, packed from coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .levels import Arrays, Compressed, Dense, Level, Singleton, array_module, check


@dataclass(frozen=True)
class Format:
    """Levels from the outermost in, and the dimension that each one stores."""

    levels: tuple[Level, ...]
    modes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not (isinstance(self.levels, tuple) and isinstance(self.modes, tuple)):
            raise ValueError("levels and modes of a format are tuples")
        if wrong := next((level for level in self.levels if not isinstance(level, Level)), None):
            raise ValueError(f"{wrong} is no level: write Dense(), not Dense")
        if sorted(self.modes) != list(range(len(self.levels))):
            raise ValueError(f"modes {self.modes}: each of {len(self.levels)} dimensions belongs to one level")

    @property
    def sparse(self) -> bool:
        """Whether any level leaves coordinates out."""
        return not all(level.full for level in self.levels)


def dense_format(order: int) -> Format:
    """Every coordinate of each of so many dimensions, the last one innermost."""
    return Format((Dense(),) * order, tuple(range(order)))


def csf_format(order: int) -> Format:
    """Compressed sparse fibres: each of so many levels keeps the coordinates that occur."""
    return Format((Compressed(),) * order, tuple(range(order)))


def coo_format(order: int) -> Format:
    """All levels but the last may repeat a coordinate."""
    inner = (Singleton(unique=False),) * (order - 2) + (Singleton(),)
    levels = (Compressed(unique=False), *inner) if order > 1 else (Compressed(),)
    return Format(levels, tuple(range(order)))


CSR = Format((Dense(), Compressed()), (0, 1))
CSC = Format((Dense(), Compressed()), (1, 0))
COO = coo_format(2)
DCSR = csf_format(2)
FORMAT_NAMES = {CSR: "CSR", CSC: "CSC", COO: "COO", DCSR: "DCSR"}


@dataclass(frozen=True, eq=False)
class Tensor:
    """`arrays[l]` are those that level l names; `values` has one entry for each position of the last level.

    Raises `ValueError` where coordinates are out of order, repeated or outside of the shape.
    """

    format: Format
    shape: tuple[int, ...]
    arrays: tuple[Arrays, ...]
    values: Any
    checked: bool = True

    def __post_init__(self) -> None:
        if self.checked:
            self._check()

    def _check(self) -> None:
        parents, above = 1, None
        for number, (level, data) in enumerate(zip(self.format.levels, self.arrays, strict=True)):
            size = self.shape[self.format.modes[number]]
            if set(data) != set(level.arrays):
                raise ValueError(f"level {number} needs the arrays {', '.join(level.arrays)}")
            if level.full:
                parents, above = parents * size, None
                continue
            run = check(level, data, parents, size, above, f"level {number}")
            parents, above = len(data[level.arrays[-1]]) if data else parents, None if level.unique else run
        if self.values is not None and len(self.values) < parents:
            raise ValueError(f"{len(self.values)} values for {parents} positions")

    @classmethod
    def from_coordinates(cls, coordinates: Sequence[Any], values: Any, shape: Sequence[int], form: Format) -> Tensor:
        """Pack coordinates (one array a dimension) in any order; duplicates are summed."""
        given, values = [np.asarray(one) for one in coordinates], _plain(values)
        if not len(given) == len(shape) == len(form.levels):
            raise ValueError(f"{len(given)} coordinates for the shape {tuple(shape)} and {len(form.levels)} levels")
        if values.ndim != 1:
            raise ValueError(f"values have {values.ndim} dimensions, not one")
        for number, (column, size, mode) in enumerate(zip(given, shape, form.modes, strict=True)):
            if column.shape != (len(values),):
                raise ValueError(f"dimension {number}: {column.shape} coordinates for {values.shape} values")
            if column.dtype.kind not in "iu" and len(column):
                raise ValueError(f"dimension {number}: coordinates are whole numbers, not {column.dtype}")
            if len(column) and (int(column.max()) >= size or int(column.min()) < 0):
                raise ValueError(
                    f"dimension {number}: {column.min()} to {column.max()} is outside of {size} coordinates"
                )
            if shape[mode] > 2**32 and not form.levels[number].full:
                raise ValueError(f"dimension {mode}: {shape[mode]} coordinates are more than 32 bits count")
        columns = [given[mode].astype(np.int64) for mode in form.modes]
        order = np.lexsort(columns[::-1])
        columns, values = [column[order] for column in columns], values[order]
        if len(values):
            new = np.concatenate([[True], np.any([column[1:] != column[:-1] for column in columns], axis=0)])
            columns, values = [column[new] for column in columns], _sum(values, np.flatnonzero(new))
        parent, count, arrays = np.zeros(len(values), np.int64), 1, []
        for level, mode, column in zip(form.levels, form.modes, columns, strict=True):
            if isinstance(level, Dense):
                arrays.append({"n": int(shape[mode])})
                parent, count = parent * shape[mode] + column, count * shape[mode]
                continue
            change = np.ones(len(column), bool)
            if level.unique and len(column):
                change[1:] = (parent[1:] != parent[:-1]) | (column[1:] != column[:-1])
            data: Arrays = {"crd": column[change].astype(np.uint32)}
            if "pos" in level.arrays:
                data["pos"] = np.concatenate([[0], np.cumsum(np.bincount(parent[change], minlength=count))])
                data["pos"] = data["pos"].astype(np.int64)
                parent, count = np.cumsum(change) - 1, int(change.sum())
            arrays.append(data)
        stored = np.zeros(count, values.dtype)
        stored[parent] = values
        return cls(form, tuple(shape), tuple(arrays), stored)

    @classmethod
    def from_scipy(cls, matrix: Any, canonical: bool = False) -> Tensor:
        """A CSR, CSC or COO matrix of SciPy or CuPy, sharing its arrays.

        `canonical=True` sorts and sums duplicates, in a copy, where that is needed.
        """
        if matrix.format == "coo":
            row, col = (_unsigned(part) for part in (matrix.row, matrix.col))
            pos = array_module(row).asarray([0, len(row)])
            arrays = ({"pos": pos, "crd": row}, {"crd": col})
            form = COO
        elif matrix.format in ("csr", "csc"):
            form = CSR if matrix.format == "csr" else CSC
            arrays = ({"n": matrix.shape[form.modes[0]]}, {"pos": matrix.indptr, "crd": _unsigned(matrix.indices)})
        else:
            raise ValueError(f"{matrix.format} is none of csr, csc and coo: convert it first")
        try:
            return cls(form, matrix.shape, arrays, matrix.data)
        except ValueError:
            if not canonical:
                raise
            whole = matrix.tocoo()
            return cls.from_coordinates((whole.row, whole.col), whole.data, matrix.shape, form)

    def coordinates(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Coordinates of each dimension and values, by position of the last level."""
        low, high = 0, 1
        columns: list[np.ndarray] = []
        for level, data in zip(self.format.levels, self.arrays, strict=True):
            if level.full:
                n, count = data["n"], high - low
                columns = [np.repeat(column, n) for column in columns] + [np.tile(np.arange(n), count)]
                low, high = low * n, high * n
                continue
            if not level.adjoining:
                raise ValueError("slices lie apart: a tensor of them is read by kernels alone")
            if "pos" in level.arrays:
                pos = np.asarray(data["pos"])[low : high + 1]
                columns = [np.repeat(column, np.diff(pos)) for column in columns]
                low, high = int(pos[0]), int(pos[-1])
            columns.append(np.asarray(data["crd"])[low:high].astype(np.int64) if data else np.arange(low, high))
        found: list[Any] = [None] * len(columns)
        for mode, column in zip(self.format.modes, columns, strict=True):
            found[mode] = column
        return found, np.asarray(self.values)[low:high]

    def to(self, form: Format) -> Tensor:
        """The same entries in another format."""
        return Tensor.from_coordinates(*self.coordinates(), self.shape, form)

    def to_device(self) -> Tensor:
        """A copy on the GPU, in Numba's arrays."""
        from numba import cuda

        arrays = tuple({n: a if isinstance(a, int) else cuda.to_device(a) for n, a in d.items()} for d in self.arrays)
        values = None if self.values is None else cuda.to_device(self.values)
        return Tensor(self.format, self.shape, arrays, values, checked=False)

    def to_dense(self, fill: Any = 0) -> np.ndarray:
        """All entries, `fill` where none is stored (under min-plus infinity, or what `Semiring.zero` tells)."""
        coordinates, values = self.coordinates()
        out = np.full(self.shape, fill, values.dtype)
        out[tuple(coordinates)] = 0
        np.add.at(out, tuple(coordinates), values)
        return out

    def to_scipy(self) -> Any:
        """The SciPy matrix of the same format, sharing the arrays; CSR for formats that SciPy lacks."""
        import scipy.sparse

        if self.format in (CSR, CSC):
            make = scipy.sparse.csr_matrix if self.format == CSR else scipy.sparse.csc_matrix
            pos, crd = self.arrays[1]["pos"], _signed(self.arrays[1]["crd"])
            low, high = int(pos[0]), int(pos[-1])
            return make((self.values[low:high], crd[low:high], pos - low if low else pos), shape=self.shape)
        (row, col), values = self.coordinates()
        whole = scipy.sparse.coo_matrix((values, (row, col)), shape=self.shape)
        return whole if self.format == COO else whole.tocsr()


def _sum(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Sums of the runs that begin at `starts`; of truth values, whether any holds."""
    return (np.logical_or if values.dtype == bool else np.add).reduceat(values, starts, dtype=values.dtype)


def _plain(values: Any) -> np.ndarray:
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError("values are masked: the mask would be lost; leave entries out, or fill them with filled()")
    return np.asarray(values)


def _unsigned(crd: Any) -> Any:
    """32-bit coordinates as unsigned ones: Numba checks signed indices for being negative (1.7x slower)."""
    return crd.view(np.uint32) if crd.dtype == np.int32 else crd


def _signed(crd: Any) -> Any:
    return crd.view(np.int32) if crd.dtype == np.uint32 else crd
