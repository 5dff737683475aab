"""Every law of the corpus of false laws loads, or is rejected on purpose, and its instance shows that it is false."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from taso_py.errors import RuleError
from taso_py.prove.prover import prove
from taso_py.prove.verdict import Proved, Unknown
from taso_py.rules.coverage import DEFINED
from taso_py.rules.parser import parse_rule
from tests.helpers.false_laws import FalseLaw, NoInstance, claim_includes, difference, differs, files, read_laws
from tests.helpers.refused import RECORD, at_sites, judged_again


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_every_law_is_false_at_its_instance(path: Path) -> None:
    wrong: list[str] = []
    for law in read_laws(path):
        place = f"{law.file}:{law.line}: {law.name}"
        try:
            rule = law.rule
        except RuleError as error:
            if not law.load_error:
                wrong.append(f"{place} does not load: {error}")
            continue
        if law.load_error:
            wrong.append(f"{place} loads")
            continue
        try:
            if not difference(rule, law.instance):
                wrong.append(f"{place} holds at its instance")
        except NoInstance as error:
            if not law.no_match:
                wrong.append(f"{place}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_no_claim_includes_a_false_instance(path: Path) -> None:
    laws = judged_again([law for law in read_laws(path) if not law.load_error])
    wrong = [law for law in laws if claim_includes(*at_sites(law.rule), law.instance)]
    assert not wrong, "\n".join(f"{law.file}:{law.line}: {law.name}" for law in wrong)


def test_what_another_prover_refused_is_judged_again(tmp_path: Path) -> None:
    laws = [law for law in read_laws(files()[0]) if not law.load_error]
    record = tmp_path / "refused.json"
    record.write_text('{"prover": "another", "claimed": []}')
    assert judged_again(laws, record) == laws
    record.write_text(json.dumps({**json.loads(RECORD.read_text()), "claimed": [laws[1].name]}))
    assert {laws[0].name, laws[1].name} <= {law.name for law in judged_again(laws, record)}


LARGE = read_laws(next(path for path in files() if path.stem == "third_bounded"))
BOUNDED = {
    *("bo-stride", "bo-dilation", "bo-step", "bo-tile", "bo-block", "bo-stride-nine", "bo-average-stride"),
    *("bo-conv-stride", "bo-two-strides", "bo-transposed-stride", "bo-pool-pads-dilated", "bo-global-stride"),
}
"""Some of those that hold up to a size, so that there are claims to be looked at."""


@pytest.mark.parametrize("law", LARGE, ids=lambda law: law.name)
def test_no_bounded_claim_includes_a_false_instance(law: FalseLaw) -> None:
    """What is tried up to a size is tried for attributes up to it: the instances have larger ones."""
    verdict = prove(law.rule)
    assert not claim_includes(law.rule, verdict, law.instance)
    assert law.name not in BOUNDED or (isinstance(verdict, Proved) and verdict.limit is not None)


def test_there_are_bounded_claims_to_be_looked_at() -> None:
    assert {law.name for law in LARGE} > BOUNDED


def test_laws_are_told_apart() -> None:
    laws = [law for path in files() for law in read_laws(path)]
    assert laws
    assert all(law.corner for law in laws)
    assert [name for name, count in Counter(law.name for law in laws).items() if count > 1] == []
    ids = Counter(law.rule.id for law in laws if not law.load_error)
    assert [law.name for law in laws if not law.load_error and ids[law.rule.id] > 1] == []


LEAK = "rule leak: Relu(LeakyRelu(x, alpha=a)) => Relu(x)"
NEGATIVE = {"x": {"shape": [3], "values": "negative"}, "a": -0.5}


def test_a_claim_includes_what_its_rule_rewrites_wrongly() -> None:
    rule, harmless = parse_rule(LEAK), {**NEGATIVE, "a": 0.5}
    everything = Proved(patterns=DEFINED)
    assert claim_includes(replace(rule, patterns=DEFINED), None, NEGATIVE)
    assert not claim_includes(rule, None, NEGATIVE)
    assert claim_includes(rule, everything, NEGATIVE)
    assert not claim_includes(rule, everything, harmless)
    assert not claim_includes(replace(rule, at_site=None), Proved(), NEGATIVE)
    assert not claim_includes(rule, Unknown("not proved"), NEGATIVE)


def test_a_bounded_claim_does_not_include_larger_instances() -> None:
    rule = parse_rule(LEAK)
    assert claim_includes(rule, Proved(limit=3, patterns=DEFINED), NEGATIVE)
    assert not claim_includes(rule, Proved(limit=2, patterns=DEFINED), NEGATIVE)
    assert not claim_includes(rule, Proved(ranks=0, patterns=DEFINED), NEGATIVE)


def test_a_condition_excludes_an_instance() -> None:
    rule = parse_rule(LEAK + " when a >= 0")
    with pytest.raises(NoInstance):
        difference(rule, NEGATIVE)
    assert not claim_includes(rule, None, NEGATIVE)


def test_what_differs() -> None:
    number, nan = np.array([1.0], np.float32), np.array([np.nan], np.float32)
    assert differs(number, nan)
    assert not differs(nan, number)
    assert not differs(number, number + np.float32(1e-6))
    assert differs(number, number.astype(np.float64))
    assert differs(np.array([1e6, 1.0], np.float32), np.array([1e6, 20.0], np.float32))
