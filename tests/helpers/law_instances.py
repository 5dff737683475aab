"""An instance of a rule that is written down: both sides built at it, and computed.

An instance is a mapping: a tensor by its variable's name ({"shape": [2, 3], "dtype": "float32", "values": nested lists
or a word of `VALUES`, "constant": true for an initializer}), a block ``*s`` by its sizes, and each name that the
declared shapes leave open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as ort

from taso_py.arrays import Array
from taso_py.errors import ModelError, TypingError
from taso_py.graph.table import Node, Table, Values
from taso_py.graph.types import TensorType
from taso_py.onnx_io.fragment import fragment
from taso_py.ops.numeric import evaluate
from taso_py.rules.build import Builder, NotBuildable
from taso_py.rules.predicates import PREDICATES
from taso_py.rules.rule import Rule
from taso_py.rules.term import Comparison, Membership, Predicate
from taso_py.rules.unify import Binding

OPSET = 23
_ROUNDING = {"float16": (1e-2, 1e-3), "float32": (1e-4, 1e-5), "float64": (1e-9, 1e-12)}
"""What rounding may do to an element: so much of itself, and so much of the largest element."""
_REFUSED = (ort.Fail, ort.InvalidArgument, ort.InvalidGraph, ort.NotImplemented, ort.RuntimeException)

VALUES: Mapping[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "normal": lambda random, shape: random.standard_normal(shape),
    "zeros": lambda random, shape: np.zeros(shape),
    "ones": lambda random, shape: np.ones(shape),
    "negative": lambda random, shape: -random.uniform(0.5, 2.0, shape),
    "positive": lambda random, shape: random.uniform(0.5, 2.0, shape),
    "integers": lambda random, shape: random.integers(-4, 5, shape),
    "bools": lambda random, shape: random.integers(0, 2, shape),
}
"""Elements by a word."""


class NoInstance(Exception):
    """What is given is not an instance of the rule: sizes, a condition or a type contradict it."""


class NotComputable(Exception):
    """What was built has no value: a size is negative, say."""


# ---- building an instance ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Sides:
    """A directed rule's sides at one instance; ``wrong`` says why the right one cannot be built."""

    rule: Rule
    binding: Binding
    values: Values
    dtype: str
    _: KW_ONLY
    feeds: dict[int, Array] = field(default_factory=dict)
    weights: dict[int, Array] = field(default_factory=dict)
    nodes: dict[int, Node] = field(default_factory=dict)
    left: tuple[int, ...] = ()
    right: tuple[int, ...] = ()
    left_nodes: dict[int, Node] = field(default_factory=dict)
    wrong: str = ""

    def compute(self, outputs: Sequence[int], more: Mapping[int, Node] | None = None) -> list[Array]:
        """The values of ids, by ONNX Runtime without its optimiser, by the operators' meanings where it refuses.

        `NotComputable` where neither has a value.
        """
        nodes = dict(sorted((self.nodes | dict(more or {})).items()))
        wanted = list(dict.fromkeys(outputs))
        try:
            found = self._found(nodes, wanted)
        except (ValueError, TypingError) as error:
            raise NotComputable(str(error)) from error
        return [found[v] for v in outputs]

    def _found(self, nodes: Mapping[int, Node], wanted: Sequence[int]) -> dict[int, Array]:
        try:
            with np.errstate(all="ignore"):
                return _by_runtime(self, nodes, wanted)
        except (*_REFUSED, ModelError, TypingError):
            return _by_meaning(self, nodes, wanted)


def build(rule: Rule, instance: Mapping[str, Any]) -> Sides:
    """Both sides of a directed rule at an instance; `NoInstance` where the rule does not admit it."""
    sides = Sides(rule, Binding(), Values(), _dtype(instance))
    _bind(sides, instance)
    left = Builder(sides.values, sides.binding, rule.left, sides.dtype)
    try:
        sides.left = tuple(left.output(t) for t in rule.left.outputs)
    except NotBuildable as error:
        raise NoInstance(f"the left side: {error}") from error
    # A literal and the right side have the element type of the left one's first output, as at a match.
    sides.dtype = sides.values.types[sides.left[0]].dtype
    right = Builder(sides.values, sides.binding, rule.right, sides.dtype)
    try:
        sides.right = tuple(right.output(t) for t in rule.right.outputs)
    except NotBuildable as error:
        sides.wrong = str(error)
    sides.left_nodes, sides.nodes = left.nodes, {**left.nodes, **right.nodes}
    return sides


def _dtype(instance: Mapping[str, Any]) -> str:
    types = [str(v.get("dtype", "float32")) for v in instance.values() if isinstance(v, dict)]
    numbers = [t for t in types if t != "bool"]
    return numbers[0] if numbers else "float32"


def _bind(sides: Sides, instance: Mapping[str, Any]) -> None:
    rule, binding = sides.rule, sides.binding
    asked = {v for c in rule.conditions if isinstance(c, Predicate) for v in c.variables}
    for name, given in sorted(instance.items()):
        if isinstance(given, dict):
            binding.tensors[name] = _tensor(sides, name, given, constant=name in asked)
        elif name.startswith("*"):
            binding.blocks[name[1:]] = tuple(given)
        else:
            binding.names[name] = _frozen(given)
    missing = rule.left.variables() - binding.tensors.keys()
    if missing:
        raise NoInstance(f"no tensor for {', '.join(sorted(missing))}")
    _declare(sides)
    for choice in rule.choices:
        if binding.names.get(choice.variable) not in [binding.value(e) for e in choice.menu]:
            raise NoInstance(f"{choice.variable} is none of its choices")
    for condition in rule.conditions:
        if not _holds(sides, condition):
            raise NoInstance(f"the instance does not satisfy {condition}")


def _declare(sides: Sides) -> None:
    """Binds the sizes of declared shapes."""
    rule, binding = sides.rule, sides.binding
    for declaration in rule.declarations:
        dims = sides.values.types[binding.tensors[declaration.variable]].dims
        if declaration.variable in rule.left.variables() and not binding.unify_shape(declaration.axes, dims):
            raise NoInstance(f"{declaration.variable} of shape {dims} is not as declared")
    if not binding.settle() or binding.waiting or binding.shapes:
        raise NoInstance("the declared shapes contradict the instance or leave something open")


def _holds(sides: Sides, condition: Comparison | Membership | Predicate) -> bool:
    binding = sides.binding
    match condition:
        case Comparison():
            return binding.holds(condition)
        case Membership(variable, menu):
            return binding.names.get(variable) in [binding.value(e) for e in menu]
        case Predicate(name, variables, arguments):
            arrays = [sides.weights[binding.tensors[v]] for v in variables]
            return PREDICATES[name].holds(*arrays, *arguments)


def _frozen(given: Any) -> Any:
    return tuple(map(_frozen, given)) if isinstance(given, list) else given


def _tensor(sides: Sides, name: str, given: Mapping[str, Any], *, constant: bool) -> int:
    dtype, values = str(given.get("dtype", "float32")), given.get("values", "normal")
    known = isinstance(values, str)
    array = np.asarray(
        VALUES[values](np.random.default_rng(sum(name.encode())), tuple(given["shape"])) if known else values
    ).astype(dtype)
    if "shape" in given:
        array = array.reshape(given["shape"])
    value = sides.values.new(TensorType(dtype, tuple(array.shape)))
    if constant or given.get("constant"):
        sides.weights[value] = array
        sides.values.fixed.add(value)
        sides.values.constant.add(value)
    else:
        sides.feeds[value] = array
        sides.values.inputs.add(value)
    return value


# ---- running an instance -----------------------------------------------------------------------------------------


def _by_runtime(sides: Sides, nodes: Mapping[int, Node], wanted: Sequence[int]) -> dict[int, Array]:
    needed = Table(sides.values, nodes, tuple(wanted), tuple(wanted), OPSET).reachable()
    nodes = {v: n for v, n in nodes.items() if v in needed}
    proto = fragment(
        sorted(nodes.items()), list(sides.feeds), wanted, sides.values, OPSET, weights=sides.weights, fold=True
    )
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found = session.run(None, {f"v{v}": a for v, a in sides.feeds.items()})
    return dict(zip(wanted, found, strict=True))


def _by_meaning(sides: Sides, nodes: Mapping[int, Node], wanted: Sequence[int]) -> dict[int, Array]:
    arrays = {**sides.feeds, **sides.weights}
    with np.errstate(all="ignore"):
        return {v: meaning_of(sides, nodes, v, arrays) for v in wanted}


def meaning_of(sides: Sides, nodes: Mapping[int, Node], value: int, arrays: dict[int, Array]) -> Array:
    """A value by the operators' meanings; ``arrays`` holds what is known and keeps what is found."""
    if value not in arrays:
        node, types = nodes[value], sides.values.types
        inputs = [i for i in node.inputs if i is not None]
        operands = [meaning_of(sides, nodes, i, arrays) for i in inputs]
        found = evaluate(node.operator, operands, [types[i] for i in inputs])
        arrays[value] = found.astype(types[value].dtype)
    return arrays[value]


def differs(left: Array, right: Array) -> bool:
    """Whether some element of ``left`` is a number and that of ``right`` is another or none; also by their types."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return True
    if left.dtype.kind != "f":
        return not np.array_equal(left, right)
    a, b = left.astype(np.float64), right.astype(np.float64)
    defined = np.isfinite(a)
    if not defined.any():
        return False
    largest = float(np.max(np.abs(a[defined])))
    relative, absolute = _ROUNDING[left.dtype.name]
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= relative * np.abs(a) + absolute * max(1e-2, largest)
    return bool(np.any(defined & ~near))
