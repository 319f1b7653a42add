"""Tensors: packing, what is shared with SciPy, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from cases import FORMATS, FORMATS_3D, arrays, cubes, tensor
from headway.kernels.space import COO, CSC, CSR, DCSR, Compressed, Dense, Format, Tensor, dense_format

UNSORTED = (np.array([3, 1, 0]), np.array([0, 2, 3]))
REPEATED = (np.array([1, 1, 0]), np.array([0, 2, 3]))


@pytest.mark.parametrize("form", [*FORMATS.values(), dense_format(2)])
def test_matrices_come_back(form: Format) -> None:
    for array in arrays().values():
        made = tensor(array, form)
        assert np.array_equal(made.to_dense(), array)
        assert np.array_equal(made.to(CSC).to_dense(), array)
        if array.size:
            assert np.array_equal(made.to_scipy().toarray(), array)


@pytest.mark.parametrize("form", FORMATS_3D.values())
def test_cubes_come_back(form: Format) -> None:
    for array in cubes().values():
        assert np.array_equal(tensor(array, form).to_dense(), array)


def test_duplicates_are_summed() -> None:
    made = Tensor.from_coordinates(([1, 0, 1], [2, 1, 2]), [1.0, 2.0, 4.0], (2, 3), CSR)
    assert made.to_dense().tolist() == [[0, 2, 0], [0, 0, 5]]
    truth = Tensor.from_coordinates(([1, 1], [2, 2]), [True, True], (2, 3), CSR)
    assert truth.values.tolist() == [True]


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_scipy_shares_its_arrays(kind: str) -> None:
    matrix = scipy.sparse.random(20, 30, 0.2, kind, random_state=1)
    if kind == "coo":
        matrix = matrix.tocsr().tocoo()
    made = Tensor.from_scipy(matrix)
    assert made.values is matrix.data
    index = matrix.col if kind == "coo" else matrix.indices
    assert np.shares_memory(made.arrays[1]["crd"], index)
    assert made.arrays[1]["crd"].dtype == np.uint32
    back = made.to_scipy()
    assert back.format == kind
    assert np.shares_memory(back.data, matrix.data)
    assert (back != matrix).nnz == 0


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        (UNSORTED, r"level 1: coordinate 1 at position 1 stands after a greater one; canonical=True sorts and sums"),
        (REPEATED, r"level 1: coordinate 1 at position 1 repeats; canonical=True sorts and sums duplicates"),
    ],
)
def test_order_is_checked_or_made(indices: tuple[np.ndarray, np.ndarray], message: str) -> None:
    matrix = scipy.sparse.csr_matrix((np.array([1.0, 2.0, 4.0]), *indices), shape=(2, 4))
    with pytest.raises(ValueError, match=message):
        Tensor.from_scipy(matrix)
    assert np.array_equal(Tensor.from_scipy(matrix, canonical=True).to_dense(), matrix.toarray())


@pytest.mark.parametrize(
    ("row", "column", "message"),
    [
        ([1, 0], [0, 0], "level 0: coordinate 0 at position 1 stands after a greater one"),
        ([0, 0], [1, 0], "level 1: coordinate 0 at position 1 stands after a greater one"),
        ([0, 0], [1, 1], "level 1: coordinate 1 at position 1 repeats"),
        ([0, 3], [1, 1], "level 0: a coordinate is missing or outside of a dimension of 2"),
    ],
)
def test_coo_is_checked(row: list[int], column: list[int], message: str) -> None:
    arrays = ({"pos": np.array([0, 2]), "crd": np.array(row)}, {"crd": np.array(column)})
    with pytest.raises(ValueError, match=message):
        Tensor(COO, (2, 2), arrays, np.ones(2))


@pytest.mark.parametrize(
    ("pos", "message"),
    [
        ([0, 1], "level 1: pos must hold 3 ascending offsets into 2 positions"),
        ([0, 2, 1], "pos must hold 3 ascending offsets"),
        ([0, 1, 3], "pos must hold 3 ascending offsets"),
    ],
)
def test_offsets_are_checked(pos: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Tensor(CSR, (2, 2), ({"n": 2}, {"pos": np.array(pos), "crd": np.array([0, 1])}), np.ones(2))


def test_other_troubles() -> None:
    with pytest.raises(ValueError, match="1 values for 2 positions"):
        Tensor(CSR, (2, 2), ({"n": 2}, {"pos": np.array([0, 1, 2]), "crd": np.array([0, 1])}), np.ones(1))
    with pytest.raises(ValueError, match="level 0 needs the arrays pos, crd"):
        Tensor(DCSR, (2, 2), ({"n": 2}, {"pos": np.array([0, 1, 2]), "crd": np.array([0, 1])}), np.ones(2))
    with pytest.raises(ValueError, match="lil is none of csr, csc and coo: convert it first"):
        Tensor.from_scipy(scipy.sparse.lil_matrix((2, 2)))


def test_types_of_arrays() -> None:
    """64-bit integers without a sign make floating point of what they are added to."""
    good = {"pos": np.array([0, 1, 2]), "crd": np.array([0, 1])}
    for part, message in (("pos", "int64, not uint64"), ("crd", "narrower, or int64, not uint64")):
        with pytest.raises(ValueError, match=message):
            Tensor(CSR, (2, 2), ({"n": 2}, good | {part: good[part].astype(np.uint64)}), np.ones(2))


def test_formats_compare() -> None:
    assert Format((Dense(), Compressed()), (0, 1)) == CSR
    assert CSR != CSC


@pytest.mark.parametrize(
    ("coordinates", "shape", "message"),
    [
        ([[0, 1], [0, 2**32 + 1]], (3, 3), "dimension 1: 0 to 4294967297 is outside of 3 coordinates"),
        ([[0, 1], [-1, 0]], (3, 3), "dimension 1: -1 to 0 is outside of 3 coordinates"),
        ([[0, 1], [0, 1]], (3, 2**33), "dimension 1: 8589934592 coordinates are more than 32 bits count"),
        ([[0, 1], [0.5, 1]], (3, 3), "dimension 1: coordinates are whole numbers, not float64"),
        ([[0, 1], [0]], (3, 3), r"dimension 1: \(1,\) coordinates for \(2,\) values"),
        ([[0, 1]], (3, 3), r"1 coordinates for the shape \(3, 3\) and 2 levels"),
    ],
)
def test_coordinates_are_checked(coordinates: list, shape: tuple[int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Tensor.from_coordinates(coordinates, [1.0, 2.0], shape, CSR)
    with pytest.raises(ValueError, match="values have 0 dimensions"):
        Tensor.from_coordinates([[0], [0]], 1.0, (1, 1), CSR)
    with pytest.raises(ValueError, match="values are masked"):
        Tensor.from_coordinates([[0], [0]], np.ma.masked_array([1.0], [True]), (1, 1), CSR)


def test_another_format_does_not_cut_coordinates() -> None:
    arrays = ({"n": 1}, {"pos": np.array([0, 1]), "crd": np.array([2**32 + 7])})
    with pytest.raises(ValueError, match="more than 32 bits count"):
        Tensor(CSR, (1, 2**33), arrays, np.ones(1)).to(DCSR)


def test_formats_are_checked() -> None:
    with pytest.raises(ValueError, match=r"modes \(0, 0\): each of 2 dimensions belongs to one level"):
        Format((Dense(), Compressed()), (0, 0))
    with pytest.raises(ValueError, match="write Dense"):
        Format((Dense, Compressed()), (0, 1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="are tuples"):
        Format([Dense()], [0])  # type: ignore[arg-type]


def test_what_fills_the_gaps() -> None:
    made = Tensor.from_coordinates(([0], [1]), [3.0], (1, 2), CSR)
    assert made.to_dense(np.inf).tolist() == [[np.inf, 3]]


def test_part_of_an_array_to_scipy() -> None:
    arrays = ({"n": 2}, {"pos": np.array([1, 2, 3]), "crd": np.array([9, 1, 0], np.uint32)})
    made = Tensor(CSR, (2, 2), arrays, np.array([9.0, 3.0, 4.0]))
    assert made.to_scipy().toarray().tolist() == [[0, 3], [4, 0]]
