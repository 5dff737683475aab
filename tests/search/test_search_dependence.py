"""Values that depend on each other are not matched together, and nothing that could be rewritten is lost by that."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from scripts.bench.networks.graph import GraphWriter
from taso_py.onnx_io.load import load
from taso_py.rules.library import load as load_library
from taso_py.rules.parser import parse_rules
from taso_py.search.dependence import joins
from taso_py.search.matcher import Matcher
from taso_py.search.rewriter import rewrite
from taso_py.search.view import View
from tests.helpers.graphs import rewriter, view_of

SIZE = 4
RULE = "matmul-shared-weight"


def layers(count: int, operand: int | np.random.Generator) -> View:
    """Products with one weight, of values that are drawn, no two of one, or each of that so many products before."""
    graph = GraphWriter("layers")
    weight = graph.weight("weight", np.eye(SIZE, dtype=np.float32) + 0.5)
    values = [graph.input(f"x{k}", (2, SIZE)) for k in range(3)]
    left = list(values)
    for k in range(count):
        value = values[-operand] if isinstance(operand, int) else left.pop(int(operand.integers(0, len(left))))
        values.append(graph.op("Tanh", f"state{k}", graph.op("MatMul", f"product{k}", value, weight)))
        left.append(values[-1])
    loaded = load(graph.model(dict.fromkeys(values[3:], (2, SIZE))))
    return view_of(loaded, rewriter(None, RULE)[1])


def products(view: View) -> list[int]:
    return [v for v, node in view.table.nodes.items() if node.operator.onnx == "MatMul"]


@pytest.mark.parametrize("seed", range(20))
def test_what_can_be_rewritten_is_found(seed: int) -> None:
    view = layers(14, np.random.default_rng(seed))
    rule = Matcher(load_library().search.named(RULE))
    pairs = {p for p in permutations(products(view), 2) if any(rewrite(view, m) for m in rule.matches_on(view, p))}
    found = {m.outputs for v in products(view) for m in rule.matches_at(view, v)}
    assert found == pairs


def test_steps_of_a_recurrence_are_not_matched() -> None:
    view = layers(40, 1)
    rule = Matcher(load_library().search.named(RULE))
    first, last = products(view)[0], products(view)[-1]
    assert list(rule.matches_on(view, (first, last)))  # tried, it would be built and then close a cycle
    assert not [m for v in products(view) for m in rule.matches_at(view, v)]


LAWS = """
rule one-output: Neg(Neg(x)) => x
rule reads-all: Exp(x), Exp(y) => let z = Exp(Concat(x, y, axis=0)) in
  Slice(z, axes=[0], starts=[0], ends=[m], steps=[1]), Slice(z, axes=[0], starts=[m], ends=[m + n], steps=[1])
  for x[m], y[n]
rule reads-its-own: Exp(x), Exp(y) => Abs(Exp(x)), Exp(Add(x, y)) for x[m], y[m]
rule part-of-another: Exp(Tanh(x)), Tanh(x) => Exp(Neg(x)), Abs(x)
"""


def test_which_rules_join() -> None:
    assert [r.name for r in parse_rules(LAWS) if joins(r)] == ["reads-all"]
    assert joins(load_library().search.named(RULE))
