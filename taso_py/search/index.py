"""Which rules can match at a value: found by the operators there, without binding anything."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

from taso_py.rules.rule import Rule
from taso_py.search.contraction import EINSUM, einsum_matcher, stands_for_all
from taso_py.search.matcher import Matcher, matcher
from taso_py.search.view import View


@dataclass(frozen=True, slots=True)
class RuleIndex:
    """Matchers of directed rules by the operator of their first output, in the rules' order.

    ``labels``: with the laws of Einsum, which are written where one stands.
    """

    by_root: dict[type, tuple[Matcher, ...]]
    labels: bool = False

    @staticmethod
    def of(rules: Iterable[Rule]) -> RuleIndex:
        """The index of these rules, each in the direction in which it is given."""
        by_root: dict[type, tuple[Matcher, ...]] = {}
        labels = False
        for rule in rules:
            if stands_for_all(rule):
                labels = True
                continue
            compiled = matcher(rule)
            by_root[compiled.root] = (*by_root.get(compiled.root, ()), compiled)
        return RuleIndex(by_root, labels)

    def names(self) -> list[str]:
        """Names of the rules."""
        written = [EINSUM] if self.labels else []
        return list(dict.fromkeys([*(m.rule.name for ms in self.by_root.values() for m in ms), *written]))

    def only(self, names: Container[str]) -> RuleIndex:
        """The index of those rules that have one of these names."""
        chosen = {root: tuple(m for m in compiled if m.rule.name in names) for root, compiled in self.by_root.items()}
        kept = {root: compiled for root, compiled in chosen.items() if compiled}
        return RuleIndex(kept, self.labels and EINSUM in names)

    def named(self, name: str) -> Matcher | None:
        """The matcher of the rule of this name, if it is one of them."""
        return next((m for compiled in self.by_root.values() for m in compiled if m.rule.name == name), None)

    def at(self, view: View, value: int) -> list[Matcher]:
        """The matchers worth trying at a value that runs."""
        if value in view.values.constant:
            return []
        chosen: dict[Matcher, None] = {}
        for node in view.definitions(value):
            candidates = self.by_root.get(type(node.operator), ())
            if candidates:
                kinds = [view.kinds(i) if i is not None else frozenset() for i in node.inputs]
                chosen.update((m, None) for m in candidates if m not in chosen and m.may_match(kinds))
        written = einsum_matcher(view, value) if self.labels else None
        return [*chosen, *([written] if written else [])]
