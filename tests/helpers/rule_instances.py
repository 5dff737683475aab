"""Random instances of a rule, computed by ONNX Runtime and compared."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime

from taso_py.arrays import Array
from taso_py.graph.table import Values
from taso_py.onnx_io.fragment import fragment
from taso_py.rules.instances import Instance, draw
from taso_py.rules.rule import Rule

OPSET = 23
INSTANCES = 20
"""How many instances of a law are compared."""
FEW = 8
"""How many tell enough of most laws."""


def drawn(rule: Rule, count: int, *, attempts: int = 3000, typed: bool = True) -> list[Instance]:
    """Instances of a directed rule over one table of values, the same ones in every run."""
    random, values = np.random.default_rng(zlib.crc32(rule.name.encode())), Values()
    found = (draw(rule, random, values, attempts, typed=typed) for _ in range(count))
    return [instance for instance in found if instance is not None]


def computed(instances: Sequence[Instance], outputs: Sequence[int]) -> dict[int, Array]:
    """The values of ids of all instances, by ONNX Runtime with its optimiser off, in one session."""
    nodes = {v: n for instance in instances for v, n in instance.nodes.items()}
    feeds = {v: a for instance in instances for v, a in instance.feeds.items()}
    weights = {v: a for instance in instances for v, a in instance.weights.items()}
    wanted = list(dict.fromkeys(outputs))
    values = instances[0].values
    proto = fragment(sorted(nodes.items()), list(feeds), wanted, values, OPSET, weights=weights, fold=True)
    return dict(zip(wanted, outputs_of(proto, feeds), strict=True))


def outputs_of(proto: onnx.ModelProto, feeds: Mapping[int, Array]) -> list[Array]:
    """A fragment's outputs, by ONNX Runtime with its optimiser off."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, {f"v{v}": a for v, a in feeds.items()}))


def difference(a: Array, b: Array) -> float:
    """max |a - b| relative to max |a|; infinite where NaN or Inf stand in different places."""
    if a.shape != b.shape:
        return np.inf
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)):
        return np.inf
    if not finite.any():
        return 0.0
    gap = np.max(np.abs(a[finite].astype(np.float64) - b[finite]))
    return float(gap / max(1.0, float(np.max(np.abs(a[finite])))))


def contradiction(a: Array, b: Array) -> float:
    """How far b is from a where a is defined; there is no promise elsewhere."""
    assert a.shape == b.shape
    defined = np.isfinite(a)
    return difference(a[defined], b[defined])


def pairs(instances: Sequence[Instance]) -> list[tuple[Instance, int, int]]:
    """(instance, left id, right id) for every output."""
    return [(i, a, b) for i in instances for a, b in zip(i.left, i.right, strict=True)]


def describe(instance: Instance) -> str:
    """One instance in words, for a failing test."""
    types = {n: str(instance.values.types[v]) for n, v in instance.binding.tensors.items()}
    return f"{instance.rule.name}: {types} {instance.binding.names} {instance.binding.blocks}"
