"""What a rule demands of a match beside its structure: all of it is decided true, or there is no match."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product

from taso_py.graph.ordering import at_least
from taso_py.graph.sizes import Expression
from taso_py.ops.algebra import Algebra, algebra
from taso_py.rules.build import Builder, NotBuildable, number_type, operator_of
from taso_py.rules.coverage import Placed, Typing, covered
from taso_py.rules.element_types import index_terms, indexing, literals_differ
from taso_py.rules.predicates import PREDICATES
from taso_py.rules.rounding import computes_constants
from taso_py.rules.rule import Rule
from taso_py.rules.signs import natural_names
from taso_py.rules.term import Application, Comparison, Membership, Predicate
from taso_py.rules.unify import Binding, Unbound
from taso_py.search.acceptance import constants_tame, differences_kept, dtypes_allowed, in_one_branch, spellable
from taso_py.search.rounding import rounded_later
from taso_py.search.view import View
from taso_py.search.wrong_fusions import meets_wrong_fusion


@dataclass(slots=True)
class Demands:
    """What one directed rule demands of a match."""

    rule: Rule
    proved: dict[Hashable, bool] = field(default_factory=dict)
    """Whether the law is proved for a match that is typed so: layers of a network are alike."""

    def met(self, view: View, placed: Placed, binding: Binding, outputs: tuple[int, ...]) -> Iterator[Binding]:
        """The substitution, once for every free choice of the rule, wherever all demands are met.

        ``placed`` says where the left side's terms were found, ``outputs`` which ids its outputs are.
        """
        if binding.settle():
            yield from (b for b in self._choices(binding) if self._holds(view, placed, b, outputs))

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

    def _holds(self, view: View, placed: Placed, binding: Binding, outputs: tuple[int, ...]) -> bool:
        if binding.waiting or binding.shapes or not in_one_branch(view, outputs):
            return False
        if not self._natural(binding) or not all(self._condition(view, c, binding) for c in self.rule.conditions):
            return False
        dtype = number_type(binding, view.table.type, view.table.type(outputs[0]).dtype)
        if not literals_differ(self.rule, dtype):
            return False
        try:
            operators = self._rebuilt(view, placed, binding, dtype)
            if computes_constants(self.rule):
                self._require_numbers(view, binding, dtype)
            right = Builder(view.values, binding, self.rule.right, dtype)
            built = [right.output(term) for term in self.rule.right.outputs]
        except NotBuildable:
            return False
        pairs = list(zip(outputs, built, strict=True))
        if operators is None or not spellable(view, right.nodes) or meets_wrong_fusion(view, pairs, right.nodes):
            return False
        if any(view.table.type(o) != view.table.type(b) for o, b in pairs):
            return False
        kinds = operators + [
            algebra(n.operator, tuple(view.values.types[i] for i in n.inputs if i is not None))
            for n in right.nodes.values()
        ]
        involved = self._computed(placed, binding, right)
        if not dtypes_allowed(view, kinds, involved):
            return False
        if not all(k == "move" for k in kinds) and (
            not constants_tame(view, binding, placed.values())
            or not differences_kept(view, placed.values(), right.nodes)
            or rounded_later(view, outputs)
        ):
            return False
        return self._proved(placed, right, pairs, view, binding)

    def _require_numbers(self, view: View, binding: Binding, dtype: str) -> None:
        """`NotBuildable` where what the left side makes of constants is, in their type, another number than it says."""
        left = Builder(view.values, binding, self.rule.left, dtype)
        for term in self.rule.left.outputs:
            left.output(term)

    def _computed(self, placed: Placed, binding: Binding, right: Builder) -> list[int]:
        """What the element types of numbers are asked of: all but indices, which are only moved and looked up by."""
        rule = self.rule
        indices = index_terms(rule.left) | index_terms(rule.right)
        matched = [v for t, (v, _) in placed.items() if t not in indices]
        given = [v for name, v in binding.tensors.items() if name not in indexing(rule)]
        return [*matched, *given, *(v for t, v in right.done.items() if t not in indices)]

    def _proved(
        self, placed: Placed, right: Builder, outputs: Iterable[tuple[int, int]], view: View, binding: Binding
    ) -> bool:
        """Whether the proof covers this typing, or the law is proved for it now."""
        left = dict(placed)
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

    def _rebuilt(self, view: View, placed: Placed, binding: Binding, dtype: str) -> list[Algebra] | None:
        """The left side built again under the substitution; None unless it is exactly what was matched."""
        kinds = []
        for term, (_, node) in placed.items():
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
