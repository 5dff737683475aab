"""The rules that ship as the generator wrote them: what follows from them, and what must not."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

from taso_py.generate.kept.derive import Rules, derivable
from taso_py.rules.library import GENERATED, load_file
from taso_py.rules.library import load as load_library
from taso_py.rules.location import rules_directory
from taso_py.rules.rule import Rule, RuleSet

GOALS = Path(__file__).parents[1] / "goals" / "named.rules"
REFUTED_STATES = 40
"""Enough for all named laws, and there are many false ones."""


@lru_cache(maxsize=1)
def generated() -> RuleSet:
    return load_file(rules_directory() / GENERATED)


@lru_cache(maxsize=1)
def index() -> Rules:
    return Rules.of(generated())


def test_every_rule_is_proved_for_all_sizes() -> None:
    library = load_library([rules_directory() / GENERATED])
    assert len(library.search) == len(generated()) > 0
    assert {rule.status for rule in library.search} == {"proved"}


def test_there_are_many_laws_with_names() -> None:
    assert len(load_file(GOALS)) >= 30


@pytest.mark.parametrize("law", list(load_file(GOALS)), ids=lambda law: law.name)
def test_a_law_with_a_name_follows(law: Rule) -> None:
    assert derivable(law, index())


def single_outputs() -> list[Rule]:
    """False laws; those that are false only because their sides differ in type have no false instance."""
    refuted = load_file(rules_directory() / "refuted.rules")
    return [law for law in refuted if len(law.left.outputs) == 1 and not law.name.startswith("mistyped")]


@pytest.mark.parametrize("part", range(8))
def test_no_false_law_follows(part: int) -> None:
    wrong = [law.name for law in single_outputs()[part::8] if derivable(law, index(), states=REFUTED_STATES)]
    assert not wrong
