"""The rules of a certificate, judged anew from their texts: nothing on record is looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from taso_py.certificate.document import Certificate, CertifiedStep, Law, Look
from taso_py.errors import CertificateError, RuleError
from taso_py.prove.trials.runs import Replay
from taso_py.prove.verdict import Proved, Refuted, Verdict
from taso_py.rules.library import stated
from taso_py.rules.lock import with_verdict
from taso_py.rules.rule import Rule

Prover = Callable[[Rule], Verdict]
"""The whole judgement of a rule: what the prover says and what drawn instances say against it."""


def judged(document: Certificate, prover: Prover | None = None) -> dict[str, Rule]:
    """The rules that the certificate states, by id, each for the typings that its proof covers.

    ``prover`` stands in for prover and drawn instances. `CertificateError` for a rule that stands there twice, a text
    that is not that of the rule with its id, and every verdict but `Proved` for all sizes.
    """
    rules = {law.id: read_law(law) for law in document.rules}
    if len(rules) != len(document.rules):
        raise CertificateError("the certificate states a rule twice")
    if prover is not None:
        return {law: _covered(rule, prover(rule)) for law, rule in rules.items()}
    with Replay() as replay:
        own = whole_judgement(replay)
        return {law: _covered(rule, own(rule)) for law, rule in rules.items()}


def whole_judgement(replay: Replay) -> Prover:
    """The prover of this installation, instances drawn anew and run in ONNX Runtime, and small ones written out.

    `CertificateError` for a law that some small instance contradicts, be it one that the proof's claim leaves out.
    """
    from taso_py.prove.prover import prove
    from taso_py.prove.verify import decided

    def judge(rule: Rule) -> Verdict:
        verdict = decided(rule, prove, replay)[0]
        if isinstance(verdict, Proved):
            _demand_small_instances(rule)
        return verdict

    return judge


def _demand_small_instances(rule: Rule) -> None:
    from taso_py.prove.expansion.judge import Budget, exhaustive

    for directed in rule.directions():
        found = exhaustive(directed, budget=Budget(runs=1500, drawn=300, elements=15_000, work=40_000))
        if found.refuted:
            against = found.contradictions[0]
            raise CertificateError(f"rule {rule.name} ({rule.id}) is false: {against}")


def require_used(document: Certificate) -> None:
    """`CertificateError` unless the rules are those that the steps use, in the order in which they do."""
    used = dict.fromkeys(use.id for step in document.steps for use in _uses(step))
    for law in document.rules:
        if law.id not in used:
            raise CertificateError(f"rule {law.name} of the file is used by no step")
    if [law.id for law in document.rules] != list(used):
        raise CertificateError("the rules of the certificate stand in another order than that of their first uses")


def _uses(step: CertifiedStep) -> tuple[CertifiedStep | Look, ...]:
    return (step, *step.looks)


def read_law(law: Law) -> Rule:
    """The rule that a certificate states; `CertificateError` unless its text is that of the rule with that id."""
    try:
        rules = stated(law.text, f"rule {law.name}")
    except RuleError as error:
        raise CertificateError(f"rule {law.name} of the file cannot be read: {error}") from None
    if len(rules) != 1 or rules[0].name != law.name:
        raise CertificateError(f"rule {law.name} of the file has the text of something else")
    if rules[0].id != law.id:
        raise CertificateError(f"rule {law.name} of the file is not the one with id {law.id}: it was altered")
    if rules[0].text() != law.text:
        raise CertificateError(f"rule {law.name} of the file is not written as it was: it was altered")
    return rules[0]


def _covered(rule: Rule, verdict: Verdict) -> Rule:
    """The rule as its verdict admits it, stamped as for a search."""
    from taso_py.prove.sites import SiteProofs
    from taso_py.prove.verify import Judgement, in_words, record

    if isinstance(verdict, Proved) and verdict.limit is None:
        # Where a match is typed as the proof was not, the law is proved again there: nothing remembered is believed.
        return replace(with_verdict(rule, record(Judgement(verdict))), at_site=SiteProofs())
    if isinstance(verdict, Proved):
        why = f"proved up to size {verdict.limit} only"
    elif isinstance(verdict, Refuted):
        why = f"false: {verdict.counterexample}"
    else:
        why = in_words(verdict)
    raise CertificateError(f"rule {rule.name} ({rule.id}) is {why}")
