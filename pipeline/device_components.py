"""Connected components on a GPU, by cuGraph."""

from __future__ import annotations

from scipy.sparse import csr_array

from .gpu import troubles


def components(graph: csr_array) -> int:
    """How many a symmetric graph has. Raises `HeadwayError` where the GPU fails."""
    if not graph.nnz:
        return graph.shape[0]
    with troubles("build without --profile, or with another one"):
        import cupy  # pyright: ignore[reportMissingImports]
        import pylibcugraph as cugraph  # pyright: ignore[reportMissingImports]

        handle = cugraph.ResourceHandle()
        offsets, to = (cupy.asarray(array) for array in (graph.indptr, graph.indices))
        kind = cugraph.GraphProperties(is_symmetric=True, is_multigraph=False)
        there = cugraph.SGGraph(handle, kind, offsets, to, input_array_format="CSR")
        _, labels = cugraph.weakly_connected_components(handle, there, None, None, None, None, False)
        return len(cupy.unique(labels))
