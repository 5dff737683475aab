"""One function for each command of `superopt`; docs/api.md has them in a table.

Each takes its options as one record of `taso_py.options`, as keywords that are the fields of that record, or as both,
and then the keywords count: ``check(a, b, CheckOptions(threads=2), seed=7)``.  Lists, texts and single sizes become the
tuples, paths and shapes that the fields hold; None means the default.

The functions return what they found and raise the classes of `taso_py.errors`: UsageError for an option that cannot be
meant, ModelError for a model that cannot be read or run, RuntimeMissingError without ONNX Runtime or the execution
provider.  They print nothing and never exit.  Times are in seconds where a name ends in ``_s`` or is ``seconds``, in
milliseconds where it ends in ``_ms``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from taso_py.arguments import File, Listener, Model, files_of, flag_of, listener_of, model_of, models_of
from taso_py.errors import UsageError
from taso_py.options import (
    ApplyOptions,
    BenchOptions,
    CacheOptions,
    CertifyOptions,
    CheckOptions,
    DeriveOptions,
    DiffOptions,
    EpsOptions,
    GenerateOptions,
    InspectOptions,
    Options,
    RankOptions,
    RuleOptions,
    VerifyOptions,
    chosen,
)
from taso_py.options.field import shown
from taso_py.progress import Progress, keeping_warnings
from taso_py.stop import StopFlag

if TYPE_CHECKING:
    # Classes of results are imported when there are some: `superopt --help` shall not wait for them.
    from taso_py.certificate.certify import Certified
    from taso_py.certificate.laws import Prover
    from taso_py.check.report import CheckReport
    from taso_py.cost.cache import Cache
    from taso_py.prove.verdict import Proved
    from taso_py.providers.listing import Offers
    from taso_py.providers.suite import Conformance
    from taso_py.report.application import Application
    from taso_py.report.benchmark import Benchmark
    from taso_py.report.changes import Differences
    from taso_py.report.derivation import Derivation
    from taso_py.report.generation import Generated
    from taso_py.report.ranking import Ranking
    from taso_py.report.rules import ListedRule
    from taso_py.report.standing import Standing
    from taso_py.report.verification import Verification
    from taso_py.result import Inspection, Result
    from taso_py.rules.rule import Rule

__all__ = [
    "apply",
    "bench",
    "certify",
    "check",
    "conform",
    "derive",
    "diff",
    "eps",
    "find_rule",
    "generate",
    "inspect",
    "list_rules",
    "open_cache",
    "optimize",
    "proof_of",
    "rank",
    "standing",
    "verify",
]


def optimize(
    model: Model,
    options: Options | None = None,
    *,
    progress: Listener | None = None,
    stop: StopFlag | None = None,
    **fields: Any,
) -> Result:
    """Find a faster model that computes the same function as ``model``, check it and measure it.

    Options: `taso_py.Options`.  ``shapes`` maps an input to its sizes (``{"x": (1, 3, 224, 224)}``) or a symbol to one
    size (``{"batch": 8}``).  Once ``stop`` is set the search ends with the best result so far.  Writes nothing but the
    cache of measurements: `Result.save` writes the model.  Raises MismatchError with ``strict``, RuleError for a rule
    file that cannot be read or a rule that is not proved.
    """
    settled = chosen(Options, options, fields)
    from taso_py.run import pipeline

    with keeping_warnings(listener_of(progress)) as kept:
        if settled.error_budget is not None:
            from taso_py.run import approximating

            result = approximating.optimize(model_of(model), settled, progress=kept, stop=flag_of(stop))
        elif settled.is_race:
            from taso_py.run import placing

            result = placing.optimize(model_of(model), settled, progress=kept, stop=flag_of(stop))
        else:
            result = pipeline.optimize(model_of(model), settled, progress=kept, stop=flag_of(stop))
    return replace(result, warnings=tuple(kept.warnings))


def apply(model: Model, decisions: File, options: ApplyOptions | None = None, **fields: Any) -> Application:
    """Make the steps again that an earlier run decided on (`Result.save_decisions`), without searching or timing.

    The same model gives the same bytes on any machine.  Nothing that the file says is believed: every law is proved or
    on record, every condition decided on the weights at hand, and the outputs are compared as by `optimize`.  Raises
    DecisionsError for a step that does not hold, unless ``partial``, MismatchError where outputs differ, UsageError for
    a file without decisions.  Writes nothing: `Application.save` does.
    """
    settled = chosen(ApplyOptions, options, fields)
    from taso_py.run import apply as run

    (file,) = files_of("decisions", [decisions])
    return run.apply(model_of(model), file, settled)


def standing(
    model: File,
    output: File,
    options: Options | None = None,
    *,
    progress: Listener | None = None,
    **fields: Any,
) -> Standing:
    """How the file ``output`` relates to the result that `optimize` would return; OutputError without such a file.

    `Standing.current`: it is that result, for the same bytes of ``model``, the same options, rules and version and, if
    it was timed, the same machine.  It goes by what the file's metadata say.  Searches nothing and writes nothing.
    """
    settled = chosen(Options, options, fields)
    from taso_py.run import standing as run

    source, target = files_of("files", [model, output])
    return run.standing(source, target, settled, listener_of(progress))


def check(first: Model, second: Model, options: CheckOptions | None = None, **fields: Any) -> CheckReport:
    """Run two models on the same inputs and compare every output, element by element.

    Errors in the report are the largest over all outputs and sets of inputs: absolute max|y-y'|, relative
    max|y-y'| / max|y|.  Models that differ, or whose interfaces do, are no error: ``passed`` is False then.
    """
    settled = chosen(CheckOptions, options, fields)
    from taso_py.run import check as run

    return run.check(model_of(first), model_of(second), settled)


def bench(models: Sequence[Model], options: BenchOptions | None = None, **fields: Any) -> Benchmark:
    """Time models in alternating blocks of ``block_s`` seconds, on the same inputs; ratios are against the first.

    Latencies are in milliseconds; a ratio is the median over rounds, with its 95 % bootstrap interval.  Raises
    UsageError for models whose inputs or outputs differ.
    """
    settled = chosen(BenchOptions, options, fields)
    from taso_py.run import bench as run

    return run.bench(models_of(models), settled)


def diff(first: Model, second: Model, options: DiffOptions | None = None, **fields: Any) -> Differences:
    """What differs between two models: nodes in regions, sizes, operators, inputs and outputs.

    Names and order of nodes are no difference.  Needs no ONNX Runtime, and writes nothing:
    `Differences.save_report` writes the page.
    """
    settled = chosen(DiffOptions, options, fields)
    from taso_py.run import diff as run

    return run.diff(model_of(first), model_of(second), settled)


def inspect(model: Model, options: InspectOptions | None = None, **fields: Any) -> Inspection:
    """Operators, parameters, floating-point operations, bytes moved and peak activation memory (bytes) of a model.

    Figures hold at ``shapes``, or at default sizes.  Needs no ONNX Runtime.
    """
    settled = chosen(InspectOptions, options, fields)
    from taso_py.run import inspect as run

    return run.inspect(model_of(model), settled)


def eps(options: EpsOptions | None = None, **fields: Any) -> Offers:
    """The execution providers that can be used here, and for others why not and a line that would help.

    Looks into our own environment and those of the interpreters ``ep_python``; each provider is tried in a process of
    its own.  Nothing that is missing is an error.
    """
    settled = chosen(EpsOptions, options, fields)
    from taso_py.run import eps as run

    return run.eps(settled)


def conform(ep: str, options: EpsOptions | None = None, **fields: Any) -> Conformance:
    """What the execution provider ``ep`` keeps of what superopt relies on, float32 arithmetic included.

    It runs under the first interpreter of ``ep_python`` that has it.  A check that fails is no error:
    `Conformance.require_passed` raises ConformanceError then.
    """
    settled = chosen(EpsOptions, options, fields)
    if not isinstance(ep, str):
        raise UsageError(f"ep={shown(ep)}: must be a text")
    from taso_py.run import eps as run

    return run.conform(ep, settled)


def verify(
    files: Sequence[File] = (),
    options: VerifyOptions | None = None,
    *,
    progress: Listener | None = None,
    **fields: Any,
) -> Verification:
    """Look up or find the verdict on every rule of ``files``, the library's where there are none.

    ``timeout_s`` is processor time in seconds for one rule.  Writes nothing unless ``update`` is set: then the
    library's record of proofs.  `Verification.require_expected` raises UnprovedError where a rule is not as its file
    promises.  Raises RuleError for a file that cannot be read, UsageError for a name that no rule has.
    """
    settled = chosen(VerifyOptions, options, fields)
    from taso_py.run import verify as run

    return run.verify(files_of("files", files), settled, listener_of(progress))


def generate(options: GenerateOptions | None = None, *, progress: Progress | None = None, **fields: Any) -> Generated:
    """Discover rules: enumerate terms, prove the laws between them, keep those from which the others follow.

    Writes nothing but the ``checkpoint`` directory: `Generated.save` writes the rules.  ``memory_limit_gb`` is in
    gigabytes.  Raises UsageError for more than 50 million applications without ``force``.
    """
    settled = chosen(GenerateOptions, options, fields)
    from taso_py.run import generate as run

    return run.generate(settled, listener_of(progress))


def derive(goals: Sequence[File], options: DeriveOptions | None = None, **fields: Any) -> Derivation:
    """Which laws of the files ``goals`` follow from other rules by rewriting, looking at ``states`` terms each.

    A goal is a rule file, or TASO's shipped substitutions as JSON.  `Derivation.require_all` raises UnprovedError where
    a law does not follow.  Raises RuleError or UsageError for a file without laws.
    """
    settled = chosen(DeriveOptions, options, fields)
    from taso_py.run import derive as run

    return run.derive(files_of("goals", goals), settled)


def rank(
    models: Sequence[Model],
    options: RankOptions | None = None,
    *,
    progress: Listener | None = None,
    stop: StopFlag | None = None,
    **fields: Any,
) -> Ranking:
    """Which rules pay on models by themselves; a gain is a share of the model's time: 0.06 means 6 %.

    Models in memory are called by their places in the list, as in ``models[0]``.

    ``time_budget_s`` is for each model.  Once ``stop`` is set, the ranking of the models so far.
    """
    settled = chosen(RankOptions, options, fields)
    from taso_py.run import rank as run

    return run.rank(models_of(models), settled, progress=listener_of(progress), stop=flag_of(stop))


def certify(
    original: Model,
    optimised: Model,
    certificate: File,
    options: CertifyOptions | None = None,
    *,
    prover: Prover | None = None,
    **fields: Any,
) -> Certified:
    """Check that a certificate, which `Result.save_certificate` wrote, leads from ``original`` to ``optimised``.

    Every rule is judged again, every step replayed, and both models run in ONNX Runtime on inputs as for `optimize`.
    Raises CertificateError with the first thing that does not hold, UsageError where ``freeze_initializers`` is not
    what the certificate was made with. ``prover`` replaces the judgement of the rules.
    """
    settled = chosen(CertifyOptions, options, fields)
    from taso_py.certificate.certify import certify as run
    from taso_py.certificate.numeric import Inputs
    from taso_py.check.tolerance import Closeness
    from taso_py.files import load_arrays
    from taso_py.run.subject import require_runnable

    models = model_of(original), model_of(optimised)
    closeness = Closeness.of(settled.rtol, settled.atol)
    inputs = Inputs(settled.shapes, load_arrays(settled.inputs), settled.seed, closeness)
    require_runnable(*models)
    (document,) = files_of("certificate", [certificate])
    return run(*models, document, freeze_initializers=settled.freeze_initializers, inputs=inputs, prover=prover)


# ---- the rest of `superopt rules` and `superopt cache` ---------------------------------------------------------------


def list_rules(options: RuleOptions | None = None, **fields: Any) -> tuple[ListedRule, ...]:
    """Every rule of the library, or of the files ``rules``, with what is on record of it."""
    settled = chosen(RuleOptions, options, fields)
    from taso_py.run import catalog

    return catalog.list_rules(settled)


def find_rule(name: str, options: RuleOptions | None = None, **fields: Any) -> ListedRule:
    """The rule of this name, or whose id begins with these eight or more digits; UsageError where there is none."""
    settled = chosen(RuleOptions, options, fields)
    from taso_py.run import catalog

    return catalog.find_rule(name, settled)


def proof_of(rule: Rule) -> Proved:
    """The proof of a rule, made now, with everything that had to be shown; UnprovedError where there is none."""
    from taso_py.run import catalog

    return catalog.proof_of(rule)


def open_cache(options: CacheOptions | None = None, *, create: bool = True, **fields: Any) -> Cache:
    """The database of measured regions, a context manager; one that is damaged is moved aside with a warning.

    Unless ``create``, one that is not there is empty, and no file is made.
    """
    settled = chosen(CacheOptions, options, fields)
    from taso_py.cost.cache import Cache

    return Cache(settled.cache, create=create)
