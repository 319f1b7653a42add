"""Text ids and the rows that they stand for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..kernels import ids
from .blocks import text_buffers


class Ids(NamedTuple):
    """Known ids, numbered from 0, and the table by which they are found: made once, for any number of questions.

    `data` uint8, `offsets` int32[ids + 1] as Arrow's, `table` as `kernels.ids.table_of`.
    """

    data: np.ndarray
    offsets: np.ndarray
    table: np.ndarray

    @classmethod
    def of(cls, known: pa.Array) -> Ids:
        """Text without nulls."""
        buffers = text_buffers(known)
        return cls(*buffers, ids.table_of(*buffers))

    def find(self, texts: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """The number of each, -1 for an unknown one or null: int32[texts]."""
        found = ids.find(self.table, self.data, self.offsets, *text_buffers(texts))
        if texts.null_count:
            found[texts.is_null().to_numpy(zero_copy_only=False)] = -1
        return found
