"""What the names of a rule stand for, and what its attributes are about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from taso_py.rules.rule import Rule, axis_names
from taso_py.rules.term import AttributeExpression, Binary, Block, Call, Listing, Name, Rank, names_in

FAMILY: Mapping[str, str] = {
    "axis": "axis", "axes": "axis", "starts": "cut", "ends": "cut", "split": "cut", "steps": "stride",
    "strides": "stride", "pads": "pad", "output_padding": "pad", "dilations": "dilation", "group": "group",
    "kernel_shape": "window", "scales": "window", "sizes": "window", "repeats": "window", "blocksize": "window",
    "shape": "packing", "perm": "packing", "size": "packing", "indices": "index", "indices_shape": "index",
    "keepdims": "keepdims", "count_include_pad": "count_include_pad", "transA": "transposed", "transB": "transposed",
    "alpha": "constant", "beta": "constant", "gamma": "constant", "min": "constant", "max": "constant",
    "value": "constant", "exponent": "constant", "epsilon": "constant",
}  # fmt: skip
"""Attributes by what a change of them is called; all others are modes."""
LISTS = frozenset({
    "axes", "starts", "ends", "split", "steps", "strides", "pads", "output_padding", "dilations", "kernel_shape",
    "scales", "sizes", "repeats", "shape", "perm", "indices", "indices_shape",
})  # fmt: skip
FLAGS = frozenset({"keepdims", "count_include_pad", "transA", "transB"})
FLOATS = frozenset(name for name, family in FAMILY.items() if family == "constant")
_OF_LISTS = frozenset({"compose", "inverse", "plus", "sort", "least", "sum"})


@dataclass(slots=True)
class Scope:
    """The names of a rule by kind, in the order in which they occur."""

    sizes: dict[str, None] = field(default_factory=dict)
    lists: dict[str, None] = field(default_factory=dict)
    floats: dict[str, None] = field(default_factory=dict)
    others: dict[str, None] = field(default_factory=dict)

    @staticmethod
    def of(rule: Rule) -> Scope:
        """The scope of a rule."""
        found = Scope()
        for side in (rule.left, rule.right):
            for application in side.applications():
                for name, expression in application.attributes:
                    found._attribute(name, expression)
        for declaration in rule.declarations:
            for axis in declaration.axes:
                found.sizes.update(dict.fromkeys(sorted(axis_names(axis))))
        return found

    def _attribute(self, name: str, expression: AttributeExpression) -> None:
        if isinstance(expression, Name):
            kind = self.lists if name in LISTS else self.floats if name in FLOATS else None
            if kind is None:
                kind = self.sizes if name in FAMILY and name not in FLAGS else self.others
            kind[expression.name] = None
            return
        for part in walk(expression):
            if isinstance(part, Call) and part.function in _OF_LISTS:
                self.lists.update(dict.fromkeys(a.name for a in part.arguments if isinstance(a, Name)))
            if isinstance(part, Call) and part.function == "at" and isinstance(part.arguments[0], Name):
                self.lists[part.arguments[0].name] = None
        rest = sorted(names_in(expression) - self.lists.keys())
        (self.floats if name in FLOATS else self.sizes).update(dict.fromkeys(rest))


def walk(expression: AttributeExpression) -> Iterator[AttributeExpression]:
    """The expression and all its parts."""
    yield expression
    match expression:
        case Binary(_, left, right):
            yield from walk(left)
            yield from walk(right)
        case Call(_, arguments):
            for argument in arguments:
                yield from walk(argument)
        case Listing(items):
            for item in items:
                if not isinstance(item, Block):
                    yield from walk(item)


def every_name(rule: Rule) -> set[str]:
    """Every name that the rule uses, of tensors, numbers and blocks alike."""
    found = rule.left.variables() | rule.right.variables() | set(rule.left.names) | set(rule.right.names)
    for side in (rule.left, rule.right):
        for application in side.applications():
            for _, expression in application.attributes:
                found |= names_in(expression) | _blocks(expression)
    for declaration in rule.declarations:
        for axis in declaration.axes:
            found |= {axis.name} if isinstance(axis, Block) else axis_names(axis)
    return found | {c.variable for c in rule.choices}


def _blocks(expression: AttributeExpression) -> set[str]:
    found: set[str] = set()
    for part in walk(expression):
        if isinstance(part, Rank):
            found.add(part.block)
        elif isinstance(part, Listing):
            found |= {i.name for i in part.items if isinstance(i, Block)}
    return found
