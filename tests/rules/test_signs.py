"""What a proof may take to be never negative a match asks, or has from where nothing is: one list for both."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from taso_py.graph.types import TensorType
from taso_py.rules.build import NotBuildable, operator_of
from taso_py.rules.parser import parse_rule
from taso_py.rules.signs import natural_names, never_negative
from taso_py.rules.term import Application
from taso_py.rules.unify import Binding


@pytest.mark.parametrize(
    ("law", "asked", "natural"),
    [
        ("Pad(x, pads=[g, 0]) => x for x[n]", "", "n"),
        ("Pad(x, pads=[g, 0]) => x for x[n] when g >= 0", "", "g n"),
        ("Pad(x, pads=[g, 0]) => x for x[n] when g >= -1", "", "n"),
        ("Pad(x, pads=[g, 0]) => x for x[g + c]", "c g", "c g"),
        ("Pad(x, pads=[g, 0]) => x for x[n] when g in [g]", "", "n"),
        ("Pad(x, pads=[g, 0]) => x for x[n] when g in [-1, 2]", "", "n"),
        ("Pad(x, pads=[g, 0]) => x for x[g + c] when g in [g, 5]", "c g", "c g"),
        ("LeakyRelu(x, alpha=a) => x for x[n] when a >= 0.5", "", "n"),
        ("LeakyRelu(x, alpha=a) => x for x[2 * a]", "a", "a"),
        ("Slice(x, axes=[0], starts=[b], ends=[e]) => x for x[n] when e == b + 1", "b e", "b e n"),
    ],
)
def test_who_is_asked_and_who_may_be_relied_on(law: str, asked: str, natural: str) -> None:
    rule = parse_rule(f"rule r: {law}")
    assert natural_names(rule) == set(asked.split())
    assert never_negative(rule) == set(natural.split())


def test_what_is_relied_on_is_asked_or_never_negative_by_itself() -> None:
    rule = parse_rule("rule r: Pad(LeakyRelu(x, alpha=g), pads=[g, 0]) => x for x[g + c] when h in [h, 3]")
    assert never_negative(rule) - natural_names(rule) == set()


@pytest.mark.parametrize(("value", "built"), [(1, True), (0, True), (-1, False)])
def test_no_position_that_a_name_stands_for_counts_from_the_end(value: int, built: bool) -> None:
    (term,) = parse_rule("rule r: Slice(x, axes=[0], starts=[g], ends=[2], steps=[1]) => x for x[n]").left.outputs
    assert isinstance(term, Application)
    with nullcontext() if built else pytest.raises(NotBuildable, match="from the end"):
        operator_of(term, (TensorType("float32", (3,)),), Binding(names={"g": value}), "float32")
