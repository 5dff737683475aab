"""`superopt optimize`: the main command."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from taso_py.cli.outcome import emit
from taso_py.cli.shared import (
    SETTINGS,
    data_options,
    json_option,
    option,
    progress_on_stderr,
    runtime_options,
)
from taso_py.errors import UsageError
from taso_py.options import (
    Apply,
    CostName,
    Delivery,
    Objective,
    Options,
    parse_ep_options,
    parse_inputs,
    parse_rules,
    parse_shapes,
    parse_workload,
)

FILE = click.Path(path_type=Path)


@click.command(context_settings=SETTINGS, short_help="Make a model faster without changing what it computes.")
@click.argument("model", type=FILE)
@option(
    "-o",
    "--output",
    type=FILE,
    metavar="OUT",
    help="Model to write; default: STEM.superopt.onnx beside MODEL.",
)
@runtime_options
@data_options
@option(
    "--workload",
    "workloads",
    multiple=True,
    metavar="'A=SIZES;B=SIZES'",
    help="One set of sizes to serve (repeatable): the result must be slower in none of them.",
)
@option("--rules", multiple=True, metavar="FILE|none", help="Rule files instead of the library; 'none': no rules.")
@option("--only", multiple=True, metavar="NAME", help="Use only this rule (repeatable).")
@option("--disable", multiple=True, metavar="NAME", help="Do not use this rule (repeatable).")
@option("--allow-bounded", is_flag=True, help="Also use rules that are proved only up to some size.")
@option("--allow-overflow", is_flag=True, help="Also use rules seen to overflow float32 where the original does not.")
@option("--apply", type=click.Choice(get_args(Apply)), default="best", show_default=True,
              help="all: apply each matching rule at least once, whatever it costs.")  # fmt: skip
@option("--alpha", type=float, default=1.05, show_default=True,
              help="Search passes through graphs up to this much worse than the best.")  # fmt: skip
@option("--time-budget", type=float, default=120.0, show_default=True, metavar="SECONDS",
              help="For the whole command.")  # fmt: skip
@option("--cost", type=click.Choice(get_args(CostName)), default="measured", show_default=True,
              help="What orders candidates during the search.")  # fmt: skip
@option("--objective", type=click.Choice(get_args(Objective)), default="latency", show_default=True,
              help="What to minimise.")  # fmt: skip
@option("--no-race", is_flag=True, help="No timing: roofline cost, full check, same bytes every time.")
@option("--min-gain", type=float, default=0.01, show_default=True,
              help="Smallest relative gain that counts as an improvement.")  # fmt: skip
@option("--min-speedup", type=float, metavar="X", help="Exit with 6 unless X times faster.")
@option("--freeze-initializers", is_flag=True, help="Treat initializers that are inputs as constants.")
@option("--allow-contrib", is_flag=True, help="Allow com.microsoft operators in the output.")
@option("--no-provenance", is_flag=True, help="Write no superopt.* metadata into the output.")
@option("--cache", type=FILE, metavar="FILE", help="Database of measured regions.")
@option("--dry-run", is_flag=True, help="Write no model.")
@option("--force", is_flag=True, help="Overwrite OUT.")
@option("--strict", is_flag=True, help="Exit with 1 and write nothing when a rewrite changes values.")
@json_option
@option("--report", type=FILE, metavar="FILE", help="Also write a report: .json, .md or .html.")
@option("--certificate", type=FILE, metavar="FILE", help="Also write every step to the result, for superopt certify.")
@option("-q", "--quiet", is_flag=True, help="Only the final sentence and warnings.")
@option("-v", "--verbose", "verbosity", count=True, help="More detail; -vv for even more.")
def optimize(model: Path, **arguments: Any) -> None:
    """Find a faster model that computes the same function as MODEL, check it, measure it, write it to OUT."""
    delivery = _delivery(arguments)
    options = _options(arguments)
    delivery.require_compatible(options)
    target = _preflight(model, delivery)

    from taso_py.run import pipeline
    from taso_py.stop import StopFlag, stop_on_interrupt

    verbosity = -1 if delivery.quiet else delivery.verbosity
    with stop_on_interrupt(StopFlag()) as stop:
        with progress_on_stderr(verbosity) as progress:
            result = pipeline.optimize(model, options, progress=progress, stop=stop)
        if not delivery.dry_run:
            result = result.save(target, force=delivery.force)
        if delivery.certificate is not None:
            result.save_certificate(delivery.certificate, force=True)
    _present(result, delivery)


def _preflight(model: Path, delivery: Delivery) -> Path:
    """Everything that can go wrong before the long run is found out now."""
    from taso_py.backend.runtime import require_runtime
    from taso_py.files import check_target, require_model_file

    require_runtime()
    require_model_file(model)
    target = delivery.target(model)
    if not delivery.dry_run:
        check_target(target, sources=(model,), force=delivery.force)
    taken = {target.absolute(): "--output"}
    for name, file in (("--report", delivery.report), ("--certificate", delivery.certificate)):
        if file is not None:
            if (other := taken.setdefault(file.absolute(), name)) != name:
                raise UsageError(f"{name} and {other} are both {file}: choose two names")
            check_target(file, sources=(model, target), force=True)
    return target


def _present(result: Any, delivery: Delivery) -> None:
    from taso_py.report.document import write_report
    from taso_py.report.terminal import result_text, sentence

    if delivery.report is not None:
        write_report(result, delivery.report)
    for note in result.notes:
        click.echo(f"superopt: {note}", err=True)
    if delivery.as_json:
        emit(result.to_json())
    else:
        emit(sentence(result) if delivery.quiet else result_text(result))
    if delivery.min_speedup is not None:
        result.require_speedup(delivery.min_speedup)


def _delivery(arguments: dict[str, Any]) -> Delivery:
    names = ("output", "report", "certificate", "min_speedup", "dry_run", "force", "as_json", "quiet", "verbosity")
    return Delivery(**{name: arguments.pop(name) for name in names})


def _options(arguments: dict[str, Any]) -> Options:
    return Options(
        ep_options=parse_ep_options(arguments.pop("ep_options")),
        shapes=parse_shapes(arguments.pop("shapes")),
        workloads=tuple(parse_workload(text) for text in arguments.pop("workloads")),
        inputs=parse_inputs(arguments.pop("inputs")),
        rules=parse_rules(arguments.pop("rules")),
        time_budget_s=arguments.pop("time_budget"),
        race=not arguments.pop("no_race"),
        provenance=not arguments.pop("no_provenance"),
        **arguments,
    )
