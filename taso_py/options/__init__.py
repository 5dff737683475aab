"""What a user may ask of each command and of each function of `taso_py.api`: one record of options each.

A field is declared once, with its default and help, and everything else is derived from it: the option of the command
line, its environment variable (SUPEROPT_ and the long spelling), the keyword of the function.  What only the command
line has is in `taso_py.options.delivery`.  Nothing here imports anything heavy: ``superopt --help`` depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from taso_py.options.delivery import (
    ApplyDelivery,
    Delivery,
    DeriveGoals,
    Display,
    GenerateDelivery,
    ShowOptions,
    VerboseDisplay,
    VerifyDisplay,
)
from taso_py.options.field import OptionRecord, Range, chosen, option, reworded
from taso_py.options.providers import provider_name
from taso_py.options.text import (
    Shape,
    demand,
    parse_ep_options,
    parse_inputs,
    parse_names,
    parse_rules,
    parse_shapes,
    parse_workloads,
)
from taso_py.options.tolerance import ToleranceOptions

__all__ = [
    "Apply",
    "ApplyDelivery",
    "ApplyOptions",
    "BenchOptions",
    "CacheOptions",
    "CertifyOptions",
    "CheckOptions",
    "CostName",
    "Delivery",
    "DeriveGoals",
    "DeriveOptions",
    "Display",
    "Executor",
    "GenerateDelivery",
    "GenerateOptions",
    "InspectOptions",
    "Objective",
    "Options",
    "OrtLevel",
    "RankOptions",
    "RewriteOptions",
    "RuleOptions",
    "Shape",
    "ShowOptions",
    "ToleranceOptions",
    "VerboseDisplay",
    "VerifyDisplay",
    "VerifyOptions",
    "chosen",
]

CostName = Literal["measured", "roofline"]
Objective = Literal["latency", "flops"]
Apply = Literal["best", "all"]
OrtLevel = Literal["all", "layout", "extended", "basic", "disable"]
Executor = Literal["processes", "ray"]

_NOTHING: Mapping[str, str] = MappingProxyType({})

# ---- parts that several commands share -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ShapeOptions(OptionRecord):
    """Sizes of a model's inputs."""

    shapes: Mapping[str, Shape] = option(
        "--shape",
        MappingProxyType({}),
        "Sizes of an input (x=1,3,224,224) or a symbol (batch=1); repeatable. Default: a symbolic first axis is 1, "
        "others 128, the last two of rank 4 are 224.",
        metavar="NAME=SIZES",
        parse=parse_shapes,
    )
    """Input name -> sizes, or symbol -> one size (a 1-tuple)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, sizes in self.shapes.items():
            demand(min(sizes, default=0) >= 0, f"shapes[{name!r}]={sizes}: sizes must be at least 0")


@dataclass(frozen=True, kw_only=True)
class DataOptions(ShapeOptions):
    """What models are run on."""

    inputs: Mapping[str, Path] = option(
        "--input",
        MappingProxyType({}),
        "Use this array instead of generated values (repeatable).",
        metavar="NAME=FILE.npy",
        parse=parse_inputs,
    )
    """Input name -> .npy file whose array replaces the generated values."""
    seed: int = option("--seed", 0, "Seed of generated values and choices.", within=Range(least=0))


@dataclass(frozen=True, kw_only=True)
class SessionOptions(OptionRecord):
    """How ONNX Runtime's sessions run."""

    ep: str = option("--ep", "cpu", "Execution provider: any that the installed ORT offers.")
    ep_options: Mapping[str, str] = option(
        "--ep-option", _NOTHING, "Provider option (repeatable).", metavar="K=V", parse=parse_ep_options
    )
    threads: int | None = option(
        "--threads", None, "Threads per session; default: the CPUs this process may use.", within=Range(least=1)
    )
    """None: the CPUs that this process may use."""
    ort_level: OrtLevel = option("--ort-level", "all", "ONNX Runtime's own graph optimisation level.")

    def __post_init__(self) -> None:
        super().__post_init__()
        demand(bool(self.ep), "--ep is empty: name an execution provider, for example cpu")

    @property
    def provider(self) -> str:
        """`ep` as ONNX Runtime names it: cpu -> CPUExecutionProvider; a full name stays as it is."""
        return provider_name(self.ep)


@dataclass(frozen=True, kw_only=True)
class RuleOptions(OptionRecord):
    """Which rules are looked at; the options of `superopt rules list`."""

    rules: tuple[Path, ...] | None = option(
        "--rules",
        None,
        "Rule files instead of the library (repeatable); 'none': no rules.",
        metavar="FILE|none",
        parse=parse_rules,
    )
    """None: the shipped library. (): no rule at all. Otherwise these files instead of the library."""


@dataclass(frozen=True, kw_only=True)
class OnlyOptions(OptionRecord):
    """A choice of rules by name."""

    only: tuple[str, ...] = option("--only", (), "Only this rule (repeatable).", metavar="NAME")


@dataclass(frozen=True, kw_only=True)
class CacheOptions(OptionRecord):
    """The options of `superopt cache`."""

    cache: Path | None = option(
        "--cache", None, "Database of measured regions; default: in the user's cache directory.", metavar="FILE"
    )
    """SQLite file of measured regions; None: in the user's cache directory."""


@dataclass(frozen=True, kw_only=True)
class TimeOptions(OptionRecord):
    """How long a command may take."""

    time_budget_s: float = option(
        "--time-budget", 120.0, "For the whole command.", metavar="SECONDS", within=Range(above=0)
    )


# ---- one record for each function ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CheckOptions(ToleranceOptions, DataOptions, SessionOptions):
    """The options of `check`."""


@dataclass(frozen=True, kw_only=True)
class BenchOptions(DataOptions, SessionOptions):
    """The options of `bench`."""

    rounds: int = option("--rounds", 20, "Paired rounds.", within=Range(least=2))
    block_s: float = option(
        "--block", 0.25, "Length of one model's block in a round.", metavar="SECONDS", within=Range(least=0.01)
    )


@dataclass(frozen=True, kw_only=True)
class InspectOptions(DataOptions, SessionOptions):
    """The options of `inspect`."""

    profile: bool = option(
        "--profile", False, "Run it too, and tell where its time goes and what rewriting can gain at most."
    )


@dataclass(frozen=True, kw_only=True)
class RewriteOptions(CheckOptions):
    """What a rewritten model is checked on, and what may be taken for granted; of `optimize` and `apply`."""

    workloads: tuple[Mapping[str, Shape], ...] = option(
        "--workload",
        (),
        "One set of sizes to serve (repeatable): the result must be slower in none of them.",
        metavar="'A=SIZES;B=SIZES'",
        parse=parse_workloads,
    )
    """Several such assignments: the winner must be slower in none. Empty: one workload, from `shapes`."""
    allow_bounded: bool = option("--allow-bounded", False, "Also use rules that are proved only up to some size.")
    allow_overflow: bool = option(
        "--allow-overflow", False, "Also use rules seen to overflow float32 where the original does not."
    )
    freeze_initializers: bool = option(
        "--freeze-initializers", False, "Treat initializers that are inputs as constants."
    )
    allow_contrib: bool = option("--allow-contrib", False, "Allow com.microsoft operators in the output.")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, sizes in (item for workload in self.workloads for item in workload.items()):
            demand(min(sizes, default=0) >= 0, f"workloads: {name}={sizes}: sizes must be at least 0")
        demand(
            not (self.shapes and self.workloads),
            "--shape and --workload exclude each other: write the shapes into the workloads",
        )


@dataclass(frozen=True, kw_only=True)
class ApplyOptions(RewriteOptions):
    """The options of `apply`."""

    partial: bool = option(
        "--partial", False, "Leave out the steps that do not hold for this model, instead of giving up.", variable=False
    )


@dataclass(frozen=True, kw_only=True)
class Options(OnlyOptions, RuleOptions, CacheOptions, TimeOptions, RewriteOptions):
    """Everything that decides which model `optimize` returns; UsageError on a value that cannot be meant."""

    disable: tuple[str, ...] = option("--disable", (), "Do not use this rule (repeatable).", metavar="NAME")
    apply: Apply = option("--apply", "best", "all: apply each matching rule at least once, whatever it costs.")
    """"all" applies each matching rule at least once, whatever it costs (conformance tests)."""
    alpha: float = option(
        "--alpha", 1.05, "Search passes through graphs up to this much worse than the best.", within=Range(least=1)
    )
    cost: CostName = option("--cost", "measured", "What orders candidates during the search.")
    objective: Objective = option("--objective", "latency", "What to minimise.")
    race: bool = option("--no-race", True, "No timing: roofline cost, full check, same bytes every time.")
    """False: no timing at all; roofline cost, full check, the same bytes every time."""
    min_gain: float = option(
        "--min-gain",
        0.01,
        "Smallest relative gain that counts as an improvement; 0.01 means 1 %.",
        within=Range(least=0, below=1),
    )
    """Smallest relative gain of the confirmed median that counts as an improvement."""
    provenance: bool = option("--no-provenance", True, "Write no superopt.* metadata into the output.")
    strict: bool = option("--strict", False, "Exit with 1 and write nothing when a rewrite changes values.")

    def __post_init__(self) -> None:
        super().__post_init__()
        both = sorted(set(self.only) & set(self.disable))
        demand(not both, f"rule {', '.join(both)} is named by both --only and --disable: keep one")


@dataclass(frozen=True, kw_only=True)
class RankOptions(RuleOptions, CacheOptions, TimeOptions, ShapeOptions, SessionOptions):
    """The options of `rank`."""

    time_budget_s: float = reworded(TimeOptions, "time_budget_s", "For each model.")

    def of_one_model(self) -> Options:
        """The options of the search that each model undergoes."""
        return Options(**vars(self))


@dataclass(frozen=True, kw_only=True)
class CertifyOptions(DataOptions):
    """The options of `certify`: facts from the caller alone, none of them from the certificate."""

    rtol: float | None = reworded(
        ToleranceOptions,
        "rtol",
        "Allow |y - y'| <= atol + rtol*|y| in each float of an output (1e-5 if --atol alone is given); default: "
        "by element type, whatever was said to optimize.",
        variable=False,
    )
    atol: float | None = reworded(
        ToleranceOptions, "atol", "The other half of it (1e-8 if --rtol alone is given).", variable=False
    )

    freeze_initializers: bool = reworded(
        Options,
        "freeze_initializers",
        "Initializers that are inputs are constants: say so here if it was said to optimize.",
        variable=False,
    )


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(OnlyOptions):
    """The options of `verify`."""

    fresh: bool = option("--fresh", False, "Prove everything again, whatever is on record.")
    anew: bool = option(
        "--anew", False, "The same, and compare with what is on record; exit code 1 for any difference."
    )
    update: bool = option(
        "--update", False, "Write the verdicts into the library's lock; an interrupt keeps what is done."
    )
    jobs: int | None = option(
        "--jobs", None, "Processes; default: the CPUs this process may use.", within=Range(least=1)
    )
    timeout_s: float = option(
        "--timeout", 300.0, "Processor time for one rule.", metavar="SECONDS", within=Range(least=1)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        demand(
            not (self.anew and self.update),
            "--anew compares with the record, --update writes it: give one of them",
        )


@dataclass(frozen=True, kw_only=True)
class DeriveOptions(OptionRecord):
    """The options of `derive`."""

    rules: tuple[Path, ...] | None = option(
        "--from",
        None,
        "Rules to derive from (repeatable); default: the library.",
        metavar="FILE",
        parse=parse_rules,
    )
    """None: the shipped library."""
    states: int = option("--states", 2000, "Terms looked at for one output of a law.", within=Range(least=1))


@dataclass(frozen=True, kw_only=True)
class GenerateOptions(OptionRecord):
    """The options of `generate`; the rules that are found depend on the first four alone."""

    set_name: str = option(
        "--set",
        "default",
        "What is enumerated: default, or taso for TASO's own inputs and operators.",
        metavar="NAME",
    )
    ops: tuple[str, ...] = option(
        "--ops",
        (),
        "Only these templates or ONNX operators, separated by commas (repeatable).",
        metavar="NAMES",
        parse=parse_names,
    )
    max_operators: int = option("--max-operators", 3, "Operators on one side.", within=Range(least=1, most=6))
    steps: int = option(
        "--steps",
        20_000,
        "Most steps that the proofs of one law may take together, about 4,000 a second.",
        within=Range(least=1),
    )
    workers: int | None = option(
        "--workers", None, "Processes; default: the CPUs this process may use.", within=Range(least=1)
    )
    executor: Executor = option(
        "--executor", "processes", "Processes here, or one worker for each CPU of a Ray cluster that runs already."
    )
    address: str = option("--address", "auto", "Of the Ray cluster; auto: the one of this machine.")
    memory_limit_gb: float | None = option(
        "--memory-limit",
        None,
        "Keep values in temporary files (TMPDIR); refuse a run whose other data need more.",
        metavar="GB",
        within=Range(least=0.1),
    )
    checkpoint: Path | None = option(
        "--checkpoint", None, "Keep what is done in this directory, so that a run can go on.", metavar="DIR"
    )
    resume: bool = option("--resume", False, "Go on with the run in the --checkpoint directory.")
    force: bool = option("--force", False, "Overwrite the output, and enumerate more than 50 million applications.")

    def __post_init__(self) -> None:
        super().__post_init__()
        demand(not self.resume or self.checkpoint is not None, "--resume needs --checkpoint DIR")
