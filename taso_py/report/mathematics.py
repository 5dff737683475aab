"""Laws as mathematics: sums, products and functions instead of the names of operators.

Matrices are multiplied by writing them side by side, elements by ⊙, and ∗ is a convolution.  What is regrouped keeps
its parentheses.
Attributes of convolutions, which both sides share, are left out; the rule's own text has everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from taso_py.rules.printer import condition_text, declaration_text, expression_text
from taso_py.rules.rule import Rule
from taso_py.rules.term import Application, Scalar, Side, Term, Variable

_SUM, _PRODUCT, _TIGHT, _ATOM = 1, 2, 3, 4
"""How strongly what stands there holds together."""
_INFIX = {
    "Add": (" + ", _SUM),
    "Sub": (" − ", _SUM),
    "Mul": (" ⊙ ", _PRODUCT),
    "Div": (" / ", _PRODUCT),
    "MatMul": (" ", _TIGHT),
}
_FUNCTIONS = {"Sqrt": "√", "Exp": "exp", "Log": "ln", "Relu": "relu", "Sigmoid": "σ", "Tanh": "tanh", "Erf": "erf"}


def law_in_mathematics(rule: Rule, *, backwards: bool = False) -> tuple[str, ...]:
    """The law as it is applied, ``x w + y w ⟶ (x + y) w``, and its clauses: ``for all x[m, k]``, ``where ...``."""
    sides = [_side(rule.left), _side(rule.right)]
    parts = [" ⟶ ".join(reversed(sides) if backwards else sides)]
    if rule.declarations:
        parts.append("for all " + ", ".join(map(declaration_text, rule.declarations)))
    conditions = [condition_text(condition) for condition in (*rule.conditions, *rule.choices)]
    return (*parts, f"where {', '.join(conditions)}") if conditions else tuple(parts)


def _side(side: Side) -> str:
    lets = "".join(f"{name} = {_term(term, 0)}; " for name, term in side.lets)
    outputs = [_term(term, 0) for term in side.outputs]
    return lets + (outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})")


def _term(term: Term, level: int) -> str:
    match term:
        case Variable(name):
            return name
        case Scalar(value):
            text = f"{value:g}".replace("-", "−")
            return f"({text})" if value < 0 and level else text
        case Application():
            text, own = _application(term)
            return f"({text})" if own < level else text


def _application(term: Application) -> tuple[str, int]:
    name, arguments = term.operator.onnx, term.arguments
    if name in _INFIX and len(arguments) == 2:
        sign, own = _INFIX[name]
        return f"{_term(arguments[0], own)}{sign}{_term(arguments[1], own + 1)}", own
    if (special := _SPECIAL.get(name)) is not None:
        return special(term)
    inner = [_term(a, 0) for a in arguments] + [f"{k}={expression_text(v)}" for k, v in term.attributes]
    if name == "Sqrt" and len(arguments) == 1:
        return f"√{_term(arguments[0], _ATOM)}", _ATOM
    return f"{_FUNCTIONS.get(name, name)}({', '.join(inner)})", _ATOM


def _convolution(term: Application) -> tuple[str, int]:
    product = f"{_term(term.arguments[0], _ATOM)} ∗ {_term(term.arguments[1], _ATOM)}"
    if len(term.arguments) < 3:
        return product, _TIGHT
    return f"{product} + {_term(term.arguments[2], _PRODUCT)}", _SUM


def _negative(term: Application) -> tuple[str, int]:
    return f"−{_term(term.arguments[0], _TIGHT)}", _SUM


def _reciprocal(term: Application) -> tuple[str, int]:
    return f"1 / {_term(term.arguments[0], _TIGHT)}", _PRODUCT


def _absolute(term: Application) -> tuple[str, int]:
    return f"|{_term(term.arguments[0], 0)}|", _ATOM


_SPECIAL: Mapping[str, Callable[[Application], tuple[str, int]]] = {
    "Conv": _convolution,
    "Neg": _negative,
    "Reciprocal": _reciprocal,
    "Abs": _absolute,
}
