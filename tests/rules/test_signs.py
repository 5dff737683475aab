"""What a proof may take to be never negative a match asks, or has from where nothing is: one list for both."""

from __future__ import annotations

import pytest

from taso_py.rules.parser import parse_rule
from taso_py.rules.signs import natural_names, never_negative


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
