"""What the bundles of rules make of a model."""

from __future__ import annotations

import numpy as np
import onnx

from taso_py.graph.table import Table
from taso_py.onnx_io.export import export, serialize
from taso_py.onnx_io.load import load
from taso_py.rules.library import load as load_library
from taso_py.search.bundles import BUNDLES
from taso_py.search.canonical import Canonicalizer
from taso_py.search.moves import Rewriter
from tests.helpers.graphs import together, view_of
from tests.helpers.onnx_io_models import run

_INDICES = 32
"""Integer inputs are below this number."""


def after(proto: onnx.ModelProto, bundle: str) -> Table:
    """The table after all rules of a bundle; its model computes the same."""
    loaded, library = load(proto), load_library()
    canonical = Canonicalizer.of(library.canonical, library.cleanup)
    rules = Rewriter.of(library.search | library.cleanup, canonical)
    table = together(rules, view_of(loaded, canonical), BUNDLES[bundle]).table
    random = np.random.default_rng(1)
    feeds = {}
    for one in proto.graph.input:
        dims = [d.dim_value for d in one.type.tensor_type.shape.dim]
        whole = one.type.tensor_type.elem_type == onnx.TensorProto.INT64
        feeds[one.name] = (
            random.integers(0, _INDICES, dims) if whole else random.standard_normal(dims).astype(np.float32)
        )
    for one, other in zip(run(proto, feeds), run(serialize(export(loaded, table)), feeds), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(one).max())))
    return table
