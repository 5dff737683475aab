"""Which rules can match at a value: found by the operators there, without binding anything."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

from taso_py.rules.rule import Rule
from taso_py.search.matcher import Matcher, matcher
from taso_py.search.view import View
from taso_py.search.written import Family, family_of


@dataclass(frozen=True, slots=True)
class RuleIndex:
    """Matchers of directed rules by the operator of their first output, in the rules' order, and families of laws."""

    by_root: dict[type, tuple[Matcher, ...]]
    families: tuple[Family, ...] = ()

    @staticmethod
    def of(rules: Iterable[Rule]) -> RuleIndex:
        """The index of these rules, each in the direction in which it is given."""
        by_root: dict[type, tuple[Matcher, ...]] = {}
        families: dict[Family, None] = {}
        for rule in rules:
            family = family_of(rule)
            if family is not None:
                families[family] = None
                continue
            compiled = matcher(rule)
            by_root[compiled.root] = (*by_root.get(compiled.root, ()), compiled)
        return RuleIndex(by_root, tuple(families))

    def names(self) -> list[str]:
        """Names of the rules."""
        ruled = (m.rule.name for ms in self.by_root.values() for m in ms)
        return list(dict.fromkeys([*ruled, *(family.name for family in self.families)]))

    def only(self, names: Container[str]) -> RuleIndex:
        """The index of those rules that have one of these names."""
        chosen = {root: tuple(m for m in compiled if m.rule.name in names) for root, compiled in self.by_root.items()}
        kept = {root: compiled for root, compiled in chosen.items() if compiled}
        return RuleIndex(kept, tuple(family for family in self.families if family.name in names))

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
        written = (family.at(view, value) for family in self.families)
        return [*chosen, *(one for one in written if one is not None)]
