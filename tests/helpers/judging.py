"""Provers that only pretend, and records of proofs, for tests of what is done with verdicts."""

from __future__ import annotations

import os
import time

import numpy as np

from taso_py.prove.verdict import Counterexample, Proved, Refuted, Unknown
from taso_py.prove.verify import Judgement, record
from taso_py.rules.coverage import DEFINED
from taso_py.rules.library import load_file
from taso_py.rules.location import rules_directory
from taso_py.rules.lock import Record
from taso_py.rules.rule import Rule

REFUTED = load_file(rules_directory() / "refuted.rules")
DOUBLE = "rule double: Add(x, x) => Mul(x, 2)\n"
FALSE = "rule wrong: Relu(Neg(x)) => Neg(Relu(x))\n"


def always(rule: Rule) -> Proved | Unknown:
    """A prover that believes everything."""
    return Proved(method="belief", cases=2, facts=("faith",), patterns=DEFINED)


def never(rule: Rule) -> Proved | Unknown:
    """A prover that knows nothing."""
    return Unknown("not even tried")


def strict(rule: Rule) -> Proved | Unknown:
    """Proves only rules about positive constants."""
    return always(rule) if "positive" in rule.text() else never(rule)


def moody(rule: Rule) -> Proved | Unknown:
    """Dies at one rule and hangs at another."""
    if rule.name == "double":
        os._exit(3)
    if rule.name == "wrong":
        time.sleep(600)
    return always(rule)


def full_record() -> Record:
    verdict = Proved(None, 6, "multiplicities", 3, ("exp",))
    return record(
        Judgement(verdict, "x[2, 3]; n=2", "ring", "open", False, conditions=(("n >= 1", "necessary"),), seconds=1.5)
    )


def refuted_record() -> Record:
    left, right = np.array([1.0, np.nan], np.float32), np.array([0.1, np.inf], np.float32)
    return record(Judgement(Refuted(Counterexample({"n": 2}, {"x": left}, left, right))))
