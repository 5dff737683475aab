"""Models around the left side of a rule: what else may be true where it matches.

A rule is proved for all values and sizes; whether a match is an instance of it, and whether what is written is the
right side, depends on what surrounds it: values that others read, operands that are one value, constants that callers
may override, sizes that are free, bodies that capture.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from scripts.audit.conformance_cases import rule_cases
from taso_py.rules.library import load
from taso_py.rules.rule import Rule

INSTANCES = 6
"""Sizes drawn for each rule."""
SHARE = 0.4
"""How often each of the surroundings is there."""
FLOATS = frozenset({TensorProto.FLOAT, TensorProto.DOUBLE})


def planted_model(seed: int) -> onnx.ModelProto:
    """The left side of the rule whose turn it is, in surroundings that are drawn; every rule has its turn in order."""
    chance = random.Random(seed)
    model = onnx.ModelProto.FromString(chance.choice(_left_sides(seed % len(_rules()))))
    for surround in _SURROUNDINGS:
        if chance.random() < SHARE:
            surround(model.graph, chance)
    return model


@cache
def _rules() -> tuple[Rule, ...]:
    return tuple(load().all())


@cache
def _left_sides(number: int) -> tuple[bytes, ...]:
    return tuple(case.content for case in rule_cases(INSTANCES, [_rules()[number]]))


def _overridden(graph: GraphProto, chance: random.Random) -> None:
    """A weight that callers may override: it is also an input."""
    weights = [w for w in graph.initializer if w.data_type in FLOATS]
    if weights:
        weight = chance.choice(weights)
        graph.input.append(helper.make_tensor_value_info(weight.name, weight.data_type, weight.dims))


def _frozen(graph: GraphProto, chance: random.Random) -> None:
    """An input that is a constant, of zeros or ones as often as of drawn numbers."""
    inputs = [v for v in graph.input if v.type.tensor_type.elem_type in FLOATS]
    if len(inputs) > 1:
        value = chance.choice(inputs)
        sizes = [d.dim_value for d in value.type.tensor_type.shape.dim]
        drawn = np.random.default_rng(chance.randrange(1 << 30)).standard_normal(sizes)
        array = chance.choice([np.zeros(sizes), np.ones(sizes), drawn, drawn])
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        graph.initializer.append(numpy_helper.from_array(array.astype(dtype), value.name))
        graph.input.remove(value)


def _edged(graph: GraphProto, chance: random.Random) -> None:
    """A weight some of whose numbers are 0, 1 or of the other sign."""
    weights = [w for w in graph.initializer if w.data_type in FLOATS]
    if weights:
        weight = chance.choice(weights)
        array = numpy_helper.to_array(weight).copy()
        if array.size:
            place = chance.randrange(array.size)
            array.flat[place] = chance.choice([0.0, 1.0, -array.flat[place]])
            weight.CopyFrom(numpy_helper.from_array(array, weight.name))


def _same(graph: GraphProto, chance: random.Random) -> None:
    """Two operands of one type are one value."""
    pairs = _alike(graph)
    if pairs:
        one, other = chance.choice(pairs)
        _redirect(graph, other, one)


def _computed(graph: GraphProto, chance: random.Random) -> None:
    """An input that is computed of itself."""
    inputs = [v for v in graph.input if v.type.tensor_type.elem_type in FLOATS]
    if inputs:
        value = chance.choice(inputs)
        _redirect(graph, value.name, "computed")
        graph.node.insert(
            0, helper.make_node(chance.choice(["Neg", "Abs", "Sigmoid", "Tanh"]), [value.name], ["computed"])
        )


def _read(graph: GraphProto, chance: random.Random) -> None:
    """Values inside that others read: outputs of the model."""
    outputs = {v.name for v in graph.output}
    graph.output.extend(v for v in graph.value_info if v.name not in outputs and chance.random() < SHARE)


def _twice(graph: GraphProto, chance: random.Random) -> None:
    """The left side again, of the same operands or with one exchanged."""
    made = {name for node in graph.node for name in node.output if name}
    names = {name: f"{name}_again" for name in made}
    pairs = _alike(graph)
    if pairs and chance.random() < SHARE:
        one, other = chance.choice(pairs)
        names[one] = other
    copies = [_renamed(node, names) for node in graph.node]
    outputs = list(graph.output)
    graph.node.extend(copies)
    for value in outputs:
        if value.name in made:
            again = graph.output.add()
            again.CopyFrom(value)
            again.name = names[value.name]


def _captured(graph: GraphProto, chance: random.Random) -> None:
    """The last nodes in the branches of an If, which capture what they read of the others."""
    cut = chance.randrange(len(graph.node))
    inside = list(graph.node)[cut:]
    made = {name for node in inside for name in node.output if name}
    lifted = [v for v in graph.output if v.name in made]
    if not lifted:
        return
    del graph.node[cut:]
    graph.input.append(helper.make_tensor_value_info("condition", TensorProto.BOOL, []))
    branches = {side: _branch(inside, lifted, made, side) for side in ("then", "else")}
    given = {f"{side}_branch": branch for side, branch in branches.items()}
    graph.node.append(helper.make_node("If", ["condition"], [v.name for v in lifted], **given))
    kept = [v for v in graph.value_info if v.name not in made]
    del graph.value_info[:]
    graph.value_info.extend(kept)


def _branch(nodes: list[NodeProto], results: list[ValueInfoProto], made: set[str], side: str) -> GraphProto:
    names = {name: f"{name}_{side}" for name in made}
    outputs = []
    for value in results:
        result = ValueInfoProto()
        result.CopyFrom(value)
        result.name = names[value.name]
        outputs.append(result)
    return helper.make_graph([_renamed(node, names) for node in nodes], side, [], outputs)


def _free(graph: GraphProto, chance: random.Random) -> None:
    """Axes of one size that is left open, and nothing known of the sizes of results."""
    weights = {w.name for w in graph.initializer}
    inputs = [v for v in graph.input if v.name not in weights]
    sizes = {d.dim_value for v in inputs for d in v.type.tensor_type.shape.dim}
    if sizes:
        size = chance.choice(sorted(sizes))
        for value in inputs:
            for dim in value.type.tensor_type.shape.dim:
                if dim.dim_value == size and dim.HasField("dim_value"):
                    dim.dim_param = "n"
        branches = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
        for value in (v for one in (graph, *branches) for v in one.output):
            value.type.tensor_type.ClearField("shape")
        del graph.value_info[:]


_SURROUNDINGS: tuple[Callable[[GraphProto, random.Random], None], ...] = (
    _edged,
    _frozen,
    _overridden,
    _same,
    _computed,
    _read,
    _twice,
    _captured,
    _free,
)


def _alike(graph: GraphProto) -> list[tuple[str, str]]:
    """Inputs and weights that are of one type; sizes and places, which decide shapes, are left as they are."""
    every = [*graph.input, *(_info(w) for w in graph.initializer)]
    values = [v for v in every if v.type.tensor_type.elem_type in FLOATS]
    return [(a.name, b.name) for a in values for b in values if a.name != b.name and a.type == b.type]


def _info(tensor: TensorProto) -> ValueInfoProto:
    return helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)


def _renamed(node: NodeProto, names: dict[str, str]) -> NodeProto:
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.name = ""
    copy.input[:] = [names.get(name, name) for name in node.input]
    copy.output[:] = [names.get(name, name) for name in node.output]
    return copy


def _redirect(graph: GraphProto, old: str, new: str) -> None:
    for node in graph.node:
        node.input[:] = [new if name == old else name for name in node.input]
