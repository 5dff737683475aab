"""What a conformance run found, as JSON and Markdown."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from scripts.audit.conformance_run import Outcome
from taso_py.onnx_io.load import load
from taso_py.ops import OPERATORS
from taso_py.rules.library import load as load_rules

REVERSED = "-reversed"


@dataclass(frozen=True, slots=True)
class ZooShare:
    """How much of one model is understood."""

    model: str
    nodes: int
    opaque: dict[str, int]

    @property
    def share(self) -> float:
        """Non-opaque nodes over nodes."""
        return 1 - sum(self.opaque.values()) / max(1, self.nodes)


def zoo_share(path: Path) -> ZooShare:
    """The share of one model file; weights stay where they are."""
    loaded = load(path)
    return ZooShare(path.name, len(loaded.proto.graph.node), dict(loaded.opaque))


@dataclass(frozen=True)
class Summary:
    """The outcomes of a run, counted."""

    outcomes: Sequence[Outcome]
    zoo: Sequence[ZooShare]
    seconds: float

    @cached_property
    def failures(self) -> list[Outcome]:
        """Everything that is neither ok nor beyond ONNX Runtime."""
        return [o for o in self.outcomes if o.verdict not in ("ok", "skipped")]

    @cached_property
    def skipped(self) -> Counter[str]:
        """Why cases were left out -> how many."""
        first = {o.case: o.detail for o in self.outcomes if o.verdict == "skipped"}
        return Counter(detail.split(" with name")[0][:120] for detail in first.values())

    def table(self) -> list[tuple[str, ...]]:
        """Per kind and mode: cases run, left out, failed, rewritten, compared on the test's own inputs."""
        rows = []
        for kind, mode in sorted({(o.kind, o.mode) for o in self.outcomes}):
            here = [o for o in self.outcomes if (o.kind, o.mode) == (kind, mode)]
            counts = (
                sum(o.verdict != "skipped" for o in here),
                sum(o.verdict == "skipped" for o in here),
                sum(o in self.failures for o in here),
                sum(bool(o.rules) for o in here),
                sum(o.compared for o in here),
            )
            rows.append((kind, mode, *map(str, counts)))
        return rows

    @cached_property
    def deviations(self) -> dict[str, str]:
        """Cases whose original has other values than its test stores: ONNX Runtime's own deviations."""
        return {o.case: o.deviation for o in self.outcomes if o.deviation}

    @cached_property
    def rewritten(self) -> int:
        """Cases with at least one rewrite by a rule, in any mode."""
        return len({o.case for o in self.outcomes if o.mode != "respell" and o.rules})

    @cached_property
    def cases(self) -> int:
        """Cases that ran in some mode."""
        return len({o.case for o in self.outcomes if o.verdict != "skipped"})

    def rules(self) -> dict[str, dict[str, Any]]:
        """Each rule: its sites per kind of case, and one case where it fired."""
        found: dict[str, dict[str, Any]] = {r.name: {"sites": Counter(), "case": ""} for r in load_rules().all()}
        for outcome in self.outcomes:
            for name, sites in outcome.rules.items() if outcome.mode not in ("respell", "again") else ():
                entry = found.get(name) or found.get(name.removesuffix(REVERSED))
                if entry is not None:
                    entry["sites"][outcome.kind] += sites
                    entry["case"] = entry["case"] or f"{outcome.case} ({outcome.mode})"
        return found

    def silent_rules(self) -> list[str]:
        """Rules that fired on no model."""
        return [name for name, entry in self.rules().items() if not entry["sites"]]

    def opaque_operators(self) -> dict[str, list[str]]:
        """Operators that we have a class for -> the cases in which a node of it is opaque."""
        found: dict[str, set[str]] = {}
        for outcome in self.outcomes:
            for op_type in outcome.opaque:
                if op_type in OPERATORS:
                    found.setdefault(op_type, set()).add(outcome.case)
        return {op_type: sorted(cases) for op_type, cases in sorted(found.items())}

    def line(self) -> str:
        """The run in one sentence."""
        kinds = Counter(o.verdict for o in self.failures)
        failed = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "no failures"
        return (
            f"{self.cases} cases, {len(self.outcomes)} runs, {self.rewritten} cases rewritten, {failed}, "
            f"{len(self.deviations)} deviations of ONNX Runtime itself, "
            f"{len(self.silent_rules())} rules fired nowhere, {self.seconds:.0f} s"
        )


def write(summary: Summary, folder: Path) -> None:
    """report.json and report.md in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(json.dumps(_document(summary), indent=1))
    (folder / "report.md").write_text("\n".join(_lines(summary)) + "\n")


def _document(summary: Summary) -> dict[str, Any]:
    return {
        "summary": summary.line(),
        "seconds": round(summary.seconds),
        "cases": summary.cases,
        "rewritten": summary.rewritten,
        "failures": [dataclasses.asdict(o) for o in summary.failures],
        "deviations": summary.deviations,
        "skipped": dict(summary.skipped),
        "rules": summary.rules(),
        "silent_rules": summary.silent_rules(),
        "opaque_operators": summary.opaque_operators(),
        "zoo": [dataclasses.asdict(z) | {"share": z.share} for z in summary.zoo],
        "outcomes": [dataclasses.asdict(o) for o in summary.outcomes],
    }


def _lines(summary: Summary) -> list[str]:
    lines = ["# Conformance", "", summary.line(), "", "## Failures", ""]
    lines += [f"- `{o.case}` ({o.mode}): {o.verdict}: {o.detail}" for o in summary.failures] or ["none"]
    lines += ["", "## Cases", ""]
    lines += _table(("kind", "mode", "run", "left out", "failed", "rewritten", "compared"), summary.table())
    lines += ["", "Left out, because ONNX Runtime does not load or run the original:", ""]
    lines += [f"- {count}: {why}" for why, count in summary.skipped.most_common()]
    lines += ["", "ONNX Runtime's own deviations, the optimiser off, from what the tests store:", ""]
    lines += [f"- `{case}`: {what}" for case, what in sorted(summary.deviations.items())] or ["none"]
    lines += ["", "## Rules", ""]
    rows = []
    for name, entry in summary.rules().items():
        sites = ", ".join(f"{kind} {count}" for kind, count in sorted(entry["sites"].items()))
        rows.append((name, sites or "**nowhere**", entry["case"]))
    lines += _table(("rule", "sites", "for example"), rows)
    lines += ["", "## Operators with a class that were opaque somewhere", ""]
    opaque = [(t, str(len(cases)), ", ".join(cases[:4])) for t, cases in summary.opaque_operators().items()]
    lines += _table(("operator", "cases", "for example"), opaque)
    lines += ["", "## Zoo", ""]
    zoo = [(z.model, str(z.nodes), f"{z.share:.1%}", _counts(z.opaque)) for z in summary.zoo]
    return lines + _table(("model", "nodes", "understood", "opaque"), zoo)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    rule = "|".join("---" for _ in head)
    return [f"| {' | '.join(head)} |", f"|{rule}|", *(f"| {' | '.join(row)} |" for row in rows)]


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
