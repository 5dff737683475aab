"""A model's own functions: inlined where that ends, and ends in a graph of reasonable size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter

import onnx

from taso_py.errors import ModelError
from taso_py.onnx_io.carry import skeleton, with_weights_of
from taso_py.onnx_io.child import CHILD
from taso_py.onnx_io.read import DEFAULT_DOMAINS
from taso_py.processes.isolated import NoAnswerError, answer

_PATIENCE_S = 60.0
"""The longest that inlining may take."""
MOST_NODES = 2_000_000
"""Largest graph that functions may expand to: ONNX Runtime inlines all of them when it opens a model."""
_MOST_REWRITTEN = 200_000
"""Largest graph to which functions are inlined so that their insides are rewritten, too."""
_OF_RUNTIMES = ("ai.onnx", "com.microsoft", "com.ms.")
"""Beginnings of the domains of operators that are no functions of a model."""

Key = tuple[str, str, str]
"""Domain, name and overload of a function."""


def inlined(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its functions inlined, without the data of large weights.

    ModelError where a function calls itself, or too much comes of them.  ONNX's C++ code that does it runs in a process
    of its own.
    """
    require_finite(proto)
    try:
        return _inlined(proto)
    except (NoAnswerError, ValueError) as error:
        raise ModelError(f"the functions of the model cannot be inlined: {error}; export it again") from error


def _inlined(proto: onnx.ModelProto) -> onnx.ModelProto:
    given = skeleton(proto)
    _agree(given)
    _give_defaults(given)
    return onnx.load_model_from_string(answer(CHILD, "inline", given=given.SerializeToString(), seconds=_PATIENCE_S))


def _agree(model: onnx.ModelProto) -> None:
    """Let all functions import one version of the domains that hold nothing but functions of the model.

    What is not imported in the model's version is not inlined, though such a version means nothing.
    """
    own = {function.domain for function in model.functions if not _is_of_runtimes(function.domain)}
    versions = {opset.domain: opset.version for opset in model.opset_import if opset.domain in own}
    for domain in sorted(own - versions.keys()):
        model.opset_import.add(domain=domain, version=1)
    for opset in (opset for function in model.functions for opset in function.opset_import):
        if opset.domain in own:
            opset.version = versions.get(opset.domain, 1)


def _give_defaults(model: onnx.ModelProto) -> None:
    """Let calls give the attributes that functions have defaults of: what inlines them forgets those."""
    defaults = {_key(function): function.attribute_proto for function in model.functions if function.attribute_proto}
    for nodes in (model.graph.node, *(function.node for function in model.functions)) if defaults else ():
        for node in _nodes(nodes):
            given = {attribute.name for attribute in node.attribute}
            missing = defaults.get((node.domain, node.op_type, node.overload), ())
            node.attribute.extend(attribute for attribute in missing if attribute.name not in given)


def _is_of_runtimes(domain: str) -> bool:
    return domain in DEFAULT_DOMAINS or domain.startswith(_OF_RUNTIMES)


def _is_open(function: onnx.FunctionProto) -> bool:
    """Whether it reads attributes that it does not declare, so that nobody says what they are."""
    declared = {*function.attribute, *(attribute.name for attribute in function.attribute_proto)}
    read = {attribute.ref_attr_name for node in _nodes(function.node) for attribute in node.attribute}
    return not read <= declared | {""}


def rewritable(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its functions inlined, weights and all; itself where they cannot be, or stand for operators.

    ModelError where a function calls itself, or all of them expand to more than `MOST_NODES` nodes.
    """
    expanded = require_finite(proto)
    if not proto.functions or expanded > _MOST_REWRITTEN:
        return proto
    if any(_is_of_runtimes(function.domain) or _is_open(function) for function in proto.functions):
        return proto  # what the runtime takes it for is its own affair
    try:
        made = _inlined(proto)
    except (NoAnswerError, ValueError):
        return proto
    return with_weights_of(proto, made)


def require_finite(proto: onnx.ModelProto) -> int:
    """How many nodes the model has with its functions inlined.

    Raise `ModelError` where a function calls itself, or all of them expand to more than `MOST_NODES` nodes.
    """
    bodies = {_key(function): function.node for function in proto.functions}
    calls = {key: [k for k in _called(nodes) if k in bodies] for key, nodes in bodies.items()}
    try:
        order = list(TopologicalSorter(calls).static_order())
    except CycleError as error:
        name = ".".join(part for part in error.args[1][0] if part)
        raise ModelError(f"function {name} calls itself: export the model again") from None
    sizes: dict[Key, int] = {}
    for key in order:
        sizes[key] = sum(1 for _ in _nodes(bodies[key])) + sum(sizes[k] for k in calls[key])
    total = sum(sizes.get(key, 0) for key in _called(proto.graph.node))
    if total > MOST_NODES:
        raise ModelError(
            f"the functions of the model expand to {total} nodes, and {MOST_NODES} is the most that is opened: "
            "export it without them"
        )
    return total + len(proto.graph.node)


def _key(one: onnx.FunctionProto) -> Key:
    return one.domain, one.name, one.overload


def _called(nodes: Iterable[onnx.NodeProto]) -> Iterator[Key]:
    yield from ((node.domain, node.op_type, node.overload) for node in _nodes(nodes))


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes and all of their subgraphs."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        for attribute in node.attribute:
            waiting.extend(attribute.g.node)
            waiting.extend(inner for graph in attribute.graphs for inner in graph.node)
