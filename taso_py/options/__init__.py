"""What a user may ask of each command and of each function of `taso_py.api`: one record of options each.

A field is declared once, with its default and help, and everything else is derived from it: the option of the command
line, its environment variable (SUPEROPT_ and the long spelling), the keyword of the function.  What only the command
line has is in `taso_py.options.delivery`.  Nothing here imports anything heavy: ``superopt --help`` depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from taso_py.options.delivery import (
    ApplyDelivery,
    Delivery,
    DeriveGoals,
    DiffDelivery,
    Display,
    EpsDelivery,
    GenerateDelivery,
    ShowOptions,
    VerboseDisplay,
    VerifyDisplay,
)
from taso_py.options.field import Array, OptionRecord, Range, chosen, option, record, reworded
from taso_py.options.general import GeneralOptions
from taso_py.options.laws import DeriveOptions, Executor, GenerateOptions, OnlyOptions, VerifyOptions
from taso_py.options.precision import BudgetOptions
from taso_py.options.sessions import EpsOptions, OrtLevel, SessionOptions
from taso_py.options.spelling import spelled
from taso_py.options.text import (
    Shape,
    demand,
    parse_inputs,
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
    "BudgetOptions",
    "CacheOptions",
    "CertifyOptions",
    "CheckOptions",
    "CostName",
    "Delivery",
    "DeriveGoals",
    "DeriveOptions",
    "DiffDelivery",
    "DiffOptions",
    "Display",
    "EpsDelivery",
    "EpsOptions",
    "Executor",
    "GeneralOptions",
    "GenerateDelivery",
    "GenerateOptions",
    "InspectOptions",
    "Objective",
    "Options",
    "OrtLevel",
    "RankOptions",
    "RewriteOptions",
    "RuleOptions",
    "SessionOptions",
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

# ---- parts that several commands share -------------------------------------------------------------------------------


@record
class ShapeOptions(OptionRecord):
    """Sizes of a model's inputs."""

    shapes: Mapping[str, Shape] = option(
        "--shape",
        MappingProxyType({}),
        "Sizes of an input (x=1,3,224,224) or a symbol (batch=1); repeatable. Default: a symbolic first axis is 1, "
        "others 128, the last two of rank 4 are 224.",
        metavar="NAME=SIZES",
        parse=parse_shapes,
        group="Model and inputs",
    )
    """Input name -> sizes, or symbol -> one size (a 1-tuple)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, sizes in self.shapes.items():
            demand(min(sizes, default=0) >= 0, f"shapes[{name!r}]={sizes}: sizes must be at least 0")


@record
class DataOptions(ShapeOptions):
    """What models are run on."""

    inputs: Mapping[str, Path | Array] = option(
        "--input",
        MappingProxyType({}),
        "Use this array instead of generated values (repeatable).",
        metavar="NAME=FILE.npy",
        parse=parse_inputs,
        group="Model and inputs",
    )
    """Input name -> array that replaces the generated values, or a .npy file that holds it."""
    seed: int = option(
        "--seed", 0, "Seed of generated values and choices.", within=Range(least=0), group="Model and inputs"
    )


@record
class RuleOptions(OptionRecord):
    """Which rules are looked at; the options of `superopt rules list`."""

    rules: tuple[Path, ...] | None = option(
        "--rules",
        None,
        "Rule files instead of the library's, beside its canonical and cleanup rules, which stay (repeatable); "
        "'none': no rules but those.",
        metavar="FILE|none",
        parse=parse_rules,
        group="Rules",
    )
    """None: the shipped library. Otherwise its canonical and cleanup rules, and these files; (): those alone."""


@record
class CacheOptions(OptionRecord):
    """The options of `superopt cache`."""

    cache: Path | None = option(
        "--cache",
        None,
        "Database of measured regions and of searches; default: in the user's cache directory.",
        metavar="FILE",
        group="Search",
    )
    """SQLite file of measured regions and of searches; None: in the user's cache directory."""


@record
class TimeOptions(OptionRecord):
    """How long a command may take."""

    time_budget_s: float = option(
        "--time-budget", 120.0, "For the whole command.", metavar="SECONDS", within=Range(above=0), group="Search"
    )


LONG_S = 3600.0
"""The time budget of what takes seconds or minutes, so that a pipeline's step ends."""

# ---- one record for each function ------------------------------------------------------------------------------------


@record
class CheckOptions(BudgetOptions, ToleranceOptions, DataOptions, SessionOptions):
    """The options of `check`."""

    time_budget_s: float = reworded(
        TimeOptions,
        "time_budget_s",
        "For the whole command; exit code 8 where it ends before there is a verdict.",
        default=LONG_S,
    )


@record
class DiffOptions(OptionRecord):
    """The options of `diff`."""

    ignore_names: bool = option(
        "--ignore-names",
        False,
        "Values of one name may be different values: for tools that number them anew.",
        group="Model and inputs",
    )


@record
class BenchOptions(BudgetOptions, DataOptions, SessionOptions):
    """The options of `bench`."""

    time_budget_s: float = reworded(
        TimeOptions,
        "time_budget_s",
        "For the whole command; exit code 8 where it ends before two rounds are timed.",
        default=LONG_S,
    )
    rounds: int = option("--rounds", 20, "Paired rounds.", within=Range(least=2), group="Measurement")
    block_s: float = option(
        "--block",
        0.25,
        "Length of one model's block in a round.",
        metavar="SECONDS",
        within=Range(least=0.01),
        group="Measurement",
    )


@record
class InspectOptions(DataOptions, SessionOptions):
    """The options of `inspect`."""

    profile: bool = option(
        "--profile",
        False,
        "Run it too, and tell where its time goes and what rewriting can gain at most.",
        group="Measurement",
    )


@record
class RewriteOptions(ToleranceOptions, DataOptions, SessionOptions):
    """What a rewritten model is checked on, and what may be taken for granted; of `optimize` and `apply`."""

    workloads: tuple[Mapping[str, Shape], ...] = option(
        "--workload",
        (),
        "One set of sizes to serve (repeatable): the result must be slower in none of them.",
        metavar="'A=SIZES;B=SIZES'",
        parse=parse_workloads,
        group="Model and inputs",
    )
    """Several such assignments: the winner must be slower in none. Empty: one workload, from `shapes`."""
    allow_bounded: bool = option(
        "--allow-bounded", False, "Also use rules that are proved only up to some size.", group="Rules"
    )
    allow_overflow: bool = option(
        "--allow-overflow", False, "Also use rules seen to overflow float32 where the original does not.", group="Rules"
    )
    freeze_initializers: bool = option(
        "--freeze-initializers", False, "Treat initializers that are inputs as constants.", group="Model and inputs"
    )
    allow_contrib: bool = option(
        "--allow-contrib", False, "Allow com.microsoft operators in the output.", group="Rules"
    )
    max_growth: float | None = option(
        "--max-growth",
        None,
        "Weights may become X times as large, and rules that multiply them are used too; default: a tenth larger, and "
        "none of these (apply: twice as large).",
        metavar="X",
        within=Range(least=1),
        group="Rules",
    )
    """None: a tenth larger or a MiB, without the rules that multiply weights."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, sizes in (item for workload in self.workloads for item in workload.items()):
            demand(min(sizes, default=0) >= 0, f"workloads: {name}={sizes}: sizes must be at least 0")
        demand(
            not (self.shapes and self.workloads),
            f"{spelled('shapes')} and {spelled('workloads')} exclude each other: write the shapes into the workloads",
        )


@record
class ApplyOptions(RewriteOptions):
    """The options of `apply`."""

    partial: bool = option(
        "--partial",
        False,
        "Leave out the steps that do not hold for this model, instead of giving up.",
        group="Rules",
    )


@record
class Options(OnlyOptions, RuleOptions, CacheOptions, TimeOptions, RewriteOptions, CheckOptions):
    """Everything that decides which model `optimize` returns; UsageError on a value that cannot be meant."""

    disable: tuple[str, ...] = option(
        "--disable", (), "Do not use this rule (repeatable).", metavar="NAME", group="Rules", completes="rules"
    )
    apply: Apply = option(
        "--apply",
        "best",
        "all: apply each matching rule at least once, whatever it costs; the race still decides.",
        group="Search",
    )
    """"all" applies each matching rule at least once, whatever it costs (conformance tests)."""
    alpha: float = option(
        "--alpha",
        1.05,
        "Search passes through graphs up to this much worse than the best.",
        within=Range(least=1),
        group="Search",
    )
    cost: CostName = option("--cost", "measured", "What orders candidates during the search.", group="Search")
    objective: Objective = option("--objective", "latency", "What to minimise.", group="Search")
    race: bool = option(
        "--no-race", True, "No timing: roofline cost, full check, same bytes every time.", group="Search"
    )
    """False: no timing at all; roofline cost, full check, the same bytes every time."""
    min_gain: float = option(
        "--min-gain",
        0.01,
        "Smallest relative gain that counts as an improvement; 0.01 means 1 %.",
        within=Range(least=0, below=1),
        group="Search",
    )
    """Smallest relative gain of the confirmed median that counts as an improvement."""
    provenance: bool = option("--no-provenance", True, "Write no superopt.* metadata into the output.", group="Output")
    strict: bool = option(
        "--strict", False, "Exit with 1 and write nothing when a rewrite changes values.", group="Check"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        both = sorted(set(self.only) & set(self.disable))
        both_options = f"{spelled('only')} and {spelled('disable')}"
        demand(not both, f"rule {', '.join(both)} is named by both {both_options}: keep one")
        asked = spelled("error_budget")
        demand(
            self.error_budget is None or self.race,
            f"{asked} chooses layers by what they gain, which is measured: drop it or {spelled('race')}",
        )
        demand(
            self.error_budget is None or self.apply == "best",
            f"{asked} goes with {spelled('apply', 'best')} alone: the other tests exact rules",
        )

    @property
    def may_have_session_file(self) -> bool:
        """Whether the result may get a session file: its sessions are not those by default, or a provider is chosen."""
        return self.is_race or not self.is_default_session


@record
class RankOptions(RuleOptions, CacheOptions, TimeOptions, ShapeOptions, SessionOptions):
    """The options of `rank`."""

    time_budget_s: float = reworded(TimeOptions, "time_budget_s", "For each model.")

    def of_one_model(self) -> Options:
        """The options of the search that each model undergoes."""
        return Options(**vars(self))


@record
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
