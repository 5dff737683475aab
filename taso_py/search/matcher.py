"""Finding where a rule applies, and accepting a match only when everything that the rule demands is decided true."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from itertools import islice, product
from typing import Any

from taso_py.errors import TypingError
from taso_py.graph.ordering import at_least
from taso_py.graph.sizes import Expression
from taso_py.graph.table import Node, Opaque
from taso_py.graph.types import TensorType
from taso_py.ops.algebra import Algebra, algebra
from taso_py.rules.build import Builder, NotBuildable, from_front, number_type, operator_of
from taso_py.rules.coverage import Typing, covered
from taso_py.rules.element_types import index_terms, indexing, literals_differ
from taso_py.rules.predicates import PREDICATES
from taso_py.rules.rounding import computes_constants
from taso_py.rules.rule import Rule
from taso_py.rules.signs import natural_names
from taso_py.rules.term import Application, Axis, Comparison, Membership, Predicate, Scalar, Side, Term, Variable
from taso_py.rules.unify import Binding, Unbound
from taso_py.search.acceptance import constants_tame, dtypes_allowed, is_number, same_constant, spellable
from taso_py.search.dependence import independent, joins
from taso_py.search.rounding import rounded_later
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
        self.proved: dict[Hashable, bool] = {}
        """Whether the law is proved for a match that is typed so: layers of a network are alike."""
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

    # ---- acceptance ------------------------------------------------------------------------------------------

    def _accepted(self, view: View, partial: _Partial, outputs: tuple[int, ...]) -> Iterator[Match]:
        if not partial.binding.settle():
            return
        for binding in self._choices(partial.binding):
            if self._holds(view, partial, binding, outputs):
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

    def _choices(self, binding: Binding) -> Iterator[Binding]:
        if not self.rule.choices:
            yield binding
            return
        menus = [[binding.value(e) for e in c.menu] for c in self.rule.choices]
        for picks in product(*menus):
            chosen = binding.copy()
            names = zip(self.rule.choices, picks, strict=True)
            if all(chosen.names.setdefault(c.variable, pick) == pick for c, pick in names) and chosen.settle():
                yield chosen

    def _holds(self, view: View, partial: _Partial, binding: Binding, outputs: tuple[int, ...]) -> bool:
        if binding.waiting or binding.shapes:
            return False
        if not self._natural(binding) or not all(self._condition(view, c, binding) for c in self.rule.conditions):
            return False
        dtype = number_type(binding, view.table.type, view.table.type(outputs[0]).dtype)
        if not literals_differ(self.rule, dtype):
            return False
        try:
            operators = self._rebuilt(view, partial, binding, dtype)
            if computes_constants(self.rule):
                self._require_numbers(view, binding, dtype)
            right = Builder(view.values, binding, self.rule.right, dtype)
            built = [right.output(term) for term in self.rule.right.outputs]
        except NotBuildable:
            return False
        if operators is None or not spellable(view, right.nodes):
            return False
        if any(view.table.type(o) != view.table.type(b) for o, b in zip(outputs, built, strict=True)):
            return False
        kinds = operators + [
            algebra(n.operator, tuple(view.values.types[i] for i in n.inputs if i is not None))
            for n in right.nodes.values()
        ]
        involved = self._computed(partial, binding, right)
        if not (dtypes_allowed(view, kinds, involved) and constants_tame(view, kinds, binding)):
            return False
        if not all(k == "move" for k in kinds) and rounded_later(view, outputs):
            return False
        return self._proved(partial, right, zip(outputs, built, strict=True), view, binding)

    def _require_numbers(self, view: View, binding: Binding, dtype: str) -> None:
        """`NotBuildable` where what the left side makes of constants is, in their type, another number than it says."""
        left = Builder(view.values, binding, self.rule.left, dtype)
        for term in self.rule.left.outputs:
            left.output(term)

    def _computed(self, partial: _Partial, binding: Binding, right: Builder) -> list[int]:
        """What the element types of numbers are asked of: all but indices, which are only moved and looked up by."""
        rule = self.rule
        indices = index_terms(rule.left) | index_terms(rule.right)
        placed = [v for t, (v, _) in partial.placed.items() if t not in indices]
        given = [v for name, v in binding.tensors.items() if name not in indexing(rule)]
        return [*placed, *given, *(v for t, v in right.done.items() if t not in indices)]

    def _proved(
        self, partial: _Partial, right: Builder, outputs: Iterable[tuple[int, int]], view: View, binding: Binding
    ) -> bool:
        """Whether the proof covers this typing, or the law is proved for it now."""
        left: dict[Term, tuple[int, Node | None]] = dict(partial.placed)
        left.update((t, left[self.rule.left.resolve(t)]) for t in self.rule.left.applications())
        types = view.values.types.__getitem__
        typing = Typing(
            self.rule, left, right.placed(), binding.tensors, tuple(outputs), types, blocks=binding.block_ranks()
        )
        key = _typed_as(typing, right)
        if key not in self.proved:
            self.proved[key] = typing.of_types(self.rule.types) and (
                self._covered(typing, binding)
                or (self.rule.at_site is not None and self.rule.at_site(self.rule, typing, binding))
            )
        return self.proved[key]

    def _covered(self, typing: Typing, binding: Binding) -> bool:
        known, limit = self.rule.patterns, self.rule.limit
        names = (v for v in binding.names.values() if isinstance(v, int | Expression))
        if limit is not None and not (typing.within(limit) and all(at_least(limit, v) is True for v in names)):
            return False
        return covered(known, typing.signature()) or covered(known, typing.signature(whole=True))

    def _natural(self, binding: Binding) -> bool:
        """Whether every name that stands for a size is decided to be one: an equation may have a negative solution."""
        known = map(binding.names.get, natural_names(self.rule))
        numbers = [v for v in known if isinstance(v, int | float | Expression)]
        return all(v >= 0 if isinstance(v, float) else at_least(v, 0) is True for v in numbers)

    def _rebuilt(self, view: View, partial: _Partial, binding: Binding, dtype: str) -> list[Algebra] | None:
        """The left side built again under the substitution; None unless it is exactly what was matched."""
        kinds = []
        for term, (_, node) in partial.placed.items():
            if node is None or not isinstance(term, Application):
                continue
            types = tuple(view.table.type(i) for i in node.inputs if i is not None)
            if operator_of(term, types, binding, dtype) != node.operator:
                return None
            kinds.append(algebra(node.operator, types))
        return kinds

    def _condition(self, view: View, condition: Comparison | Membership | Predicate, binding: Binding) -> bool:
        match condition:
            case Comparison():
                return binding.holds(condition)
            case Membership(variable, menu):
                try:
                    return binding.names[variable] in [binding.value(m) for m in menu]
                except (KeyError, Unbound, ZeroDivisionError):
                    return False
            case Predicate(name, variables, arguments):
                arrays = [view.constant(binding.tensors[v]) for v in variables]
                if any(a is None for a in arrays):
                    return False
                return PREDICATES[name].holds(*arrays, *arguments)


def _typed_as(typing: Typing, right: Builder) -> Hashable:
    """All that a typing's signature and a proof at its site depend on."""
    left = tuple((n.operator, typing.type_of(v)) for v, n in typing.left.values() if n is not None)
    order = {v: k for k, v in enumerate(dict.fromkeys(typing.tensors.values()))}
    given = tuple((name, order[v], typing.type_of(v)) for name, v in typing.tensors.items())
    literals = tuple(typing.type_of(v) for v, n in typing.left.values() if n is None)
    blocks = tuple(sorted(typing.blocks.items()))
    return left, given, literals, blocks, tuple(n.operator for n in right.nodes.values())


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
