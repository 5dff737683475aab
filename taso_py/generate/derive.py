"""Whether a law follows from other rules: bounded rewriting of both sides of an instance until they meet.

Terms are ids of hash-consed nodes, so a rewritten term that was met before has the same id.  A rule is applied only
where its shapes, attributes and conditions hold for the instance at hand and both of its sides have one type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from taso_py.graph.model import Node, Values
from taso_py.graph.sizes import at_least
from taso_py.graph.types import TensorType
from taso_py.ops.operator import Operator
from taso_py.rules.build import Builder, NotBuildable, from_front, operator_of
from taso_py.rules.instances import Instance, draw
from taso_py.rules.rule import Rule
from taso_py.rules.term import Application, Axis, Comparison, Term, Variable
from taso_py.rules.unify import Binding

_DTYPE = "float32"
STATES = 400
"""Most terms that are expanded from both sides together."""
_GROWTH = 2
"""How many more nodes than the larger side a term on the way may have."""
INSTANCES = 2
"""Random instances, their sizes mostly different, on which a derivation must be found."""


_ATTEMPTS = 40
"""Random instances among which those without an axis of 1 are looked for: such an axis hides what a law says."""


@dataclass(slots=True)
class Pattern:
    """One direction of a rule, prepared for matching."""

    rule: Rule
    root: Application
    shapes: dict[str, tuple[Axis, ...]]

    @staticmethod
    def of(rule: Rule) -> list[Pattern]:
        """The directions of a rule of one output that can be matched."""
        found: list[Pattern] = []
        for directed in (rule, rule.reversed()):
            root = directed.left.resolve(directed.left.outputs[0])
            if isinstance(root, Application) and not directed.unbound() and len(directed.left.outputs) == 1:
                found.append(Pattern(directed, root, {d.variable: d.axes for d in directed.declarations}))
        return found


@dataclass(slots=True)
class Rules:
    """Patterns by root operator, and by the operators below."""

    patterns: dict[type[Operator], list[Pattern]] = field(default_factory=dict)

    @staticmethod
    def of(rules: Iterable[Rule]) -> Rules:
        """The index of these rules."""
        index = Rules()
        for rule in rules:
            index.add(rule)
        return index

    def add(self, rule: Rule) -> None:
        """One more rule."""
        for pattern in Pattern.of(rule):
            self.patterns.setdefault(pattern.root.operator, []).append(pattern)


def derivable(rule: Rule, rules: Rules, *, seed: int = 0, states: int = STATES) -> bool:
    """Whether rewriting by ``rules`` turns one side of random instances of ``rule`` into the other."""
    random, values = np.random.default_rng(seed), Values()
    directed = rule.directions()[0]
    found = 0
    for _ in range(_ATTEMPTS):
        instance = draw(directed, random, values, 300)
        if instance is None:
            return False
        shapes = [values.types[v].dims for v in instance.binding.tensors.values()]
        if any(at_least(d, 2) is not True for dims in shapes for d in dims):
            continue
        if not _derived(instance, rules, states):
            return False
        found += 1
        if found == INSTANCES:
            return True
    return found > 0


def _derived(instance: Instance, rules: Rules, states: int) -> bool:
    terms = Rewriting(instance.values, dict(instance.nodes), rules)
    (left,), (right,) = instance.left, instance.right
    most = max(terms.size(left), terms.size(right)) + _GROWTH
    seen = {left: 0, right: 1}
    fronts: list[list[int]] = [[left], [right]]
    for _ in range(states):
        side = 0 if fronts[0] and (len(fronts[0]) <= len(fronts[1]) or not fronts[1]) else 1
        if not fronts[side]:
            return False
        term = fronts[side].pop(0)
        for new in terms.rewritten(term):
            met = seen.get(new)
            if met is None and terms.size(new) <= most:
                seen[new] = side
                fronts[side].append(new)
            elif met == 1 - side:
                return True
    return False


@dataclass(slots=True)
class Rewriting:
    """Terms over one table of values, rewritten one step at a time."""

    values: Values
    nodes: dict[int, Node]
    rules: Rules
    sizes: dict[int, frozenset[int]] = field(default_factory=dict)
    steps: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def size(self, value: int) -> int:
        """The number of distinct nodes of a term."""
        return len(self._parts(value))

    def _parts(self, value: int) -> frozenset[int]:
        if value not in self.sizes:
            node = self.nodes.get(value)
            below = [self._parts(i) for i in node.inputs if i is not None] if node else []
            self.sizes[value] = frozenset({value}).union(*below) if node else frozenset()
        return self.sizes[value]

    def rewritten(self, value: int) -> tuple[int, ...]:
        """All terms one rewrite away: at the root, or in an operand."""
        if value not in self.steps:
            node = self.nodes.get(value)
            self.steps[value] = tuple(dict.fromkeys(self._rewritten(value, node))) if node else ()
        return self.steps[value]

    def _rewritten(self, value: int, node: Node) -> Iterator[int]:
        for pattern in self.rules.patterns.get(type(node.operator), ()):
            yield from self.applied(pattern, value)
        for k, operand in enumerate(node.inputs):
            assert operand is not None
            for new in self.rewritten(operand):
                # Equal operands are one value: a rewrite replaces it wherever it is used here.
                inputs = tuple(new if i == operand else i for i in node.inputs)
                yield self._interned(Node(node.operator, inputs))
                if node.inputs.count(operand) > 1:
                    yield self._interned(Node(node.operator, (*node.inputs[:k], new, *node.inputs[k + 1 :])))

    def _interned(self, node: Node) -> int:
        types = [self.values.types[i] for i in node.inputs if i is not None]
        value = self.values.intern(node, node.operator.infer(*types))
        self.nodes[value] = node
        return value

    # ---- matching --------------------------------------------------------------------------------------------

    def applied(self, pattern: Pattern, value: int) -> Iterator[int]:
        """What a rule makes of the term at its root."""
        for binding in self._match(pattern, pattern.root, value, Binding()):
            if not binding.settle() or binding.waiting or binding.shapes:
                continue
            if not all(isinstance(c, Comparison) and binding.holds(c) for c in pattern.rule.conditions):
                continue
            try:
                left = Builder(self.values, binding, pattern.rule.left, _DTYPE).output(pattern.root)
                builder = Builder(self.values, binding, pattern.rule.right, _DTYPE)
                right = builder.output(pattern.rule.right.outputs[0])
            except (NotBuildable, ValueError):
                continue
            if self._same(left, value) and self.values.types[right] == self.values.types[value]:
                self.nodes.update(builder.nodes)
                yield right

    def _same(self, built: int, value: int) -> bool:
        """Whether the left side, rebuilt, is what was matched, but for the order of commuting operands."""
        if built == value:
            return True
        node, known = self.nodes.get(value), next((n for n in (self.nodes.get(built),) if n), None)
        return known is None or node is None or known.operator == node.operator

    def _match(self, pattern: Pattern, term: Term, value: int, binding: Binding) -> Iterator[Binding]:
        if isinstance(term, Variable):
            known = binding.tensors.get(term.name)
            if known is not None:
                if known == value:
                    yield binding
                return
            more = binding.copy()
            more.tensors[term.name] = value
            axes = pattern.shapes.get(term.name)
            if axes is None or more.unify_shape(axes, self.values.types[value].dims):
                yield more
            return
        node = self.nodes.get(value)
        if not isinstance(term, Application) or node is None or type(node.operator) is not term.operator:
            return
        if len(node.inputs) != len(term.arguments):
            return
        more = binding.copy()
        if not self._attributes(term, value, node, more):
            return
        orders: list[Sequence[int | None]] = [node.inputs]
        if term.operator.commutative and node.inputs[0] != node.inputs[1]:
            orders.append(node.inputs[::-1])
        for inputs in orders:
            yield from self._operands(pattern, term, inputs, 0, more)

    def _operands(
        self, pattern: Pattern, term: Application, inputs: Sequence[int | None], k: int, binding: Binding
    ) -> Iterator[Binding]:
        if k == len(inputs):
            yield binding
            return
        operand = inputs[k]
        assert operand is not None
        for more in self._match(pattern, term.arguments[k], operand, binding):
            yield from self._operands(pattern, term, inputs, k + 1, more)

    def _attributes(self, term: Application, value: int, node: Node, binding: Binding) -> bool:
        types = tuple(self.values.types[i] for i in node.inputs if i is not None)
        for name, expression in term.attributes:
            at = term.operator.axis_fields.get(name)
            if at is not None:
                expression = from_front(expression, (types[at] if at >= 0 else self.values.types[value]).rank)
            if not binding.unify(expression, getattr(node.operator, name)):
                return False
        return _unmentioned(term, types, node.operator)


def _unmentioned(term: Application, types: tuple[TensorType, ...], operator: Operator) -> bool:
    """Whether the attributes that a term does not mention have their defaults."""
    given = {name for name, _ in term.attributes}
    try:
        plain = operator_of(Application(term.operator, term.arguments), types, Binding(), _DTYPE)
    except NotBuildable:
        return True
    return all(getattr(plain, k) == v for k, v in operator.attributes().items() if k not in given)
