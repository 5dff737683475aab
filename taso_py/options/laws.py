"""What a user may ask about rules themselves: to prove, to derive and to discover them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from taso_py.options.field import OptionRecord, Range, option, record
from taso_py.options.spelling import spelled, spelled_on
from taso_py.options.text import demand, parse_names, parse_rules

Executor = Literal["processes", "ray"]


@record
class OnlyOptions(OptionRecord):
    """A choice of rules by name."""

    only: tuple[str, ...] = option(
        "--only", (), "Only this rule (repeatable).", metavar="NAME", group="Rules", completes="rules"
    )


@record
class VerifyOptions(OnlyOptions):
    """The options of `verify`."""

    fresh: bool = option(
        "--fresh", False, "Prove everything again, whatever is on record.", group="Proof", per_run=True
    )
    anew: bool = option(
        "--anew",
        False,
        "The same, and compare with what is on record; exit code 1 for any difference.",
        group="Proof",
        per_run=True,
    )
    update: bool = option(
        "--update",
        False,
        "Write the verdicts into the library's lock; an interrupt keeps what is done.",
        group="Proof",
        per_run=True,
    )
    jobs: int | None = option(
        "--jobs", None, "Processes; default: the CPUs this process may use.", within=Range(least=1), group="Proof"
    )
    timeout_s: float = option(
        "--timeout", 300.0, "Processor time for one rule.", metavar="SECONDS", within=Range(least=1), group="Proof"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        demand(
            not (self.anew and self.update),
            f"{spelled_on('anew')} compares with the record, {spelled_on('update')} writes it: give one of them",
        )


@record
class DeriveOptions(OptionRecord):
    """The options of `derive`."""

    rules: tuple[Path, ...] | None = option(
        "--from",
        None,
        "Rules to derive from (repeatable); default: the library.",
        metavar="FILE",
        parse=parse_rules,
        group="Rules",
    )
    """None: the shipped library."""
    states: int = option(
        "--states", 2000, "Terms looked at for one output of a law.", within=Range(least=1), group="Search"
    )


@record
class GenerateOptions(OptionRecord):
    """The options of `generate`; the rules that are found depend on the first four alone."""

    set_name: str = option(
        "--set",
        "default",
        "What is enumerated: default, or taso for TASO's own inputs and operators.",
        metavar="NAME",
        group="Generation",
    )
    ops: tuple[str, ...] = option(
        "--ops",
        (),
        "Only these templates or ONNX operators, separated by commas (repeatable).",
        metavar="NAMES",
        parse=parse_names,
        group="Generation",
    )
    max_operators: int = option(
        "--max-operators", 3, "Operators on one side.", within=Range(least=1, most=6), group="Generation"
    )
    steps: int = option(
        "--steps",
        20_000,
        "Most steps that the proofs of one law may take together, about 4,000 a second.",
        within=Range(least=1),
        group="Generation",
    )
    workers: int | None = option(
        "--workers",
        None,
        "Processes; default: the CPUs this process may use.",
        within=Range(least=1),
        group="Generation",
    )
    executor: Executor = option(
        "--executor",
        "processes",
        "Processes here, or one worker for each CPU of a Ray cluster that runs already.",
        group="Generation",
    )
    address: str = option("--address", "auto", "Of the Ray cluster; auto: the one of this machine.", group="Generation")
    memory_limit_gb: float | None = option(
        "--memory-limit",
        None,
        "Keep values in temporary files (TMPDIR); refuse a run whose other data need more.",
        metavar="GB",
        within=Range(least=0.1),
        group="Generation",
    )
    checkpoint: Path | None = option(
        "--checkpoint",
        None,
        "Keep what is done in this directory, so that a run can go on.",
        metavar="DIR",
        group="Generation",
    )
    resume: bool = option(
        "--resume", False, "Go on with the run in the --checkpoint directory.", group="Generation", per_run=True
    )
    force: bool = option(
        "--force",
        False,
        "Overwrite the output, and enumerate more than 50 million applications.",
        group="Output",
        per_run=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        demand(
            not self.resume or self.checkpoint is not None,
            f"{spelled_on('resume')} needs {spelled('checkpoint', metavar='DIR')}",
        )
