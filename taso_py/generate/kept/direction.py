"""Rules as the generator keeps them: in a direction that can be matched, named after their law, in one order."""

from __future__ import annotations

from dataclasses import replace

from taso_py.errors import RuleError
from taso_py.rules.rule import Rule
from taso_py.rules.term import Application, AttributeExpression, Axis, Binary, Listing, Name, Product, Side


def directed(rule: Rule) -> Rule | None:
    """The rule as a law where both sides bind everything, else in the direction that can be matched; None: neither."""
    if all(_matchable(s) for s in (rule.left, rule.right)):
        both = (rule, rule.reversed())
        options = [rule] if not any(r.unbound() for r in both) and all(map(_plain, both)) else []
    else:
        options = []
    options += [replace(r, arrow="=>", name=rule.name) for r in (rule, rule.reversed())]
    for option in options:
        try:
            option.check()
        except RuleError:
            continue
        if _matchable(option.left) and _plain(option):
            return option
    return None


def sized(rule: Rule) -> bool:
    """Whether the sizes of all constants are sizes of variables: what has only numbers beside it says little."""
    known = {n for d in rule.declarations for axis in d.axes for n in _names(axis)}
    constants = [a for side in (rule.left, rule.right) for a in side.applications() if not a.arguments]
    lists = [e for a in constants for _, e in a.attributes]
    return all(_names(i) <= known for e in lists for i in (e.items if isinstance(e, Listing) else (e,)))


def _plain(rule: Rule) -> bool:
    """Whether matching binds every name of the left side: it stands somewhere alone, or is what a sum has besides."""
    attributes = [e for a in rule.left.applications() for _, e in a.attributes]
    axes = [axis for d in rule.declarations for axis in d.axes if d.variable in rule.left.variables()]
    items = [i for e in attributes for i in (e.items if isinstance(e, Listing) else (e,))]
    bound = {i.name for i in (*items, *axes) if isinstance(i, Name)}
    bound |= {name for axis in axes if isinstance(axis, Product) for name in _names(axis)}
    for sum_ in (a for a in axes if isinstance(a, Binary)):
        rest = _summands(sum_) - bound
        bound |= rest if len(rest) == 1 else set()
    return all(_names(e) <= bound for e in (*items, *axes) if isinstance(e, Binary))


def _summands(axis: AttributeExpression | Axis) -> set[str]:
    """The names of a sum of names; none for anything else."""
    if isinstance(axis, Name):
        return {axis.name}
    if isinstance(axis, Binary) and axis.operation == "+":
        left, right = _summands(axis.left), _summands(axis.right)
        return left | right if left and right and not left & right else set()
    return set()


def _names(expression: AttributeExpression | Axis) -> set[str]:
    if isinstance(expression, Binary):
        return _names(expression.left) | _names(expression.right)
    if isinstance(expression, Product):
        return set[str]().union(*map(_names, expression.factors))
    return {expression.name} if isinstance(expression, Name) else set()


def _matchable(side: Side) -> bool:
    return all(isinstance(t, Application) for t in side.outputs) and bool(side.variables())


def named(rule: Rule) -> Rule:
    """The rule under a name that depends on its law alone: its operators and the beginning of its identity."""
    operators = [a.operator.onnx.lower() for a in rule.left.applications()]
    return replace(rule, name="-".join([*operators[:3], rule.id[:8]]))


def complexity(rule: Rule) -> tuple[int, int, str]:
    """What rules are ordered by: operators, tensors, text."""
    sides = (rule.left, rule.right)
    tensors = len(rule.left.variables())
    return sum(len(set(s.applications())) for s in sides), tensors, rule.text()
