"""The laws that the audit mutates, and laws given without their names."""

from __future__ import annotations

from scripts.audit.mutation.mutants import laws
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule

LAWS = {law.name: law for law in laws()}


def law(text: str) -> Rule:
    """A law given without its name."""
    return parse_rule(f"rule law:\n{text}")
