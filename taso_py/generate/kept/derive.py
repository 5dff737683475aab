"""Whether a law follows from other rules: bounded rewriting of both sides of an instance until they meet.

Terms are ids of hash-consed nodes, so a rewritten term that was met before has the same id.  A rule is applied only
where its shapes, attributes and conditions hold for the instance at hand and both of its sides have one type.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TypeAlias

import numpy as np

from taso_py.graph.table import Node, Values
from taso_py.graph.types import TensorType
from taso_py.ops.operator import Operator
from taso_py.rules.build import Builder, NotBuildable, from_front, operator_of
from taso_py.rules.instances import Instance, draw
from taso_py.rules.rule import Rule
from taso_py.rules.term import Application, Axis, Comparison, Side, Term, Variable
from taso_py.rules.unify import Binding

_DTYPE = "float32"
STATES = 400
"""Most terms that are expanded from both sides together."""
GROWTH = 2
"""How many more nodes than the larger side a term on the way may have."""
INSTANCES = 4
"""Most instances on which a derivation must be found."""


_ATTEMPTS, _DRAWS = 40, 300
"""Random instances of which some are taken that tell the law from its special cases, and attempts to draw each."""
_STALE = 10
"""Instances in a row that show nothing new, after which no more are drawn."""


Heads: TypeAlias = tuple[type[Operator] | None, ...]


@dataclass(slots=True)
class Pattern:
    """One direction of a rule, prepared for matching."""

    rule: Rule
    root: Application
    shapes: dict[str, tuple[Axis, ...]]
    origin: str
    """The id of the rule whose direction it is."""

    @property
    def heads(self) -> Heads:
        """The operators of the root's operands; None for a variable."""
        return tuple(a.operator if isinstance(a, Application) else None for a in self.root.arguments)

    @staticmethod
    def of(rule: Rule) -> list[Pattern]:
        """The directions of a rule of one output that can be matched."""
        found: list[Pattern] = []
        for directed in (rule, rule.reversed()):
            root = directed.left.resolve(directed.left.outputs[0])
            if isinstance(root, Application) and not directed.unbound() and len(directed.left.outputs) == 1:
                shapes = {d.variable: d.axes for d in directed.declarations}
                found.append(Pattern(directed, root, shapes, rule.id))
        return found


@dataclass(slots=True)
class Rules:
    """Patterns by root operator, and by the operators below."""

    patterns: dict[type[Operator], dict[Heads, list[Pattern]]] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    """Ids of rules that are not used."""

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
            self.patterns.setdefault(pattern.root.operator, {}).setdefault(pattern.heads, []).append(pattern)

    def without(self, ids: Iterable[str]) -> Rules:
        """The same index, in which the rules with these ids are not used."""
        return Rules(self.patterns, self.left_out.union(ids))

    def fitting(self, operator: type[Operator], heads: Heads) -> Iterator[Pattern]:
        """The patterns that an application of this operator to results of ``heads`` may match."""
        orders = {heads, heads[::-1]} if operator.commutative else {heads}
        for wanted, patterns in self.patterns.get(operator, {}).items():
            if any(_fits(wanted, order) for order in orders):
                yield from (p for p in patterns if p.origin not in self.left_out)


def _fits(wanted: Heads, heads: Heads) -> bool:
    return len(heads) == len(wanted) and all(w in (None, h) for w, h in zip(wanted, heads, strict=True))


def derivable(rule: Rule, rules: Rules, *, seed: int = 0, states: int = STATES, growth: int = GROWTH) -> bool:
    """Whether rewriting by ``rules`` turns one side of random instances of ``rule`` into the other, output by output.

    An instance stands for the law, because every step is an instance of a law that holds for all sizes.  A special
    case could follow from less: so there are several, in some of which each size and attribute is neither 0 nor 1 and
    different from each other one, as far as the law allows.
    """
    if rule.left == rule.right:
        return True
    random, values = np.random.default_rng(seed), Values()
    directed = rule.directions()[0]
    drawn: list[Instance] = []
    told: list[set[tuple[str, ...]]] = []
    shown: set[tuple[str, ...]] = set()
    stale = 0
    for _ in range(_ATTEMPTS):
        instance = draw(directed, random, values, _DRAWS)
        if instance is None:
            continue
        drawn.append(instance)
        told.append(_generic(instance))
        stale = 0 if told[-1] - shown else stale + 1
        shown |= told[-1]
        if stale == _STALE:
            break
    return bool(drawn) and all(_derived(drawn[k], rules, states, growth) for k in _telling(told))


def share_derived(rule: Rule, rules: Rules, *, seed: int = 0, states: int = STATES, growth: int = GROWTH) -> float:
    """The share of random instances that follow: above 0 where ``rules`` know a special case of the law."""
    random, values = np.random.default_rng(seed), Values()
    drawn = [draw(rule.directions()[0], random, values, _DRAWS) for _ in range(_ATTEMPTS)]
    found = [_derived(i, rules, states, growth) for i in drawn if i is not None]
    return sum(found) / len(found) if found else 0.0


def _telling(told: Sequence[set[tuple[str, ...]]]) -> list[int]:
    """The numbers of few instances that together show as much of the law's generality as all do."""
    chosen: list[int] = []
    shown: set[tuple[str, ...]] = set()
    while len(chosen) < INSTANCES:
        best = max(range(len(told)), key=lambda k: (len(told[k] - shown), -k), default=None)
        if best is None or not told[best] - shown:
            break
        chosen.append(best)
        shown |= told[best]
    return chosen or [0]


def _generic(instance: Instance) -> set[tuple[str, ...]]:
    """What is general about an instance: quantities that are neither 0 nor 1, and pairs of them that differ."""
    found: dict[str, object] = {}
    for name, tensor in instance.binding.tensors.items():
        found.update({f"{name}.{k}": d for k, d in enumerate(instance.values.types[tensor].dims)})
    for name, value in instance.binding.names.items():
        entries = value if isinstance(value, tuple) else (value,)
        found.update({f"{name}:{k}": entry for k, entry in enumerate(entries)})
    single = {(q,) for q, value in found.items() if value not in (0, 1)}
    return single | {(p, q) for p, q in itertools.combinations(found, 2) if found[p] != found[q]}


def _derived(instance: Instance, rules: Rules, states: int, growth: int) -> bool:
    terms = Rewriting(instance.values, dict(instance.nodes), rules)
    sides = zip(instance.left, instance.right, strict=True)
    return all(met(terms, left, right, states, growth) for left, right in sides)


def met(terms: Rewriting, left: int, right: int, states: int, growth: int = GROWTH) -> bool:
    """Whether rewriting both terms meets, after ``states`` terms at most, none larger by more than ``growth`` nodes."""
    left, right = terms.ordered(left), terms.ordered(right)
    if left == right:
        return True
    most = max(terms.size(left), terms.size(right)) + growth
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


_Step: TypeAlias = tuple[int, int, int]
"""A new term, and the part of the old one that was replaced with what it was replaced by."""


@dataclass(slots=True)
class Rewriting:
    """Terms over one table of values, rewritten one step at a time; operands that commute stand in one order."""

    values: Values
    nodes: dict[int, Node]
    rules: Rules
    _: KW_ONLY
    sizes: dict[int, frozenset[int]] = field(default_factory=dict)
    steps: dict[int, tuple[_Step, ...]] = field(default_factory=dict)
    replaced: dict[tuple[int, int, int], int] = field(default_factory=dict)
    orders: dict[int, int] = field(default_factory=dict)

    def ordered(self, value: int) -> int:
        """The same term with the operands of all commutative operators in order."""
        if value not in self.orders:
            node = self.nodes.get(value)
            found = value
            if node is not None:
                found = self._interned(Node(node.operator, tuple(map(self._operand, node.inputs))))
            self.orders[value] = self.orders[found] = found
        return self.orders[value]

    def _operand(self, value: int | None) -> int:
        assert value is not None
        return self.ordered(value)

    def size(self, value: int) -> int:
        """The number of distinct nodes of a term."""
        return len(self._parts(value))

    def _parts(self, value: int) -> frozenset[int]:
        if value not in self.sizes:
            node = self.nodes.get(value)
            below = [self._parts(i) for i in node.inputs if i is not None] if node else []
            self.sizes[value] = frozenset({value}).union(*below) if node else frozenset()
        return self.sizes[value]

    def rewritten(self, value: int) -> Iterable[int]:
        """All terms one rewrite away: at the root, or below, at one place or wherever the same term stands."""
        return dict.fromkeys(new for new, _, _ in self._steps(value))

    def _steps(self, value: int) -> tuple[_Step, ...]:
        if value not in self.steps:
            node = self.nodes.get(value)
            self.steps[value] = tuple(dict.fromkeys(self._rewritten(value, node))) if node else ()
        return self.steps[value]

    def _rewritten(self, value: int, node: Node) -> Iterator[_Step]:
        below = [self.nodes.get(i) for i in node.inputs if i is not None]
        heads = tuple(type(n.operator) if n is not None else None for n in below)
        for pattern in self.rules.fitting(type(node.operator), heads):
            for new in self.applied(pattern, value):
                yield new, value, new
        for k, operand in enumerate(node.inputs):
            assert operand is not None
            for new, old, by in self._steps(operand):
                # In a graph equal terms are one node, and a rewrite replaces it for all who use it.
                yield self._everywhere(value, old, by), old, by
                yield self._interned(Node(node.operator, (*node.inputs[:k], new, *node.inputs[k + 1 :]))), old, by

    def _everywhere(self, value: int, old: int, by: int) -> int:
        """The term with ``by`` wherever ``old`` stands."""
        if value == old:
            return by
        node = self.nodes.get(value)
        if node is None or old not in self._parts(value):
            return value
        key = (value, old, by)
        if key not in self.replaced:
            inputs = tuple(None if i is None else self._everywhere(i, old, by) for i in node.inputs)
            self.replaced[key] = self._interned(Node(node.operator, inputs))
        return self.replaced[key]

    def _interned(self, node: Node) -> int:
        if node.operator.commutative:
            node = Node(node.operator, tuple(sorted(map(self._operand, node.inputs))))
        value = self.values.interned.get((node.operator, node.inputs))
        if value is None:
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
                left = self._built(pattern.rule.left, binding)
                right = self._built(pattern.rule.right, binding)
            except (NotBuildable, ValueError):
                continue
            if left == value and self.values.types[right] == self.values.types[value]:
                yield right

    def _built(self, side: Side, binding: Binding) -> int:
        """A rule's side under a binding."""
        builder = Builder(self.values, binding, side, _DTYPE)
        value = builder.output(side.outputs[0])
        self.nodes.update(builder.nodes)
        return self.ordered(value)

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
