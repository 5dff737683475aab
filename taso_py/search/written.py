"""Families of laws that have one name: no rule says them all, so each is written where it stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from taso_py.rules.rule import Rule
from taso_py.search.contraction import EINSUM, einsum_matcher, einsum_sample
from taso_py.search.matcher import Matcher
from taso_py.search.rearrangement import REARRANGEMENT, rearrangement_matcher, rearrangement_sample
from taso_py.search.slopes import ONE_SLOPE, slope_matcher, slope_sample
from taso_py.search.view import View


@dataclass(frozen=True, slots=True)
class Family:
    """Laws of one name."""

    name: str
    sample: Callable[[], Rule]
    """The one that stands for all in the library."""
    at: Callable[[View, int], Matcher | None]
    """The law of what stands at a value; None where nothing is to be said of it."""


FAMILIES = (
    Family(EINSUM, einsum_sample, einsum_matcher),
    Family(REARRANGEMENT, rearrangement_sample, rearrangement_matcher),
    Family(ONE_SLOPE, slope_sample, slope_matcher),
)


def family_of(rule: Rule) -> Family | None:
    """The family that a rule of the library stands for: a law of the user's own may have its name."""
    return next((f for f in FAMILIES if rule.name == f.name and rule.id == f.sample().id), None)
