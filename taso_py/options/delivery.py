"""What only the command line has: which files it reads and writes beside its arguments, and what it prints."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from taso_py.gate import SIZE, SPEEDUP
from taso_py.options.field import OptionRecord, Range, declared, option, record, reworded
from taso_py.options.gate import merged, parse_gate, require_conditions
from taso_py.options.text import demand, require_file

if TYPE_CHECKING:
    from taso_py.options import Options

REPORT_SUFFIXES = (".json", ".md", ".html")


def _demand_report(report: Path | None) -> None:
    demand(
        report is None or report.suffix.lower() in REPORT_SUFFIXES,
        f"--report {report}: the name must end in {', '.join(REPORT_SUFFIXES)}",
    )


@record
class Display(OptionRecord):
    """How a command prints its result."""

    as_json: bool = option("--json", False, "Print one JSON object instead of text.", group="Output")


@record
class EpsDelivery(Display):
    """What `superopt eps` does with providers."""

    test: str | None = option(
        "--test",
        None,
        "Hold this provider to what superopt relies on, float32 arithmetic included; exit code 1 if it fails.",
        metavar="NAME",
        group="Check",
        per_run=True,
        completes="providers",
    )


@record
class DiffDelivery(Display):
    """Where the comparison of `superopt diff` goes."""

    report: Path | None = option(
        "--report", None, "Also write a report: .json, .md or .html.", metavar="FILE", group="Output", per_run=True
    )
    force: bool = option("--force", False, "Overwrite the report.", group="Output", per_run=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        _demand_report(self.report)


@record
class VerboseDisplay(Display):
    """The same, with lines on stderr while a command works."""

    verbosity: int = option("-v --verbose", 0, "More lines on stderr; -vv for even more.", count=True, group="Output")


@record
class VerifyDisplay(VerboseDisplay):
    """How `superopt verify` tells of rules."""

    verbosity: int = reworded(VerboseDisplay, "verbosity", "One line per rule that is proved.")


@record
class ShowOptions(Display):
    """What `superopt rules show` shows."""

    obligations: bool = option(
        "--obligations",
        False,
        "Prove it again and list what had to be shown, and by what; exit code 1 if not proved.",
        variable=False,
        group="Proof",
        per_run=True,
    )


@record
class DeriveGoals(OptionRecord):
    """The laws that `superopt rules derive` is asked about."""

    goals: tuple[Path, ...] = option(
        "--goal",
        (),
        "Laws to be derived: a rule file, or TASO's shipped substitutions as JSON (repeatable).",
        metavar="FILE",
        required=True,
        group="Rules",
        per_run=True,
    )


@record
class GenerateDelivery(VerboseDisplay):
    """Where the rules of `superopt generate` go, and what is said of them."""

    output: Path = option("-o --output", Path("generated.rules"), "The rule file.", group="Output", per_run=True)
    show_unknown: bool = option(
        "--show-unknown", False, "List the laws that are neither proved nor refuted, and why.", group="Output"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_file("--output", self.output)


@record
class ModelDelivery(OptionRecord):
    """Where a rewritten model goes."""

    output: Path | None = option(
        "-o --output",
        None,
        "Model to write; default: STEM.superopt.onnx beside MODEL.",
        metavar="OUT",
        group="Output",
        per_run=True,
    )
    certificate: Path | None = option(
        "--certificate",
        None,
        "Also write every step to the result, for superopt certify.",
        metavar="FILE",
        group="Output",
        per_run=True,
    )
    dry_run: bool = option("--dry-run", False, "Write no model.", group="Output", per_run=True)
    force: bool = option(
        "--force",
        False,
        "Overwrite what is written: OUT, and the files named beside it.",
        group="Output",
        per_run=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_file("--output", self.output)
        require_file("--certificate", self.certificate)
        demand(
            not (self.dry_run and self.certificate),
            "--certificate speaks of the model that is written: drop --dry-run or --certificate",
        )

    @property
    def summary(self) -> Path | None:
        """A file that something is appended to; none here."""
        return None

    def target(self, model: Path) -> Path:
        """The file to write: ``--output``, or ``<stem>.superopt.onnx`` beside MODEL."""
        return self.output or model.parent / f"{model.stem}.superopt.onnx"

    def beside(self) -> dict[str, Path]:
        """The other files, by the options that name them."""
        return {} if self.certificate is None else {"--certificate": self.certificate}


@record
class ApplyDelivery(ModelDelivery, Display):
    """Where the result of `superopt apply` goes."""


@record
class Delivery(ModelDelivery, VerboseDisplay):
    """Where the result of `superopt optimize` goes and what it must reach."""

    report: Path | None = option(
        "--report", None, "Also write a report: .json, .md or .html.", metavar="FILE", group="Output", per_run=True
    )
    record: Path | None = option(
        "--record",
        None,
        "Also write what was decided, for superopt apply: the same without timing.",
        metavar="FILE",
        group="Output",
        per_run=True,
    )
    min_speedup: float | None = option(
        "--min-speedup",
        None,
        "Exit with 6 unless at least X times faster, by the lower bound; 7: too noisy to say, 8: not decided.",
        metavar="X",
        within=Range(above=0),
        group="Pipeline",
    )
    gate: Mapping[str, float] = option(
        "--gate",
        MappingProxyType({}),
        "Conditions on the result: min-speedup, max-rel-error, max-size (of the files, relative to MODEL's); exit "
        "codes as for --min-speedup.",
        metavar="NAME=X,...",
        parse=parse_gate,
        group="Pipeline",
    )
    junit: Path | None = option(
        "--junit",
        None,
        "Also write the gate as JUnit XML, one test case for each condition.",
        metavar="FILE.xml",
        group="Pipeline",
        per_run=True,
    )
    github_summary: bool = option(
        "--github-summary",
        False,
        "Append the report to the file that GITHUB_STEP_SUMMARY names.",
        group="Pipeline",
        per_run=True,
    )
    quiet: bool = option("-q --quiet", False, "Only the final sentence and warnings.", group="Output")

    def __post_init__(self) -> None:
        super().__post_init__()
        _demand_report(self.report)
        demand(
            self.junit is None or self.junit.suffix.lower() == ".xml",
            f"--junit {self.junit}: the name must end in .xml",
        )
        demand(not (self.quiet and self.verbosity), "-q and -v exclude each other: keep one")
        require_conditions(self.gate)
        sized = SIZE in self.conditions  # which refuses a contradiction
        demand(
            not (self.dry_run and sized),
            f"{SIZE} is about the model that is written: drop --dry-run or {SIZE}",
        )

    @property
    def conditions(self) -> Mapping[str, float]:
        """What the result must reach, by the names of `taso_py.gate`."""
        return merged(self.gate, self.min_speedup)

    @property
    def summary(self) -> Path | None:
        """The file of GitHub's step summary, where one is asked for."""
        name = os.environ.get("GITHUB_STEP_SUMMARY")
        return Path(name) if self.github_summary and name else None

    @property
    def more_than_model(self) -> str | None:
        """The first option given that only a search can answer: it asks for figures or for the way to the model."""
        known = {"output", "as_json", "verbosity", "quiet", "dry_run", "force"}
        asked = (one for one in declared(type(self)) if one.name not in known)
        return next((one.flag.name for one in asked if getattr(self, one.name) != one.default), None)

    def beside(self) -> dict[str, Path]:
        """The other files, by the options that name them."""
        named = {"--report": self.report, **super().beside(), "--record": self.record, "--junit": self.junit}
        return {name: file for name, file in named.items() if file is not None}

    def require_compatible(self, options: Options) -> None:
        """Raise UsageError where a demand on the result cannot be decided, or what is asked for not be written."""
        demand(
            options.race or SPEEDUP not in self.conditions,
            "--min-speedup, which --gate may ask for too, needs the race: drop --no-race or the condition",
        )
        demand(
            options.error_budget is None or self.record is None,
            "--record holds proved steps alone, which do not lead to an approximation: drop it or --error-budget",
        )
        demand(
            not self.github_summary or self.summary is not None,
            "--github-summary: GITHUB_STEP_SUMMARY is not set, as GitHub does in every step: drop it elsewhere",
        )
