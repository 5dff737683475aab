"""Weaker laws: a condition or a declaration dropped or weakened, a pattern that demands less."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from scripts.audit.mutation.expressions import shifted
from scripts.audit.mutation.scope import every_name, walk
from scripts.audit.mutation.terms import freed_attributes, freed_variables
from taso_py.rules.rule import Rule, axis_names
from taso_py.rules.term import (
    Axis,
    Block,
    Comparison,
    Condition,
    Membership,
    Name,
    Predicate,
    Product,
    Quantity,
)

_WEAKER: Mapping[str, Sequence[str]] = {
    "positive": ("nonnegative", "nonzero", "constant"), "nonnegative": ("constant",), "nonzero": ("constant",),
    "number": ("constant",), "true": ("constant",), "false": ("constant",),
}  # fmt: skip
_OPPOSITE: Mapping[str, str] = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(frozen=True, slots=True)
class RuleEdit:
    """A changed rule and what kind of change it is; ``focus`` holds where the original did not apply."""

    kind: str
    rule: Rule
    focus: Comparison | None = None


def clause_variants(rule: Rule) -> Iterator[RuleEdit]:
    """Every rule that demands less in one place, or a little more."""
    yield from _conditions(rule)
    yield from _declarations(rule)
    yield from _choices(rule)
    yield from _freed(rule)


def _replaced(rule: Rule, k: int, condition: Condition) -> Rule:
    return replace(rule, conditions=(*rule.conditions[:k], condition, *rule.conditions[k + 1 :]))


def _conditions(rule: Rule) -> Iterator[RuleEdit]:
    for k, condition in enumerate(rule.conditions):
        dropped = replace(rule, conditions=(*rule.conditions[:k], *rule.conditions[k + 1 :]))
        match condition:
            case Comparison(left, relation, right):
                focus = Comparison(left, _OPPOSITE[relation], right)  # type: ignore[arg-type]
                yield RuleEdit("condition-dropped", dropped, focus)
                for weaker in _weaker(condition):
                    yield RuleEdit("condition-weakened", _replaced(rule, k, weaker), focus)
                stricter = {">=": ">", "<=": "<"}.get(relation)
                if stricter is not None:
                    changed = replace(condition, relation=stricter)  # type: ignore[arg-type]
                    yield RuleEdit("condition-strengthened", _replaced(rule, k, changed))
            case Predicate(kind):
                yield RuleEdit("condition-dropped", dropped)
                for other in _WEAKER.get(kind, ()):
                    yield RuleEdit("condition-weakened", _replaced(rule, k, replace(condition, kind=other)))
            case Membership():
                yield RuleEdit("condition-dropped", dropped)
                yield from (RuleEdit("condition-weakened", _replaced(rule, k, m)) for m in _wider(condition))


def _weaker(c: Comparison) -> Iterator[Comparison]:
    match c.relation:
        case "==":
            yield replace(c, relation=">=")
            yield replace(c, relation="<=")
        case "!=" | ">=":
            yield replace(c, relation=">=", left=shifted(c.left, 1))
        case "<=":
            yield replace(c, right=shifted(c.right, 1))
        case ">":
            yield replace(c, relation=">=")
        case "<":
            yield replace(c, relation="<=")


def _wider(member: Membership) -> Iterator[Membership]:
    known = [e.value for e in member.menu if isinstance(e, Quantity) and isinstance(e.value, int)]
    for value in sorted({v + d for v in known for d in (-1, 1)} - set(known)):
        if value > 0:
            yield replace(member, menu=(*member.menu, Quantity(value)))


def _choices(rule: Rule) -> Iterator[RuleEdit]:
    for k, choice in enumerate(rule.choices):
        for member in _wider(choice):
            changed = (*rule.choices[:k], member, *rule.choices[k + 1 :])
            yield RuleEdit("condition-weakened", replace(rule, choices=changed))


# ---- declarations ------------------------------------------------------------------------------------------------


def _declarations(rule: Rule) -> Iterator[RuleEdit]:
    fresh = _fresh(rule)
    for k, declaration in enumerate(rule.declarations):
        before, after = rule.declarations[:k], rule.declarations[k + 1 :]
        yield RuleEdit("declaration-dropped", replace(rule, declarations=(*before, *after)))
        for place, axis in enumerate(declaration.axes):
            for kind, other in _axes(axis, fresh):
                axes = (*declaration.axes[:place], other, *declaration.axes[place + 1 :])
                changed = replace(declaration, axes=axes)
                yield RuleEdit(kind, replace(rule, declarations=(*before, changed, *after)), _unequal(axis, other))


def _axes(axis: Axis, fresh: str) -> Iterator[tuple[str, Axis]]:
    """Other axes: a size that is no longer shared or known, a block that is another one, factors swapped."""
    match axis:
        case Block(_, broadcast):
            yield "declaration-weakened", Block(fresh)
            if not broadcast:
                yield "declaration-weakened", replace(axis, broadcast=True)
        case Product(factors):
            for j, k in combinations(range(len(factors)), 2):
                swapped = list(factors)
                swapped[j], swapped[k] = swapped[k], swapped[j]
                yield "packing", Product(tuple(swapped))
            yield "declaration-weakened", Name(fresh)
        case _:
            yield "declaration-weakened", Name(fresh)


def _unequal(axis: Axis, other: Axis) -> Comparison | None:
    """Where a size that was shared differs from what it was."""
    if isinstance(axis, Block | Product) or not isinstance(other, Name):
        return None
    return Comparison(other, "!=", axis)


# ---- patterns ----------------------------------------------------------------------------------------------------


def _fresh(rule: Rule) -> str:
    names = every_name(rule)
    return next(n for n in ("f", "j", "z", "fresh", *(f"f{k}" for k in range(100))) if n not in names)


def _freed(rule: Rule) -> Iterator[RuleEdit]:
    """The left side with one bond between its parts cut: a match demands less than the law needs."""
    fresh, counted = _fresh(rule), _counted(rule)
    for k, term in enumerate(rule.left.outputs):
        for edit in freed_attributes(term, fresh, counted):
            outputs = (*rule.left.outputs[:k], edit.term, *rule.left.outputs[k + 1 :])
            yield RuleEdit(edit.kind, replace(rule, left=replace(rule.left, outputs=outputs)))
        for name in sorted(rule.left.variables()):
            for edit in freed_variables(term, name, fresh):
                outputs = (*rule.left.outputs[:k], edit.term, *rule.left.outputs[k + 1 :])
                side = replace(rule.left, outputs=outputs)
                if name in side.variables():
                    yield RuleEdit(edit.kind, _declared_twice(replace(rule, left=side), name, fresh))


def _declared_twice(rule: Rule, name: str, fresh: str) -> Rule:
    """The rule with ``fresh`` declared as ``name`` is."""
    own = [replace(d, variable=fresh) for d in rule.declarations if d.variable == name]
    conditions = [
        replace(c, variables=tuple(fresh if v == name else v for v in c.variables))
        for c in rule.conditions
        if isinstance(c, Predicate) and name in c.variables
    ]
    return replace(rule, declarations=(*rule.declarations, *own), conditions=(*rule.conditions, *conditions))


def _counted(rule: Rule) -> Mapping[str, int]:
    """How often the left side and the clauses name each integer."""
    found: Counter[str] = Counter()
    for application in rule.left.applications():
        for _, expression in application.attributes:
            found.update(part.name for part in walk(expression) if isinstance(part, Name))
    for declaration in rule.declarations:
        for axis in declaration.axes:
            found.update(axis_names(axis))
    for condition in rule.conditions:
        if isinstance(condition, Comparison):
            for side in (condition.left, condition.right):
                found.update(part.name for part in walk(side) if isinstance(part, Name))
    return found
