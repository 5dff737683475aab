"""Applying matches at once: what they make of each other is a table without circles, or none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from taso_py.graph.table import Node, Table, Values
from taso_py.graph.types import TensorType
from taso_py.ops.elementwise import Add, Neg
from taso_py.rules.coverage import DEFINED
from taso_py.rules.parser import parse_rule
from taso_py.search.canonical import nothing
from taso_py.search.matcher import Match, matcher
from taso_py.search.rewriter import rewrite, rewrite_all
from taso_py.search.view import View

TYPE = TensorType("float32", (2, 3))
SWAP = "rule swap: Add(Add(x, y), z) => Add(Add(x, z), y) for x[*s], y[*s], z[*s]"
TURN = "rule turn: Add(Add(x, y), z) => Add(Add(y, z), x) for x[*s], y[*s], z[*s]"
ORDERS = {SWAP: ((0, 1, 2), (0, 2, 1)), TURN: ((0, 1, 2), (1, 2, 0), (2, 0, 1))}


def no_constant(value: int, nodes: object) -> np.ndarray:
    raise AssertionError(f"nothing is constant, {value} neither")


def sums(law: str) -> tuple[View, list[Match]]:
    """Sums of the same three inputs that the law makes of each other in a circle, each with a reader; its matches."""
    values = Values()
    inputs = [values.new(TYPE) for _ in range(3)]
    values.inputs.update(inputs)
    nodes: dict[int, Node] = {}

    def made(operator: object, *operands: int) -> int:
        node = Node(operator, operands)
        value = values.intern(node, TYPE)
        nodes[value] = node
        return value

    placed = [tuple(inputs[k] for k in order) for order in ORDERS[law]]
    outputs = [made(Add(), made(Add(), x, y), z) for x, y, z in placed]
    roots = tuple(made(Neg(), output) for output in outputs)
    view = View.of(Table(values, nodes, roots, roots, 17), nothing, no_constant)
    compiled = matcher(replace(parse_rule(law), patterns=DEFINED))
    wanted = [dict(zip("xyz", operands, strict=True)) for operands in placed]
    found = [
        next(m for m in compiled.matches_on(view, (output,)) if m.binding.tensors == given)
        for output, given in zip(outputs, wanted, strict=True)
    ]
    return view, found


@pytest.mark.parametrize("law", ORDERS)
def test_values_that_replace_each_other_in_a_circle_are_not_rewritten(law: str) -> None:
    view, found = sums(law)
    assert rewrite_all(view, found) is None
    assert rewrite_all(view, found[::-1]) is None


@pytest.mark.parametrize("law", ORDERS)
def test_a_chain_of_values_that_replace_each_other_ends_at_its_last(law: str) -> None:
    view, found = sums(law)
    step = rewrite_all(view, found[:-1])
    assert step is not None
    (last,) = found[-1].outputs
    assert {node.inputs for node in step.table.nodes.values() if node.operator == Neg()} == {(last,)}
    assert rewrite(view, found[0]) is not None
