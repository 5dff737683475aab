"""Branches of If nodes, lifted into the main graph, where rules reach what they compute; `nesting` puts it back.

A branch is evaluated only where it is taken, but what it computes depends on values alone.  Its nodes stand before the
If as long as rewrites are sought; a branch is left that gives the results their names:

    y = If(c) { then: t = MatMul(x, w); u = Relu(t); return u }

    t = MatMul(x, w); u/y/then_branch = Relu(t)
    y = If(c) { then: u = Identity(u/y/then_branch); return u }
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import onnx

from taso_py.onnx_io.read import DEFAULT_DOMAINS
from taso_py.onnx_io.spell import UsedNames

BRANCHES = ("then_branch", "else_branch")
_MOST_LEVELS = 3
"""Branches within branches in a model that is lifted: each level doubles the ways through it."""
_FREE_INITIALIZER_IR = 4  # before it every initializer is an input of the main graph

Scope: TypeAlias = tuple[str, ...]
"""The branches that a value is computed in, outermost first; of the main graph: none."""


@dataclass(frozen=True, slots=True)
class Lifted:
    """A model without branches that compute anything, as far as they can be lifted."""

    proto: onnx.ModelProto
    scopes: Mapping[str, Scope] = field(default_factory=dict)
    """Of the values that branches compute, and of their weights, by name."""


def lifted(proto: onnx.ModelProto) -> Lifted:
    """The model with the branches of its If nodes in the main graph; itself where there is nothing to lift."""
    if not has_branches(proto):
        return Lifted(proto)
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    free = copy.ir_version >= _FREE_INITIALIZER_IR
    lift = _Lift(copy.graph, free, UsedNames(_named_anywhere(copy.graph)), _definitions(copy.graph))
    lift.run()
    deep = max(map(len, lift.scopes.values()), default=0) > _MOST_LEVELS
    return Lifted(proto) if deep else Lifted(copy, lift.scopes)


def has_branches(proto: onnx.ModelProto) -> bool:
    """Whether something can be lifted."""
    free = proto.ir_version >= _FREE_INITIALIZER_IR
    return any(_is_liftable(node, free_initializers=free) for node in proto.graph.node)


def weight_elements(proto: onnx.ModelProto) -> int:
    """Elements of all initializers, those of subgraphs included."""
    return sum(math.prod(tensor.dims) for graph in _all_graphs(proto.graph) for tensor in graph.initializer)


def is_shell(branch: onnx.GraphProto) -> bool:
    """Whether a branch only gives values names."""
    return not branch.initializer and all(node.op_type == "Identity" and not node.domain for node in branch.node)


def without_sources(graph: onnx.GraphProto) -> None:
    """Forget, in place, which values branches that only give them names give them to."""
    for node in graph.node:
        branches = branches_of(node).values()
        for identity in (one for branch in branches for one in branch.node) if all(map(is_shell, branches)) else ():
            identity.ClearField("input")


def branches_of(node: onnx.NodeProto) -> dict[str, onnx.GraphProto]:
    """The branches of an If by the names of its attributes; of any other node: none."""
    if node.op_type != "If" or node.domain not in DEFAULT_DOMAINS:
        return {}
    return {attribute.name: attribute.g for attribute in node.attribute if attribute.name in BRANCHES}


def _is_liftable(node: onnx.NodeProto, *, free_initializers: bool) -> bool:
    graphs = branches_of(node)
    if len(graphs) < len(BRANCHES) or len(node.attribute) > len(BRANCHES) or not node.output or not all(node.output):
        return False
    if all(is_shell(branch) for branch in graphs.values()):
        return False
    return all(_is_plain(branch, len(node.output), free_initializers) for branch in graphs.values())


def _is_plain(branch: onnx.GraphProto, results: int, free_initializers: bool) -> bool:
    if branch.input or branch.sparse_initializer or branch.quantization_annotation:
        return False
    if branch.initializer and not free_initializers:
        return False
    names = [value.name for value in branch.output]
    return len(names) == len(set(names)) == results and set(names) <= _own_names(branch)


def _own_names(graph: onnx.GraphProto) -> set[str]:
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {tensor.values.name for tensor in graph.sparse_initializer}
    return own | {name for node in graph.node for name in node.output if name}


def _inner(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs that a node has as attributes."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _all_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    waiting = [graph]
    while waiting:
        one = waiting.pop()
        yield one
        waiting.extend(inner for node in one.node for inner in _inner(node))


def _definitions(graph: onnx.GraphProto) -> Counter[str]:
    """How often a name is given to a value, in all graphs."""
    return Counter(name for one in _all_graphs(graph) for name in _own_names(one))


def _named_anywhere(graph: onnx.GraphProto) -> set[str]:
    """All names of values, in all graphs."""
    found: set[str] = set()
    for one in _all_graphs(graph):
        found |= _own_names(one)
        found.update(name for node in one.node for name in node.input)
        found.update(value.name for value in (*one.output, *one.value_info))
    return found


@dataclass(slots=True)
class _Lift:
    graph: onnx.GraphProto
    free_initializers: bool
    names: UsedNames
    definitions: Counter[str]
    scopes: dict[str, Scope] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def run(self) -> None:
        for node in self.graph.node:
            self._place(node, ())
        placed = [onnx.NodeProto.FromString(node.SerializeToString()) for node in self.nodes]
        del self.graph.node[:]
        self.graph.node.extend(placed)

    def _place(self, node: onnx.NodeProto, scope: Scope) -> None:
        if _is_liftable(node, free_initializers=self.free_initializers):
            for name, branch in branches_of(node).items():
                self._lift(branch, (*scope, f"{node.output[0]}/{name}"))
        if scope:
            self.scopes.update(dict.fromkeys((name for name in node.output if name), scope))
        self.nodes.append(node)

    def _lift(self, branch: onnx.GraphProto, scope: Scope) -> None:
        nodes = needed(branch.node, [value.name for value in branch.output])
        read = {name for node in nodes for name in reads(node)} | {value.name for value in branch.output}
        weights = [tensor for tensor in branch.initializer if tensor.name in read]
        own = [tensor.name for tensor in weights] + [name for node in nodes for name in node.output if name]
        results = {value.name: value for value in branch.output}
        # By the branch: the names must be the same again when what was nested is lifted.
        renamed = {n: self.names.fresh(f"{n}/{scope[-1]}") for n in own if n in results or self.definitions[n] > 1}
        for tensor in weights:
            name = renamed.get(tensor.name, tensor.name)
            self.graph.initializer.add().CopyFrom(tensor)
            held = self.graph.initializer[-1].name = (
                self.names.fresh(f"{name}/weight") if tensor.name in results else name
            )
            self.scopes[held] = scope
            if tensor.name in results:
                self._place(onnx.helper.make_node("Identity", [held], [name]), scope)
        for info in (*branch.value_info, *branch.output):
            if info.name in own and info.HasField("type"):
                self.graph.value_info.add().CopyFrom(info)
                self.graph.value_info[-1].name = renamed.get(info.name, info.name)
        for node in nodes:
            _rename(node, renamed)
            self._place(node, scope)
        shell = [onnx.helper.make_node("Identity", [renamed[name]], [name]) for name in results]
        for part in ("node", "initializer", "value_info"):
            branch.ClearField(part)
        branch.node.extend(shell)


def reads(node: onnx.NodeProto) -> set[str]:
    """Names of the values that a node reads, by its subgraphs as well."""
    found = {name for name in node.input if name}
    for graph in _inner(node):
        inside = {name for inner in graph.node for name in reads(inner)} | {value.name for value in graph.output}
        found |= inside - _own_names(graph)
    return found


def needed(nodes: Iterable[onnx.NodeProto], results: Iterable[str]) -> list[onnx.NodeProto]:
    """The nodes that some result depends on, copied, in their order."""
    every = list(nodes)
    makers = {name: k for k, node in enumerate(every) for name in node.output if name}
    waiting, found = [makers[name] for name in results if name in makers], set[int]()
    while waiting:
        k = waiting.pop()
        if k not in found:
            found.add(k)
            waiting.extend(makers[name] for name in reads(every[k]) if name in makers)
    return [onnx.NodeProto.FromString(every[k].SerializeToString()) for k in sorted(found)]


def _rename(node: onnx.NodeProto, renamed: Mapping[str, str]) -> None:
    """Give the values that a node and its subgraphs read, and those that it makes, other names, in place."""
    node.input[:] = [renamed.get(name, name) for name in node.input]
    node.output[:] = [renamed.get(name, name) for name in node.output]
    for graph in _inner(node):  # names of its own are others: ONNX has each once where it is seen
        for inner in graph.node:
            _rename(inner, renamed)
        for value in graph.output:
            value.name = renamed.get(value.name, value.name)
