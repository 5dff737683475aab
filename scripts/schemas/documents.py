"""Every JSON that the program writes, field by field.

What is written from a dataclass has the fields of that dataclass; what is put together by hand is a TypedDict here, and
the tests hold every JSON that they see to its schema, so that neither can drift from what is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, get_type_hints

from pydantic import WithJsonSchema
from typing_extensions import TypedDict

from scripts.schemas.derive import Document, Fields, fields_of
from scripts.schemas.providers import of_providers
from taso_py.backend.timing import BenchRow
from taso_py.certificate import document as certificate
from taso_py.check.report import BudgetReport, CheckReport
from taso_py.cli import outcome
from taso_py.cost.cache import CacheStats
from taso_py.generate.job import Figures
from taso_py.prove import verify
from taso_py.prove.kernel.obligations import Obligation
from taso_py.report import (
    application,
    benchmark,
    certification,
    changes,
    comparison,
    derivation,
    generation,
    measurements,
    proofs,
    ranking,
    rules,
    settings,
    standing,
)  # fmt: skip
from taso_py.result import INSPECTION_SCHEMA, JSON_FIELDS, SCHEMA, Inspection, Result
from taso_py.rules.lock import Outcome
from taso_py.run.candidates import REJECTION_SCHEMA

Number = Annotated[float, WithJsonSchema({"type": "number"})]
"""One that is always finite."""

ProofRecord = TypedDict(
    "ProofRecord",
    {
        "verdict": Outcome,
        "why": NotRequired[str],
        "limit": NotRequired[int],
        "ranks": NotRequired[int],
        "method": NotRequired[str],
        "cases": NotRequired[int],
        "facts": NotRequired[tuple[str, ...]],
        "class": NotRequired[str],
        "nan": NotRequired[str],
        "bitwise": NotRequired[bool],
        "conditions": NotRequired[tuple[tuple[str, str], ...]],
        "patterns": NotRequired[tuple[str, ...]],
        "witness": NotRequired[str],
        "counterexample": NotRequired[Mapping[str, Any]],
        "types": NotRequired[tuple[str, ...]],
        "overflow": NotRequired[str],
        "reason": NotRequired[str],
    },
)
"""`taso_py.rules.lock.Record` as it writes itself: only what says something."""


class JudgedRule(ProofRecord):
    """One rule with its verdict: what the record says stands beside the rule's own facts."""

    name: str
    id: str
    file: str
    line: int
    expected: str
    as_expected: bool
    status: str
    seconds: Number
    recorded: bool


class Counts(TypedDict):
    """Rules by verdict."""

    all_sizes: int
    bounded: int
    refuted: int
    unknown: int


class Difference(TypedDict):
    """A verdict made now that is not the one on record."""

    file: str
    name: str
    parts: list[str]
    recorded: ProofRecord | None
    made: ProofRecord | None


class ShownRule(TypedDict):
    """A rule, and what is on record of it."""

    name: str
    id: str
    status: str
    file: str
    line: int
    conditions: list[str]
    text: str
    proof: ProofRecord | None


class Typing(TypedDict):
    """What had to be shown of one typing of a rule."""

    typing: str
    obligations: list[Obligation]


class RuleId(TypedDict):
    """A rule by name and id."""

    name: str
    id: str


class Gains(TypedDict):
    """What one rule gains: shares of a model's time, and their sum."""

    rule: str
    total: Number
    gains: Mapping[str, Number]


class Undecided(TypedDict):
    """A law that is neither proved nor refuted, and why."""

    law: str
    why: str


class Applied(TypedDict):
    """A rule, and the places where it was applied, by the numbers of their outputs."""

    rule: str
    sites: list[list[int]]


class Values(TypedDict):
    """An array."""

    type: str
    shape: NotRequired[list[int]]
    values: Any


class ComparedModel(TypedDict):
    """One of two models, by its main graph; types are as in ``float32[batch,3]``, empty where nothing is known."""

    path: str
    nodes: int
    parameters: int
    parameter_bytes: int
    opsets: dict[str, int]
    inputs: dict[str, str]
    outputs: dict[str, str]


class ComparedNode(TypedDict):
    """A node; ``captured`` are the outer values that its subgraphs read, ``types`` those of all it reads and makes."""

    name: str
    operator: str
    inputs: list[str]
    captured: list[str]
    outputs: list[str]
    attributes: dict[str, str]
    types: dict[str, str]


class ComparedSide(TypedDict):
    """The nodes of a place in one model, what they read from outside and what is read of them there."""

    nodes: list[ComparedNode]
    inputs: list[str]
    outputs: list[str]


class ComparedPlace(TypedDict):
    """A place that differs; places of one ``form`` are alike, ``ends`` are pairs of names of values that stay."""

    form: int
    before: ComparedSide
    after: ComparedSide
    ends: list[tuple[str, str]]


class TimedModel(TypedDict):
    """Stands for the row of a model; its fields are those of `BenchRow` and ``path``."""


def documents() -> tuple[Document, ...]:
    """Each with its name and version."""
    return (
        *(*_of_results(), *_of_models(), *_of_files(), *_of_rules(), *_of_discoveries(), *_of_certificates()),
        *of_providers(),
        *_of_the_command_line(),
    )


def _of_results() -> tuple[Document, ...]:
    return (
        Document(
            SCHEMA,
            "superopt optimize: the outcome of one optimisation.",
            {"superopt_version": str, **fields_of(Result, JSON_FIELDS)},
            record=Result,
        ),
        Document(
            standing.SCHEMA,
            "superopt optimize, where the result is there already: no search was made.",
            {
                **dict.fromkeys(("input", "output", "output_sha256"), str),
                "current": bool,
                "provenance": Mapping[str, str],
            },
        ),
        Document(
            application.SCHEMA,
            "superopt apply: what became of decisions on a model.",
            {**fields_of(application.Application, application.FIELDS), "rules": list[RuleId]},
            record=application.Application,
        ),
    )


def _of_the_command_line() -> tuple[Document, ...]:
    return (
        Document(
            outcome.SCHEMA,
            "Any command with --json that ends without a result of its own: the error.",
            {"superopt_version": str, "error": str, "code": str, "kind": str, "exit_code": int},
        ),
        Document(
            settings.SCHEMA,
            "superopt config: the settings that count, and where they come from.",
            {"file": str | None, "settings": list[settings.Effective]},
        ),
    )


def _of_models() -> tuple[Document, ...]:
    return (
        Document(
            benchmark.SCHEMA,
            "superopt bench: latencies of models, and how many times faster than the first each is.",
            {
                **fields_of(benchmark.Benchmark, ("rounds", "threads", "ep", "shapes", "stop_reason")),
                "models": list[TimedModel],
            },
            parts={"TimedModel": {**fields_of(BenchRow), "path": str, "budget": BudgetReport | None}},
        ),
        Document(
            comparison.SCHEMA,
            "superopt check: whether two models compute the same.",
            {"first": str, "second": str, **fields_of(CheckReport, comparison.FIELDS)},
            record=CheckReport,
        ),
        Document(
            changes.SCHEMA,
            "superopt diff: what differs between two models.",
            {
                "first": ComparedModel,
                "second": ComparedModel,
                "same": bool,
                "unchanged": int,
                "operators": dict[str, tuple[int, int]],
                "regions": list[ComparedPlace],
            },
        ),
        Document(INSPECTION_SCHEMA, "superopt inspect: what a model consists of.", fields_of(Inspection), Inspection),
        Document(
            measurements.SCHEMA,
            "superopt cache show: the database of measured regions and of searches.",
            fields_of(CacheStats) | {"path": str, "oldest": str | None, "newest": str | None},
        ),
    )


def _of_rules() -> tuple[Document, ...]:
    obligations: Fields = {"obligations": NotRequired[list[Typing]]}
    return (
        Document(
            proofs.SCHEMA,
            "superopt verify: the verdict on every rule; differences with --anew alone.",
            {
                "as_expected": bool,
                "seconds": Number,
                "counts": Counts,
                "differences": NotRequired[list[Difference]],
                "rules": list[JudgedRule],
            },
        ),
        Document(rules.LIST_SCHEMA, "superopt rules list: every rule.", {"rules": list[ShownRule]}),
        Document(
            rules.RULE_SCHEMA,
            "superopt rules show: one rule; obligations with --obligations alone.",
            {**get_type_hints(ShownRule), **obligations},
        ),
    )


def _of_files() -> tuple[Document, ...]:
    return (
        Document(
            REJECTION_SCHEMA,
            "what.json beside the reproduction of a rewrite that changed values.",
            {"rule": str, "reason": str | None, "case": str | None, "trace": list[Applied]},
        ),
        Document(
            verify.DISAGREEMENT_SCHEMA,
            "superopt-disagreement-ID.json: a proof that an instance contradicts, a bug of superopt.",
            {
                **dict.fromkeys(("rule", "id", "place", "difference", "why"), str),
                "proof": Mapping[str, Any],
                "attributes": Mapping[str, str],
                "inputs": Mapping[str, Values],
                "left": Values,
                "right": Values,
            },
        ),
    )


def _of_discoveries() -> tuple[Document, ...]:
    return (
        Document(
            derivation.SCHEMA,
            "superopt rules derive: which laws follow from other rules.",
            {"derived": Mapping[str, bool]},
        ),
        Document(
            ranking.SCHEMA,
            "superopt rules rank: which rules pay by themselves.",
            {"models": list[str], "tried": int, "rules": list[Gains]},
        ),
        Document(
            generation.SCHEMA,
            "superopt generate: what was discovered.",
            {
                "output": str | None,
                "rules": int,
                **fields_of(Figures),
                "seconds": Number,
                "undecided": list[Undecided],
            },
        ),
    )


def _of_certificates() -> tuple[Document, ...]:
    names, stated = ("original", "optimised", "certificate"), fields_of(certificate.Certificate)
    figures: Fields = dict.fromkeys(("steps", "places", "weights", "largest_ulp", "inputs"), int | None)
    return (
        Document(
            certification.SCHEMA,
            "superopt certify: whether a certificate leads from the original to the optimised model.",
            {
                **dict.fromkeys(names, str),
                "holds": bool,
                "reason": str | None,
                "unproved": list[str] | None,
                **figures,
                "same_file": bool | None,
                "rules": list[RuleId] | None,
            },
        ),
        Document(
            certificate.SCHEMA,
            "The file of --certificate: every step from the original to the optimised model.",
            {**stated, "unproved": NotRequired[stated["unproved"]], "sha256": str},
        ),
        Document(
            certificate.DECISIONS_SCHEMA,
            "The file of --record: what was decided, for superopt apply.",
            fields_of(certificate.Decisions),
            certificate.Decisions,
        ),
    )
