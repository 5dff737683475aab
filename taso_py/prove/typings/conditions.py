"""Conditions that a law lacks: what its right side needs, in the words of the rule language."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from taso_py.graph.sizes import Size, Symbol
from taso_py.rules.alpha import in_own_names
from taso_py.rules.rule import Rule
from taso_py.rules.term import AttributeExpression, Binary, Comparison, Name, Quantity


def condition(size: Size, named: Container[str]) -> Comparison | None:
    """``size >= 0``; None where it speaks of other sizes than those that the rule names."""
    if isinstance(size, int):
        return None
    least = 0
    left: list[AttributeExpression] = []
    right: list[AttributeExpression] = []
    for monomial, coefficient in size.terms:
        if not all(isinstance(a, Symbol) and a in named for a in monomial):
            return None
        if not monomial:
            least -= coefficient
            continue
        term: AttributeExpression = Name(str(monomial[0]))
        for atom in monomial[1:]:
            term = Binary("*", term, Name(str(atom)))
        if abs(coefficient) != 1:
            term = Binary("*", Quantity(abs(coefficient)), term)
        (left if coefficient > 0 else right).append(term)
    if not left:
        return None
    bound = _sum([*right, *([Quantity(least)] if least > 0 or not right else [])])
    return Comparison(_sum([*left, *([Quantity(-least)] if least < 0 and right else [])]), ">=", bound)


def _sum(terms: list[AttributeExpression]) -> AttributeExpression:
    total = terms[0]
    for term in terms[1:]:
        total = Binary("+", total, term)
    return total


def stated(rule: Rule, missing: Comparison) -> Rule:
    """The rule with a condition more, which is given under the names of its normal law."""
    return replace(rule, conditions=(*rule.conditions, in_own_names(rule, missing)))
