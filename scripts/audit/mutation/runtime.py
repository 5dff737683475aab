"""Values of table nodes by ONNX Runtime with its optimiser off, whatever of them is constant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnxruntime

from taso_py.arrays import Array
from taso_py.graph.table import Node, Values
from taso_py.onnx_io.fragment import fragment
from taso_py.ops.constants import Eye, Fill

OPSET = 23
"""An opset at which every operator of the library can be written."""
_QUIET = 4


class NotRun(Exception):
    """ONNX Runtime does not take these nodes."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """Nodes as a session; ``given`` holds the constant tensors among its inputs."""

    session: onnxruntime.InferenceSession
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    given: Mapping[int, Array]

    def run(self, feeds: Mapping[int, Array]) -> dict[int, Array]:
        """The outputs, by id."""
        whole = {**feeds, **self.given}
        try:
            found = self.session.run(None, {f"v{v}": whole[v] for v in self.inputs})
        except Exception as error:
            # ONNX Runtime's exceptions have no base class of their own.
            raise NotRun(str(error)) from error
        return dict(zip(self.outputs, map(np.asarray, found), strict=True))


def compiled(nodes: Mapping[int, Node], inputs: Sequence[int], outputs: Sequence[int], values: Values) -> Compiled:
    """A session that computes ``outputs``; raises `NotRun`.

    Every tensor is a run-time input, so that nothing is folded: what folds constants here shares its
    definitions with the prover.
    """
    values.constant.clear()
    given = {v: constant(n) for v, n in nodes.items() if isinstance(n.operator, Eye | Fill)}
    sources = [*inputs, *(v for v in given if v not in inputs)]
    wanted = list(dict.fromkeys(outputs))
    rest = sorted((v, n) for v, n in nodes.items() if v not in given)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = _QUIET
    try:
        proto = fragment(rest, sources, wanted, values, OPSET)
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise NotRun(str(error)) from error
    return Compiled(session, tuple(sources), tuple(wanted), given)


def constant(node: Node) -> Array:
    """The value of a Fill or Eye."""
    operator = node.operator
    if isinstance(operator, Fill):
        shape = tuple(d for d in operator.shape if isinstance(d, int))
        return np.full(shape, operator.value, dtype=np.dtype(operator.dtype))
    assert isinstance(operator, Eye)
    assert isinstance(operator.size, int)
    return np.eye(operator.size, dtype=np.dtype(operator.dtype))
