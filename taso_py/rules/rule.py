"""Rules and rule sets: identity by content, directions, set algebra."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from taso_py.errors import RuleError
from taso_py.rules.term import (
    Block,
    Comparison,
    Condition,
    Declaration,
    Membership,
    Predicate,
    Product,
    Side,
    names_in,
)

if TYPE_CHECKING:
    from taso_py.rules.coverage import Typing
    from taso_py.rules.unify import Binding

_REVERSED = "-reversed"

SiteProver: TypeAlias = "Callable[[Rule, Typing, Binding], bool]"
"""Whether a directed rule holds where it is typed so; the substitution gives attributes and blocks."""


@dataclass(frozen=True, slots=True)
class Rule:
    """left => right (``=>``) or left == right (``==``), for all sizes and values that the clauses admit.

    ``status`` is ``tested`` until a proof is on record.
    """

    name: str
    left: Side
    right: Side
    arrow: Literal["=>", "=="] = "=>"
    declarations: tuple[Declaration, ...] = ()
    conditions: tuple[Condition, ...] = ()
    _: KW_ONLY
    choices: tuple[Membership, ...] = ()
    doc: str = ""
    file: str = ""
    line: int = 0
    status: str = "tested"
    patterns: tuple[str, ...] | None = None
    """The typings that its proof covers (`taso_py.rules.coverage`); None without a proof."""
    limit: int | None = None
    """The largest size, and entry of an attribute, for which it is proved; None: all."""
    types: tuple[str, ...] | None = None
    """The element types of numbers for which it is proved; None: all."""
    at_site: SiteProver | None = None
    """What may prove the law again where a match is typed as no proof on record is."""
    backwards: bool = False
    """Whether it is the law read from right to left."""
    promise: str = "proved"
    """The verdict that its file promises (`taso_py.rules.promises`)."""
    overflow: str = ""
    """Where one side overflows float32 and the other does not (`taso_py.prove.trials.magnitude`); empty: nowhere."""

    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        # Caches ask for it all the time. Normal laws have one name and no place: their sides tell them apart.
        told = (self.name, self.file, self.line, self.left, self.right, self.conditions)
        object.__setattr__(self, "_hash", hash(told))

    def __hash__(self) -> int:
        return self._hash

    @property
    def id(self) -> str:
        """Content hash: the law without its name, documentation and place."""
        return _law_hash(self)

    def text(self) -> str:
        """The rule in the rule language; parsing it gives the rule back."""
        from taso_py.rules.printer import rule_text

        return rule_text(self)

    def reversed(self) -> Rule:
        """right => left, under the same clauses."""
        name = self.name.removesuffix(_REVERSED) if self.backwards else self.name + _REVERSED
        return replace(self, name=name, left=self.right, right=self.left, backwards=not self.backwards)

    def directions(self) -> tuple[Rule, ...]:
        """The rewrites that the rule stands for: one, or both for a law whose two sides bind everything."""
        if self.arrow == "=>":
            return (self,)
        return tuple(rule for rule in (self, self.reversed()) if not rule.unbound())

    def tensors_that_are(self, kind: str) -> frozenset[str]:
        """Tensors of which a predicate of this kind is demanded."""
        found = (c.variables for c in self.conditions if isinstance(c, Predicate) and c.kind == kind)
        return frozenset(v for variables in found for v in variables)

    def unbound(self) -> set[str]:
        """Names that the right side or the conditions use and matching the left side cannot bind."""
        free = set(self.right.variables() - self.left.variables())
        return free | (self._attribute_names(self.right) - self._bound_attributes())

    def _attribute_names(self, side: Side) -> set[str]:
        return {n for a in side.applications() for _, e in a.attributes for n in names_in(e)}

    def _bound_attributes(self) -> set[str]:
        bound = self._attribute_names(self.left) | {c.variable for c in self.choices}
        tensors = self.left.variables()
        for declaration in self.declarations:
            if declaration.variable in tensors:
                for axis in declaration.axes:
                    bound |= axis_names(axis)
        return bound

    def check(self) -> None:
        """Raises `RuleError` when a side uses what the rule does not bind."""
        where = f"{self.file}:{self.line}:1: rule {self.name}"
        self._check_lets(where)
        missing = self.unbound()
        if missing:
            raise RuleError(f"{where}: {', '.join(sorted(missing))} on the right is bound by nothing on the left")
        if len(self.left.outputs) != len(self.right.outputs):
            left, right = len(self.left.outputs), len(self.right.outputs)
            raise RuleError(f"{where}: {left} outputs on the left, {right} on the right")
        known = self.left.variables() | self.right.variables()
        for name, count in Counter(d.variable for d in self.declarations).items():
            if name not in known:
                raise RuleError(f"{where}: {name} is declared but not used; remove the declaration")
            if count > 1:
                raise RuleError(f"{where}: {name} is declared {count} times; one declaration says its shape")
        for c in self.conditions:
            if isinstance(c, Predicate) and not set(c.variables) <= known:
                raise RuleError(f"{where}: {c.kind} speaks of an unknown tensor")
            if isinstance(c, Comparison):
                names = names_in(c.left) | names_in(c.right)
                unknown = names - self._bound_attributes() - self._attribute_names(self.right)
                if unknown:
                    raise RuleError(f"{where}: condition on unbound {', '.join(sorted(unknown))}")

    def _check_lets(self, where: str) -> None:
        for side in (self.left, self.right):
            later = [name for name, _ in side.lets]
            for name, term in side.lets:
                if used := set(later) & Side((), (term,)).variables():
                    raise RuleError(
                        f"{where}: let {name} speaks of {min(used)}, which has no meaning before its own let"
                    )
                if later.count(name) > 1:
                    raise RuleError(f"{where}: let {name} stands there twice; give the second another name")
                later.remove(name)
            used = set(Side((), side.outputs).variables())
            for name, term in reversed(side.lets):
                if name not in used:
                    raise RuleError(f"{where}: let {name} is used by nothing; remove it")
                used |= Side((), (term,)).variables()


@lru_cache(maxsize=4096)
def _law_hash(rule: Rule) -> str:
    from taso_py.rules.printer import law_text

    return hashlib.sha256(law_text(rule).encode()).hexdigest()[:12]


def axis_names(axis: object) -> frozenset[str]:
    """Integer variables of one declared axis."""
    if isinstance(axis, Block):
        return frozenset()
    if isinstance(axis, Product):
        return frozenset().union(*(names_in(f) for f in axis.factors))
    return names_in(axis)


@dataclass(frozen=True, slots=True)
class RuleSet:
    """An ordered set of rules, told apart by content."""

    rules: tuple[Rule, ...] = ()

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __or__(self, other: RuleSet) -> RuleSet:
        return RuleSet.of([*self.rules, *other.rules])

    def __sub__(self, other: RuleSet) -> RuleSet:
        gone = {r.id for r in other}
        return RuleSet(tuple(r for r in self.rules if r.id not in gone))

    def __and__(self, other: RuleSet) -> RuleSet:
        kept = {r.id for r in other}
        return RuleSet(tuple(r for r in self.rules if r.id in kept))

    @staticmethod
    def of(rules: Iterable[Rule]) -> RuleSet:
        """The set of these rules: the first of equal ones stays; two rules of one name are an error."""
        by_id: dict[str, Rule] = {}
        by_name: dict[str, Rule] = {}
        for rule in rules:
            other = by_name.setdefault(rule.name, rule)
            if other.id != rule.id:
                raise RuleError(
                    f"{rule.file}:{rule.line}:1: a rule named {rule.name} already stands in "
                    f"{other.file}:{other.line}; choose another name"
                )
            by_id.setdefault(rule.id, rule)
        return RuleSet(tuple(by_id.values()))

    def named(self, name: str) -> Rule:
        """The rule of that name."""
        for rule in self.rules:
            if rule.name == name:
                return rule
        raise KeyError(name)

    def only(self, names: Iterable[str]) -> RuleSet:
        """The rules of these names."""
        wanted = set(names)
        return RuleSet(tuple(r for r in self.rules if r.name in wanted))

    def without(self, names: Iterable[str]) -> RuleSet:
        """All but the rules of these names."""
        gone = set(names)
        return RuleSet(tuple(r for r in self.rules if r.name not in gone))
