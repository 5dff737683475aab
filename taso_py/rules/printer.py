"""Printing rules; the inverse of the parser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from taso_py.graph.sizes import Size
from taso_py.rules.term import (
    Application,
    AttributeExpression,
    Axis,
    Binary,
    Block,
    Call,
    Comparison,
    Condition,
    Declaration,
    Listing,
    Membership,
    Name,
    Product,
    Quantity,
    Rank,
    Scalar,
    Side,
    Term,
    Variable,
)

if TYPE_CHECKING:
    from taso_py.rules.rule import Rule

_LEVEL = {"+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "%": 2}


def rule_text(rule: Rule) -> str:
    """The whole rule, name and documentation included."""
    doc = f' "{rule.doc}"' if rule.doc else ""
    return f"rule {rule.name}{doc}:\n{law_text(rule)}\n"


def law_text(rule: Rule) -> str:
    """The law alone: sides and clauses."""
    lines = [f"  {side_text(rule.left)}", f"  {rule.arrow} {side_text(rule.right)}"]
    if rule.declarations:
        lines.append("  for " + ", ".join(map(declaration_text, rule.declarations)))
    if rule.conditions:
        lines.append("  when " + ", ".join(map(condition_text, rule.conditions)))
    if rule.choices:
        lines.append("  choose " + ", ".join(map(condition_text, rule.choices)))
    return "\n".join(lines)


def side_text(side: Side) -> str:
    """One side, local names first."""
    lets = "".join(f"let {name} = {term_text(term)} in " for name, term in side.lets)
    return lets + ", ".join(map(term_text, side.outputs))


def term_text(term: Term) -> str:
    """A term in function notation."""
    match term:
        case Variable(name):
            return name
        case Scalar(value):
            return _number(float(value))
        case Application(operator, arguments, attributes):
            inner = [term_text(a) for a in arguments]
            inner += [f"{k}={expression_text(v)}" for k, v in attributes]
            return f"{operator.onnx}({', '.join(inner)})"


def _number(value: float) -> str:
    text = repr(value)
    return text.replace("e+", "e")


def expression_text(expression: AttributeExpression, level: int = 0) -> str:
    """An attribute expression, with the parentheses it needs."""
    match expression:
        case Quantity(value):
            if isinstance(value, str):
                return f'"{value}"'
            return _number(value) if isinstance(value, float) else str(value)
        case Name(name):
            return name
        case Rank(block):
            return f"rank({block})"
        case Call("neg", (argument,)):
            return f"-{expression_text(argument, 3)}"
        case Call(function, arguments):
            return f"{function}({', '.join(map(expression_text, arguments))})"
        case Listing(items):
            return "[" + ", ".join(axis_text(i) for i in items) + "]"
        case Binary(operation, left, right):
            own = _LEVEL[operation]
            text = f"{expression_text(left, own)} {operation} {expression_text(right, own + 1)}"
            return f"({text})" if own < level else text


def axis_text(axis: Axis) -> str:
    """One declared axis."""
    match axis:
        case Block(name, broadcast):
            return ("~" if broadcast else "*") + name
        case Product(factors):
            return "(" + " ".join(expression_text(f, 3) for f in factors) + ")"
        case _:
            return expression_text(axis)


def declaration_text(declaration: Declaration) -> str:
    """x[axes]."""
    return f"{declaration.variable}[{', '.join(map(axis_text, declaration.axes))}]"


def condition_text(condition: Condition) -> str:
    """A condition or a choice."""
    match condition:
        case Comparison(left, relation, right):
            return f"{expression_text(left)} {relation} {expression_text(right)}"
        case Membership(variable, menu):
            return f"{variable} in [{', '.join(map(expression_text, menu))}]"
        case _:
            inner = [*condition.variables, *(_number(a) for a in condition.arguments)]
            return f"{condition.kind}({', '.join(inner)})"


def stated(attributes: Mapping[str, Any], blocks: Mapping[str, tuple[Size, ...]]) -> list[tuple[str, Any]]:
    """Sizes, attributes and blocks as rules write them, in order."""
    return sorted([*attributes.items(), *((f"*{name}", dims) for name, dims in blocks.items())])
