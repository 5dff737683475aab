"""What branches of If nodes computed goes back into them, and what only they read.

A node goes into the innermost branch that has all of its readers, so that nothing is computed that was not before:
where readers in several places do not cover all that may happen, each has a node of its own.  What has graphs itself
stays in the branch that it was in: its readers are there, too, and branches get no deeper.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import KW_ONLY, dataclass, field
from typing import TypeAlias

import onnx_ir as ir

from taso_py.onnx_io.branches import BRANCHES, Scope
from taso_py.onnx_io.shells import branches_in, names_only, shells
from taso_py.onnx_io.spell import UsedNames
from taso_py.onnx_io.structure import bodies, has_graphs, topological_order

Place: TypeAlias = tuple[tuple[ir.Node, str], ...]
"""An If and the name of one of its branches, then those of an If in it; of the main graph: none."""


@dataclass(frozen=True, slots=True)
class _Use:
    place: Place
    node: ir.Node
    position: int


def nest(
    graph: ir.Graph, homes: Mapping[str, Scope], weights: Set[str], names: UsedNames, node_names: UsedNames
) -> None:
    """Move nodes of the main graph into the branches that read them, in place.

    ``homes`` are the branches that computed the original's values, by their names: what none did stays outside.
    Initializers with the names of ``weights`` go in as well; ``names`` are those that values have, ``node_names`` those
    of nodes.
    """
    _Nesting(graph, homes, weights, names, node_names).run()


def count(graph: ir.Graph) -> int:
    """Nodes of a graph and of the branches in it that compute something."""
    total = 0
    waiting = [graph]
    while waiting:
        one = waiting.pop()
        total += len(one)
        for node in one:
            branches = branches_in(node).values()
            waiting.extend(() if all(map(names_only, branches)) else branches)
    return total


@dataclass(slots=True)
class _Nesting:
    graph: ir.Graph
    homes: Mapping[str, Scope]
    weights: Set[str]
    names: UsedNames
    node_names: UsedNames
    _: KW_ONLY
    places: dict[ir.Node, Place] = field(default_factory=dict)
    readers: dict[int, tuple[ir.Node, str]] = field(default_factory=dict)
    """By a subgraph's identity the node of the main graph that has it, and which of its branches it is, or none."""
    copies: dict[ir.Node, list[ir.Node]] = field(default_factory=lambda: defaultdict(list))
    of_scope: dict[Scope, tuple[ir.Node, str]] = field(default_factory=dict)
    """The innermost branch, and whose it is."""

    def run(self) -> None:
        nodes = list(self.graph)
        lifted = [(node, name, branch) for node in nodes for name, branch in shells(node).items()]
        if not lifted:
            return
        self._note_readers(nodes)
        labels = [f"{node.outputs[0].name}/{name}" for node, name, _ in lifted]
        self.of_scope = {
            (*self._home(node), label): (node, name) for label, (node, name, _) in zip(labels, lifted, strict=True)
        }
        reserved = {f"{r.name}/{label}" for label, (_, _, b) in zip(labels, lifted, strict=True) for r in b.outputs}
        order = [nodes[k] for k in topological_order(nodes)]
        for node in reversed(order):
            self._place(node)
        inside: dict[tuple[ir.Node, str], list[ir.Node]] = defaultdict(list)
        for one in (one for node in order for one in (node, *self.copies[node])):
            if self.places[one]:
                inside[self.places[one][-1]].append(one)
        self._place_weights({(node, name): branch for node, name, branch in lifted})
        self.graph.remove([node for node in order if self.places[node]])
        for node, name, branch in lifted:
            branch.insert_before(branch[0], inside[node, name])
        for _, _, branch in lifted:
            _name_results(branch)
        self._leave({name for name in reserved if self.homes.get(name) != ()})

    def _note_readers(self, nodes: Sequence[ir.Node]) -> None:
        for node in nodes:
            for name, branch in shells(node).items():
                self.readers[id(branch)] = node, name
            for body in bodies(node):
                for inner in (body, *body.subgraphs()):
                    self.readers.setdefault(id(inner), (node, ""))

    def _place(self, node: ir.Node) -> None:
        """Where a node goes, once it is known where its readers are."""
        uses = [_Use(self._place_of(use.node), use.node, use.idx) for v in node.outputs for use in v.uses()]
        outside = any(v.is_graph_output() or self.homes.get(v.name or "") == () for v in node.outputs)
        if outside or not uses:
            self.places[node] = ()
            return
        if has_graphs(node):
            self.places[node] = self._kept(node, uses)
            return
        groups = [uses] if not node.inputs else _covered(uses, 0)
        self.places[node] = _common(groups[0])
        for group in groups[1:]:
            self._copy(node, group)

    def _home(self, node: ir.Node) -> Scope:
        return self.homes.get(node.outputs[0].name or "", ())

    def _kept(self, node: ir.Node, uses: Sequence[_Use]) -> Place:
        """The place that a node had, or one within reach of all its readers if that is no longer there."""
        common, found = _common(uses), self.of_scope.get(self._home(node))
        home = (*self.places[found[0]], found) if found is not None and found[0] in self.places else common
        return home if common[: len(home)] == home else common

    def _place_weights(self, branches: Mapping[tuple[ir.Node, str], ir.Graph]) -> None:
        for name in [name for name in self.graph.initializers if name in self.weights]:
            value = self.graph.initializers[name]
            uses = [_Use(self._place_of(use.node), use.node, use.idx) for use in value.uses()]
            place = _common(uses) if uses else ()
            if place:
                del self.graph.initializers[name]
                branches[place[-1]].register_initializer(value)

    def _place_of(self, reader: ir.Node) -> Place:
        graph = reader.graph
        if graph is self.graph or graph is None:
            return self.places[reader]
        owner, name = self.readers[id(graph)]
        return (*self.places[owner], (owner, name)) if name else self.places[owner]

    def _leave(self, names: Set[str]) -> None:
        """Results of branches have these names when they are lifted; what is computed elsewhere now has others."""
        for value in (value for node in self.places for value in node.outputs):
            if value.name in names and not value.is_graph_output():
                value.name = self.names.fresh(f"{value.name}/again")
                value.type = value.shape = None

    def _copy(self, node: ir.Node, group: Sequence[_Use]) -> None:
        outputs = [ir.Value(name=self.names.fresh(f"{v.name}/again")) for v in node.outputs]
        name = self.node_names.fresh(node.name) if node.name else node.name
        attributes = list(node.attributes.values())
        copy = ir.Node(node.domain, node.op_type, node.inputs, attributes, outputs=outputs, name=name)
        for use in group:
            index = node.outputs.index(use.node.inputs[use.position])
            use.node.replace_input_with(use.position, outputs[index])
        self.places[copy] = _common(group)
        self.copies[node].append(copy)


def _common(uses: Sequence[_Use]) -> Place:
    """The innermost place that holds all of them."""
    first, length = uses[0].place, min(len(use.place) for use in uses)
    return first[: next((k for k in range(length) if any(use.place[k] != first[k] for use in uses)), length)]


def _covered(uses: Sequence[_Use], depth: int) -> list[Sequence[_Use]]:
    """The uses in groups for each of which one node can do: whatever happens, some use of it is reached."""
    depth = max(depth, len(_common(uses)))
    if _is_reached(uses, depth):
        return [uses]
    branches: dict[tuple[ir.Node, str], list[_Use]] = defaultdict(list)
    for use in uses:
        branches[use.place[depth]].append(use)
    return [group for inner in branches.values() for group in _covered(inner, depth + 1)]


def _is_reached(uses: Sequence[_Use], depth: int) -> bool:
    """Whether some use is reached wherever the place at this depth, which has all of them, is."""
    if any(len(use.place) == depth for use in uses):
        return True
    by_node: dict[ir.Node, dict[str, list[_Use]]] = defaultdict(lambda: defaultdict(list))
    for use in uses:
        node, name = use.place[depth]
        by_node[node][name].append(use)
    return any(
        len(branches) == len(BRANCHES) and all(_is_reached(inner, depth + 1) for inner in branches.values())
        for branches in by_node.values()
    )


def _name_results(branch: ir.Graph) -> None:
    """Values that a branch computes and returns have the result's name, and no node that gives it to them."""
    for identity in [node for node in branch if node.op_type == "Identity" and not node.domain]:
        (result,), value = identity.outputs, identity.inputs[0]
        maker = None if value is None else value.producer()
        if value is None or maker is None or maker.graph is not branch or value.is_graph_output():
            continue
        if not result.is_graph_output() or result.uses():
            continue
        position = next(k for k, output in enumerate(branch.outputs) if output is result)
        branch.remove(identity)
        identity.replace_input_with(0, None)
        value.name, value.doc_string = result.name, result.doc_string
        value.type, value.shape = result.type, result.shape
        value.metadata_props.update(result.metadata_props)
        branch.outputs[position] = value
