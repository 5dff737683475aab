"""Long axes for tensors whose shape a rule leaves open: wrong steps and windows show only where there is room."""

from __future__ import annotations

import numpy as np

from taso_py.rules.rule import Rule
from taso_py.rules.term import (
    Application,
    AttributeExpression,
    Binary,
    Block,
    Declaration,
    Listing,
    Product,
    Quantity,
    Term,
    Variable,
)

_LONG = (5, 7, 11, 13)
_SHORT = (1, 2, 3, 4)
_SPATIAL = ("strides", "dilations", "kernel_shape", "pads")
_WINDOWS = frozenset({"Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"})


def large(rule: Rule, random: np.random.Generator, *, cube: bool = False) -> list[Declaration]:
    """Declarations, one long shape for all, of the tensors that the rule leaves open and no operator shapes.

    The axes of a ``cube`` have equal sizes, so that an exchange of axes keeps the type.
    """
    declared = {d.variable for d in rule.declarations}
    open_ = [v for v in _plain(rule) if v not in declared]
    if not open_:
        return []
    window = next((a for a in rule.left.applications() if a.operator.onnx in _WINDOWS), None)
    if window is None and cube:
        side = Quantity(int(random.integers(2, 4)))
        axes = (side,) * int(random.integers(2, 5))
        return [Declaration(v, axes) for v in open_]
    if window is None:
        shape = [Quantity(int(d)) for d in random.choice((*_LONG, *_SHORT), int(random.integers(1, 4)))]
        return [Declaration(v, tuple(shape)) for v in open_]
    spatial = [Quantity(int(d)) for d in random.permutation(_LONG)[: _spatial(rule, random)]]
    batch = Quantity(int(random.integers(1, 3)))
    return [Declaration(v, (batch, _channels(rule, v, random), *spatial)) for v in open_]


def _plain(rule: Rule) -> list[str]:
    """Variables that only element-wise operators, joins and first operands read."""
    found: dict[str, bool] = {}

    def visit(term: Term, fits: bool) -> None:
        term = rule.left.resolve(term)
        if isinstance(term, Variable):
            found[term.name] = found.get(term.name, True) and fits
        elif isinstance(term, Application):
            for k, argument in enumerate(term.arguments):
                visit(argument, fits and (k == 0 or term.operator.pointwise or term.operator.onnx == "Concat"))

    for output in rule.left.outputs:
        visit(output, True)
    return [name for name, fits in found.items() if fits]


def _spatial(rule: Rule, random: np.random.Generator) -> int:
    """How many spatial axes the lists of the left side have, or the weights that it declares."""
    for application in rule.left.applications():
        for name, expression in application.attributes:
            if name in _SPATIAL and application.operator.onnx in _WINDOWS and isinstance(expression, Listing):
                return len(expression.items) // (2 if name == "pads" else 1)
    for declaration in rule.declarations:
        if len(declaration.axes) > 2 and not any(isinstance(a, Block) for a in declaration.axes):
            return len(declaration.axes) - 2
    return int(random.integers(1, 3))


def _channels(rule: Rule, variable: str, random: np.random.Generator) -> AttributeExpression:
    """The number of channels that declared weights want; else any with divisors."""
    for application in rule.left.applications():
        if application.operator.onnx == "Conv" and _first(rule, application) == variable:
            weight = application.arguments[1]
            axes = next((d.axes for d in rule.declarations if Variable(d.variable) == weight), ())
            channels = axes[1] if len(axes) > 1 else None
            group = dict(application.attributes).get("group", Quantity(1))
            if channels is not None and not isinstance(channels, Block | Product):
                return Binary("*", channels, group)
    return Quantity(int(random.choice((2, 4, 6))))


def _first(rule: Rule, convolution: Application) -> str:
    """The variable at the end of the first operands, unless another convolution comes before it."""
    term = rule.left.resolve(convolution.arguments[0])
    while isinstance(term, Application) and term.arguments and term.operator is not convolution.operator:
        term = rule.left.resolve(term.arguments[0])
    return term.name if isinstance(term, Variable) else ""
