"""Connected components on a GPU, by cuGraph."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from ..storage.errors import HeadwayError


def components(graph: csr_array) -> int:
    """How many a symmetric graph of fewer than 2**31 entries has.

    Raises `HeadwayError` where the GPU or cuGraph fails, whose errors and CuPy's are of these classes.
    """
    if not graph.nnz:
        return graph.shape[0]
    try:
        import cupy  # pyright: ignore[reportMissingImports]
        import pylibcugraph as cugraph  # pyright: ignore[reportMissingImports]

        handle = cugraph.ResourceHandle()
        offsets, to = (cupy.asarray(array, np.int32) for array in (graph.indptr, graph.indices))
        kind = cugraph.GraphProperties(is_symmetric=True, is_multigraph=False)
        there = cugraph.SGGraph(handle, kind, offsets, to, input_array_format="CSR")
        _, labels = cugraph.weakly_connected_components(handle, there, None, None, None, None, False)
        return len(cupy.unique(labels))
    except (ImportError, MemoryError, RuntimeError) as error:
        cause = " ".join(str(error).split())
        raise HeadwayError(f"cuGraph failed: {cause}; build on CPUs, with --set build.frames=pandas") from error
