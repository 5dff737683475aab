"""Nodes are the same where only what is written more than once differs."""

from __future__ import annotations

from scripts.audit.same_nodes import with_one_name
from tests.helpers.graphs import model

TWICE = """agraph (float[3] x) => (float[3] y) {{
  p = Constant<value_float = 1.0>() q = Constant<value_float = {}>()
  a = {op} b = {op} c = Add(x, p) d = Add(x, q) e = Sub(a, b) f = Sub(c, d) y = Add(e, f) }}"""


def kinds(number: float, op: str) -> list[str]:
    return sorted(node.op_type for node in with_one_name(model(TWICE.format(number, op=op)).graph))


def test_equal_nodes_count_once_but_not_what_draws_numbers() -> None:
    assert kinds(1.0, "Neg(x)") == ["Add", "Add", "Neg", "Sub", "Sub"]
    assert kinds(2.0, "Neg(x)") == ["Add", "Add", "Add", "Neg", "Sub", "Sub"]
    assert kinds(1.0, "RandomUniformLike(x)").count("RandomUniformLike") == 2
