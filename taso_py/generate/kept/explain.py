"""Equal terms that rules of fewer operators explain already: at a last level of millions nearly all are.

What is left becomes laws.  The terms are those of the enumeration, at its sizes, so this says nothing of other sizes:
it only decides where it is worth looking for a new law.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from taso_py.generate.kept.derive import Rewriting, Rules, met
from taso_py.generate.laws.pairs import CONSTANT, OUTPUTS, VARIABLE, Law, Terms, Tree, leaves
from taso_py.generate.terms.atoms import DTYPE
from taso_py.graph.table import Node, Values
from taso_py.ops.activations import Relu
from taso_py.rules.build import Builder
from taso_py.rules.term import Side
from taso_py.rules.unify import Binding

FEW, MORE = (10, 0), (40, 1)
"""Most terms that are expanded, and how many more nodes they may have: for a pair of values, of which there are
millions, and for one of the laws that are left, each of which stands for several pairs."""


@dataclass(slots=True)
class Nodes:
    """Terms of an enumeration as nodes over one table of values, at the enumeration's sizes."""

    terms: Terms
    values: Values = field(default_factory=Values)
    nodes: dict[int, Node] = field(default_factory=dict)
    places: dict[Tree, int] = field(default_factory=dict)

    def add(self, tree: Tree) -> int:
        """The value of a term."""
        if tree not in self.places:
            self.places[tree] = self._added(tree)
        return self.places[tree]

    def _added(self, tree: Tree) -> int:
        if tree[0] == VARIABLE:
            return self.values.new(self.terms.type(tree))
        if tree[0] == CONSTANT:
            build = self.terms.chosen.sources[tree[1]].build
            assert build is not None
            term = build.enumerated()
            builder = Builder(self.values, Binding(), Side((), (term,)), DTYPE)
            last = builder.output(term)
            self.nodes.update(builder.nodes)
            return last
        operands = tuple(map(self.add, tree[1:]))
        template = self.terms.chosen.templates[tree[0]]
        operator = template.at([self.values.types[o] for o in operands])
        assert operator is not None
        value = self._interned(Node(operator, operands))
        return self._interned(Node(Relu(), (value,))) if template.relu else value

    def _interned(self, node: Node) -> int:
        types = [self.values.types[i] for i in node.inputs if i is not None]
        value = self.values.intern(node, node.operator.infer(*types))
        self.nodes[value] = node
        return value


def unexplained(pairs: Iterable[Law], terms: Terms, rules: Rules, effort: tuple[int, int]) -> Iterator[int]:
    """The numbers of the pairs that do not follow from ``rules`` with so much ``effort``.

    What has no variable is no law.
    """
    nodes = Nodes(terms)
    rewriting = Rewriting(nodes.values, nodes.nodes, rules)
    for number, (one, other) in enumerate(pairs):
        if not any(leaf[0] == VARIABLE for leaf in leaves(one)):
            continue
        if one[0] == OUTPUTS or not met(rewriting, nodes.add(one), nodes.add(other), *effort):
            yield number
