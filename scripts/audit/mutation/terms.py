"""Wrong terms: every small change of a side of a rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations

from scripts.audit.mutation.expressions import attribute_variants
from scripts.audit.mutation.scope import FAMILY, LISTS, Scope
from taso_py.ops import OPERATORS
from taso_py.rules.term import (
    Application,
    AttributeExpression,
    Listing,
    Name,
    Quantity,
    Scalar,
    Side,
    Term,
    Variable,
)

_CHANGED: Mapping[str, Sequence[str]] = {
    "Add": ("Sub", "Mul", "Max"), "Sub": ("Add",), "Mul": ("Add", "Div"), "Div": ("Mul",), "Max": ("Min", "Add"),
    "Min": ("Max", "Mul"), "MatMul": ("Mul", "Add"), "Gemm": ("MatMul",), "Concat": ("Add", "Max"),
    "ReduceSum": ("ReduceMean", "ReduceMax"), "ReduceMean": ("ReduceSum", "ReduceMax"),
    "ReduceMax": ("ReduceMin", "ReduceMean"), "ReduceMin": ("ReduceMax", "ReduceMean"),
    "MaxPool": ("AveragePool",), "AveragePool": ("MaxPool",), "GlobalAveragePool": ("GlobalMaxPool",),
    "GlobalMaxPool": ("GlobalAveragePool",), "Sigmoid": ("Tanh",), "Tanh": ("Sigmoid",), "Relu": ("Abs", "LeakyRelu"),
    "LeakyRelu": ("Relu", "Elu"), "Neg": ("Abs", "Reciprocal"), "Abs": ("Neg", "Relu"), "Exp": ("Softplus",),
    "Sqrt": ("Abs",), "Log": ("Sqrt",), "Reciprocal": ("Neg",), "Softmax": ("LogSoftmax",), "LogSoftmax": ("Softmax",),
    "Softplus": ("Relu",), "Mish": ("HardSwish",), "HardSwish": ("Mish",), "Clip": ("Relu", "Identity"),
    "Squeeze": ("Unsqueeze",), "Unsqueeze": ("Squeeze",), "DepthToSpace": ("SpaceToDepth",),
    "SpaceToDepth": ("DepthToSpace",), "RMSNormalization": ("LayerNormalization",), "Pow": ("Identity",),
    "Identity": ("Neg",), "Expand": ("Reshape",), "Reshape": ("Expand",), "Eye": (), "Fill": (),
}  # fmt: skip
_OPTIONAL: Mapping[str, int] = {"Conv": 2, "ConvTranspose": 2, "Gemm": 2, "LayerNormalization": 2}
"""The last operand of these may be left out; how many must stay."""
_BINARY = frozenset({"Add", "Sub", "Mul", "Div", "Max", "Min", "Concat", "MatMul", "Where"})
_LEFT_OUT: Mapping[str, tuple[str, int]] = {
    "AveragePool": ("count_include_pad", 1), "ReduceSum": ("keepdims", 0), "ReduceMean": ("keepdims", 0),
    "ReduceMax": ("keepdims", 0), "Conv": ("group", 2), "Gemm": ("transB", 1),
}  # fmt: skip
"""Attributes that are given another value where the rule leaves them to their default."""


@dataclass(frozen=True, slots=True)
class TermEdit:
    """A changed term and what kind of change it is."""

    kind: str
    term: Term


@dataclass(frozen=True, slots=True)
class SideEdit:
    """A changed side and what kind of change it is."""

    kind: str
    side: Side


def side_variants(side: Side, scope: Scope) -> Iterator[SideEdit]:
    """Every side that differs in one place."""
    variables = sorted(side.variables())
    for k, (name, term) in enumerate(side.lets):
        for edit in term_variants(term, scope, variables):
            lets = (*side.lets[:k], (name, edit.term), *side.lets[k + 1 :])
            yield SideEdit(edit.kind, replace(side, lets=lets))
    for k, term in enumerate(side.outputs):
        for edit in term_variants(term, scope, [*variables, *side.names]):
            yield SideEdit(edit.kind, replace(side, outputs=(*side.outputs[:k], edit.term, *side.outputs[k + 1 :])))
    for j, k in combinations(range(len(side.outputs)), 2):
        swapped = list(side.outputs)
        swapped[j], swapped[k] = swapped[k], swapped[j]
        yield SideEdit("outputs", replace(side, outputs=tuple(swapped)))


def term_variants(term: Term, scope: Scope, variables: Sequence[str]) -> Iterator[TermEdit]:
    """Every term that differs in one place."""
    match term:
        case Variable(name):
            yield from (TermEdit("variable", Variable(other)) for other in variables if other != name)
        case Scalar(value):
            near = dict.fromkeys((0.0, 1.0, value + 1, -value))
            yield from (TermEdit("constant", Scalar(v)) for v in near if v != value and v >= 0)
        case Application():
            yield from _here(term)
            yield from _attributes(term, scope)
            for k, argument in enumerate(term.arguments):
                for edit in term_variants(argument, scope, variables):
                    yield TermEdit(edit.kind, _with(term, k, edit.term))


def _with(term: Application, k: int, argument: Term) -> Application:
    return replace(term, arguments=(*term.arguments[:k], argument, *term.arguments[k + 1 :]))


def _here(term: Application) -> Iterator[TermEdit]:
    """Changes of the operator itself and of the order and number of its operands."""
    name, arguments = term.operator.onnx, term.arguments
    if not (term.operator.commutative and len(arguments) == 2):
        for j, k in combinations(range(len(arguments)), 2):
            if arguments[j] != arguments[k] and (name in _BINARY or k == j + 1):
                yield TermEdit("operands", _with(_with(term, j, arguments[k]), k, arguments[j]))
    if name in _OPTIONAL and len(arguments) > _OPTIONAL[name]:
        yield TermEdit("dropped-operand", replace(term, arguments=arguments[:-1]))
    if name in _BINARY:
        yield from (TermEdit("dropped-operand", a) for a in dict.fromkeys(arguments))
    elif arguments:
        yield TermEdit("dropped-operator", arguments[0])
    for other in _CHANGED.get(name, ()):
        yield TermEdit("operator", _renamed(term, other))


def _renamed(term: Application, other: str) -> Application:
    operator = OPERATORS[other]
    known = {f.name for f in fields(operator)}
    return Application(operator, term.arguments, tuple((k, v) for k, v in term.attributes if k in known))


def _attributes(term: Application, scope: Scope) -> Iterator[TermEdit]:
    for k, (name, expression) in enumerate(term.attributes):
        before, after = term.attributes[:k], term.attributes[k + 1 :]
        for kind, changed in attribute_variants(name, expression, scope):
            if changed is None:
                yield TermEdit(kind, replace(term, attributes=(*before, *after)))
            elif changed != expression:
                yield TermEdit(kind, replace(term, attributes=(*before, (name, changed), *after)))
    yield from _swapped(term)
    absent = _LEFT_OUT.get(term.operator.onnx)
    if absent is not None and absent[0] not in dict(term.attributes):
        name, value = absent
        yield TermEdit(FAMILY[name], replace(term, attributes=(*term.attributes, (name, Quantity(value)))))


def _swapped(term: Application) -> Iterator[TermEdit]:
    """The values of two list attributes exchanged: starts and ends, strides and dilations."""
    values = dict(term.attributes)
    for a, b, kind in (("starts", "ends", "cut"), ("strides", "dilations", "stride"), ("alpha", "beta", "constant")):
        if a in values and b in values and values[a] != values[b]:
            swapped: dict[str, AttributeExpression] = {**values, a: values[b], b: values[a]}
            yield TermEdit(kind, replace(term, attributes=tuple(swapped.items())))


def freed_attributes(term: Term, fresh: str, counted: Mapping[str, int]) -> Iterator[TermEdit]:
    """The term with one attribute no longer bound to what else names it, or no longer fixed to a value.

    On a left side this weakens what a match demands.  ``counted`` says how often a name occurs.
    """
    if not isinstance(term, Application):
        return
    for k, (name, expression) in enumerate(term.attributes):
        for value in _freed(expression, fresh, counted):
            freed = (*term.attributes[:k], (name, value), *term.attributes[k + 1 :])
            yield TermEdit("attribute-freed", replace(term, attributes=freed))
    absent = [f.name for f in fields(term.operator) if f.name not in dict(term.attributes)]
    for name in absent:
        if name in LISTS or name in ("group", "count_include_pad", "keepdims", "alpha", "beta", "transA", "transB"):
            yield TermEdit("attribute-freed", replace(term, attributes=(*term.attributes, (name, Name(fresh)))))
    for k, argument in enumerate(term.arguments):
        for edit in freed_attributes(argument, fresh, counted):
            yield TermEdit(edit.kind, _with(term, k, edit.term))


def _freed(expression: AttributeExpression, fresh: str, counted: Mapping[str, int]) -> Iterator[AttributeExpression]:
    if not isinstance(expression, Name) or counted.get(expression.name, 0) > 1:
        yield Name(fresh)
    if isinstance(expression, Listing):
        for k, item in enumerate(expression.items):
            if isinstance(item, Quantity) or (isinstance(item, Name) and counted.get(item.name, 0) > 1):
                yield Listing((*expression.items[:k], Name(fresh), *expression.items[k + 1 :]))


def freed_variables(term: Term, name: str, fresh: str) -> Iterator[TermEdit]:
    """The term with one occurrence of the variable ``name`` called ``fresh``."""
    if term == Variable(name):
        yield TermEdit("variable-freed", Variable(fresh))
    elif isinstance(term, Application):
        for k, argument in enumerate(term.arguments):
            for edit in freed_variables(argument, name, fresh):
                yield TermEdit(edit.kind, _with(term, k, edit.term))
