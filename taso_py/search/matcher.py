"""Finding where a rule applies: its left side's structure in a table, and then what it demands."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any

from taso_py.errors import TypingError
from taso_py.graph.table import Node, Opaque
from taso_py.graph.types import TensorType
from taso_py.rules.build import from_front
from taso_py.rules.rule import Rule
from taso_py.rules.term import Application, Axis, Scalar, Side, Term, Variable
from taso_py.rules.unify import Binding
from taso_py.search.acceptance import is_number, same_constant
from taso_py.search.demands import Demands
from taso_py.search.dependence import independent, joins
from taso_py.search.view import View

_SIBLINGS = 64
"""How many ids are tried as a further output: of 100,000 siblings there are too many pairs."""


@dataclass(frozen=True, slots=True)
class Match:
    """A rule's left side found in a table: what its names stand for, and which ids its outputs are."""

    rule: Rule
    binding: Binding = field(compare=False)
    outputs: tuple[int, ...]
    used: frozenset[int]
    """Every id whose definition the match relies on."""
    _: KW_ONLY
    placed: tuple[tuple[int, Node], ...] = field(compare=False, default=())
    """Those ids with the definitions that the left side's operators were found in."""
    seen: tuple[tuple[int, Node], ...] = field(compare=False, default=())
    """Those ids of the table with the nodes that it had for them."""
    signature: Hashable = field(compare=False, default=None)
    """What the site looks like: equal for alike layers of a network."""

    @property
    def choice(self) -> tuple[Any, ...]:
        """The values of the rule's free choices."""
        return tuple(self.binding.names.get(c.variable) for c in self.rule.choices)


@dataclass(slots=True)
class _Partial:
    binding: Binding
    placed: dict[Term, tuple[int, Node | None]]

    def copy(self) -> _Partial:
        return _Partial(self.binding.copy(), dict(self.placed))


class Matcher:
    """Matches one directed rule."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.shapes: dict[str, tuple[Axis, ...]] = {d.variable: d.axes for d in rule.declarations}
        first = rule.left.resolve(rule.left.outputs[0])
        if not isinstance(first, Application):
            raise TypingError(f"rule {rule.name}: the left side is a bare variable")
        self.root = first.operator
        self.lets = bool(rule.left.lets)
        self.joins = joins(rule)
        below = [rule.left.resolve(a) for a in first.arguments]
        self.demands = Demands(rule)
        self.needs = tuple(a.operator if isinstance(a, Application) else None for a in below)

    def may_match(self, kinds: Sequence[frozenset[type]]) -> bool:
        """Whether operands computed by these operators could fit the first output's: a look without binding."""
        if len(kinds) != len(self.needs):
            return False
        if all(n is None or n in k for n, k in zip(self.needs, kinds, strict=True)):
            return True
        return self.root.commutative and all(
            n is None or n in k for n, k in zip(self.needs, reversed(kinds), strict=True)
        )

    def matches_at(self, view: View, value: int) -> Iterator[Match]:
        """All accepted matches whose first output is ``value``; OutOfTime as soon as the view's watch says so."""
        view.watch.look()
        start = _Partial(Binding(), {})
        for partial in self._term(view, self.rule.left.outputs[0], value, start):
            yield from self._others(view, partial, (value,))

    def matches_on(self, view: View, outputs: Sequence[int], most: int | None = None) -> Iterator[Match]:
        """All accepted matches whose outputs are these, in this order.

        ``most``: how many orders of commutative operators are tried; n of them in one another have 2^n.
        """
        if len(outputs) != len(self.rule.left.outputs):
            return
        start = _Partial(Binding(), {})
        orders = self._term(view, self.rule.left.outputs[0], outputs[0], start)
        for partial in islice(orders, most):
            view.watch.look()
            yield from self._others(view, partial, (outputs[0],), outputs)

    def _others(
        self, view: View, partial: _Partial, outputs: tuple[int, ...], given: Sequence[int] = ()
    ) -> Iterator[Match]:
        at = len(outputs)
        if at == len(self.rule.left.outputs):
            yield from self._accepted(view, partial, outputs)
            return
        term = self.rule.left.resolve(self.rule.left.outputs[at])
        values = [given[at]] if given else _candidates(view, self.rule.left, term, partial.binding)
        for value in independent(view, outputs, values) if self.joins else values:
            view.watch.look()
            if value in outputs or value in view.values.constant:
                continue
            for more in self._term(view, term, value, partial):
                yield from self._others(view, more, (*outputs, value), given)

    # ---- structure -------------------------------------------------------------------------------------------

    def _term(self, view: View, term: Term, value: int, partial: _Partial) -> Iterator[_Partial]:
        if self.lets:
            term = self.rule.left.resolve(term)
        if term in partial.placed:
            if partial.placed[term][0] == value:
                yield partial
            return
        match term:
            case Variable(name):
                yield from self._variable(view, name, value, partial)
            case Scalar(number):
                if is_number(view, value, number):
                    more = partial.copy()
                    more.placed[term] = (value, None)
                    yield more
            case Application():
                if term.operator in view.kinds(value):
                    for node in view.definitions(value):
                        yield from self._application(view, term, value, node, partial)

    def _variable(self, view: View, name: str, value: int, partial: _Partial) -> Iterator[_Partial]:
        known = partial.binding.tensors.get(name)
        if known is not None:
            if known == value or same_constant(view, known, value):
                yield partial
            return
        type_ = view.table.type(value)
        if not type_.known:
            return
        more = partial.copy()
        more.binding.tensors[name] = value
        axes = self.shapes.get(name)
        if axes is None or more.binding.unify_shape(axes, type_.dims):
            yield more

    def _application(
        self, view: View, term: Application, value: int, node: Node, partial: _Partial
    ) -> Iterator[_Partial]:
        if type(node.operator) is not term.operator or len(node.inputs) != len(term.arguments):
            return
        if any(i is None for i in node.inputs) or not view.table.type(value).known:
            return
        orders = [node.inputs]
        if term.operator.commutative and len(node.inputs) == 2 and node.inputs[0] != node.inputs[1]:
            orders.append(node.inputs[::-1])
        orders = [inputs for inputs in orders if self._may_fit(view, term, inputs)]
        if not orders:
            return
        more = partial.copy()
        if not _attributes(view, term, value, node, more.binding):
            return
        for inputs in orders:
            yield from self._arguments(view, term, value, Node(node.operator, inputs), 0, more)

    def _may_fit(self, view: View, term: Application, inputs: tuple[int | None, ...]) -> bool:
        """Whether the operators below are the right ones: a cheap look before anything is bound."""
        for argument, value in zip(term.arguments, inputs, strict=True):
            below = self.rule.left.resolve(argument) if self.lets else argument
            if isinstance(below, Application) and value is not None and below.operator not in view.kinds(value):
                return False
        return True

    def _arguments(
        self, view: View, term: Application, value: int, node: Node, k: int, partial: _Partial
    ) -> Iterator[_Partial]:
        if k == len(term.arguments):
            more = partial.copy()
            more.placed[term] = (value, node)
            yield more
            return
        argument = node.inputs[k]
        assert argument is not None
        for more in self._term(view, term.arguments[k], argument, partial):
            yield from self._arguments(view, term, value, node, k + 1, more)

    # ---- what was found --------------------------------------------------------------------------------------

    def _accepted(self, view: View, partial: _Partial, outputs: tuple[int, ...]) -> Iterator[Match]:
        for binding in self.demands.met(view, partial.placed, partial.binding, outputs):
            yield self._match(view, partial, binding, outputs)

    def _match(self, view: View, partial: _Partial, binding: Binding, outputs: tuple[int, ...]) -> Match:
        placed = tuple((v, n) for v, n in partial.placed.values() if n is not None)
        seen = tuple((v, view.table.nodes[v]) for v, _ in placed if v in view.table.nodes)
        shape = tuple((n.operator, view.table.type(v)) for v, n in placed)
        given = tuple((k, view.table.type(v)) for k, v in binding.tensors.items())
        choice = tuple(binding.names.get(c.variable) for c in self.rule.choices)
        signature = (self.rule.name, self.rule.id, choice, shape, given)
        return Match(
            self.rule, binding, outputs, frozenset(v for v, _ in placed), placed=placed, seen=seen, signature=signature
        )


def _attributes(view: View, term: Application, value: int, node: Node, binding: Binding) -> bool:
    for name, expression in term.attributes:
        actual = getattr(node.operator, name)
        at = term.operator.axis_fields.get(name)
        if at is not None:
            holder = value if at < 0 else node.inputs[at]
            assert holder is not None
            expression = from_front(expression, view.table.type(holder).rank)
        if not binding.unify(expression, actual):
            return False
    return True


def _candidates(view: View, side: Side, term: Term, binding: Binding) -> list[int]:
    """Ids that a further output may be: what is computed from an already bound variable, as deep as the term says."""
    found = _bound_path(side, term, binding)
    if found is None:
        operator = term.operator if isinstance(term, Application) else None
        return sorted(islice(view.by_operator.get(operator, ()), _SIBLINGS)) if operator else []
    value, depth = found
    level = [value]
    for _ in range(depth):
        level = sorted(set(islice((u for v in level for u in view.users.get(v, ())), _SIBLINGS)))
    return level


def _bound_path(side: Side, term: Term, binding: Binding) -> tuple[int, int] | None:
    """A bound variable in the term and its depth, the shallowest first."""
    level: list[Term] = [term]
    depth = 0
    while level:
        below: list[Term] = []
        for t in level:
            t = side.resolve(t)
            if isinstance(t, Variable) and t.name in binding.tensors:
                return binding.tensors[t.name], depth
            if isinstance(t, Application):
                below.extend(t.arguments)
        level, depth = below, depth + 1
    return None


@lru_cache(maxsize=4096)
def matcher(rule: Rule) -> Matcher:
    """The compiled matcher of a directed rule."""
    return Matcher(rule)


__all__ = ["Match", "Matcher", "Opaque", "TensorType", "matcher"]
