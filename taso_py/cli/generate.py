"""`superopt generate`: discover rules by enumeration, prove them, keep those from which the others follow."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from taso_py.cli.outcome import emit
from taso_py.cli.shared import SETTINGS, json_option, option, progress_on_stderr

if TYPE_CHECKING:
    from taso_py.generate.job import Generation

FILE = click.Path(path_type=Path)


@click.command(context_settings=SETTINGS, short_help="Discover rules and prove them.")
@option("-o", "--output", type=FILE, default=Path("generated.rules"), show_default=True, help="The rule file.")
@option("--set", "set_name", default="default", show_default=True, metavar="NAME",
              help="What is enumerated: default, or taso for TASO's own inputs and operators.")  # fmt: skip
@option("--ops", multiple=True, metavar="NAMES",
              help="Only these templates or ONNX operators, separated by commas (repeatable).")  # fmt: skip
@option("--max-operators", type=click.IntRange(1, 6), default=3, show_default=True, help="Operators on one side.")
@option("--workers", type=click.IntRange(min=1), help="Processes; default: the CPUs this process may use.")
@option("--executor", type=click.Choice(["processes", "ray"]), default="processes", show_default=True,
              help="Processes here, or one worker for each CPU of a Ray cluster that runs already.")  # fmt: skip
@option("--address", default="auto", show_default=True, help="Of the Ray cluster; auto: the one of this machine.")
@option("--steps", type=click.IntRange(min=1), default=20_000, show_default=True,
              help="Most steps that the proofs of one law may take together, about 4,000 a second.")  # fmt: skip
@option("--memory-limit", type=click.FloatRange(min=0.1), metavar="GB",
              help="Keep values in temporary files (TMPDIR); refuse a run whose other data need more.")  # fmt: skip
@option("--checkpoint", type=FILE, metavar="DIR", help="Keep what is done in this directory, so that a run can go on.")
@option("--resume", is_flag=True, help="Go on with the run in the --checkpoint directory.")
@option("--force", is_flag=True, help="Overwrite the output, and enumerate more than 50 million applications.")
@option("--show-unknown", is_flag=True, help="List the laws that are neither proved nor refuted, and why.")
@json_option
@option("-v", "--verbose", "verbosity", count=True, help="More lines on stderr.")
def generate(
    output: Path,
    set_name: str,
    ops: tuple[str, ...],
    max_operators: int,
    workers: int | None,
    executor: str,
    address: str,
    steps: int,
    memory_limit: float | None,
    checkpoint: Path | None,
    resume: bool,
    force: bool,
    show_unknown: bool,
    as_json: bool,
    verbosity: int,
) -> None:
    """Enumerate terms of up to --max-operators operators, and write the laws between them that are proved.

    Equal values are found by fingerprints over finite fields, generalised to symbolic sizes and attributes, tested in
    ONNX Runtime and proved for all sizes; a law that follows from others is left out. The file is the same for any
    number of workers, and `superopt optimize --rules FILE` loads it.
    """
    from taso_py.backend.runtime import available_threads, require_runtime
    from taso_py.files import check_target, write_text
    from taso_py.generate.checkpoint import Checkpoint
    from taso_py.generate.job import Generation, Settings, text_of
    from taso_py.generate.tasks import Space
    from taso_py.version import VERSION

    start = time.perf_counter()
    require_runtime()
    if resume and checkpoint is None:
        raise click.UsageError("--resume needs --checkpoint DIR")
    check_target(output, force=force or resume)
    names = tuple(name.strip() for given in ops for name in given.split(","))
    settings = Settings(Space(set_name, names, max_operators), steps)
    kept = Checkpoint(checkpoint)
    kept.begin({**asdict(settings), "version": VERSION}, resume=resume)
    with progress_on_stderr(verbosity) as progress:
        job = Generation(settings, workers or available_threads(), kept, progress, force, memory_limit)
        job.ray = address if executor == "ray" else None
        rules = job.run()
    write_text(output, text_of(settings, job.figures, rules), force=force or resume)
    seconds = time.perf_counter() - start
    count = len(rules)
    emit(_as_json(job, output, count, seconds) if as_json else _as_text(job, output, count, seconds, show_unknown))


def _as_json(job: Generation, output: Path, rules: int, seconds: float) -> str:
    found = {
        "schema": 1,
        "output": str(output),
        "rules": rules,
        **asdict(job.figures),
        "seconds": round(seconds, 1),
        "undecided": [{"law": law, "why": why} for law, why in job.unknown],
    }
    return json.dumps(found, indent=2)


def _as_text(job: Generation, output: Path, rules: int, seconds: float, show_unknown: bool) -> str:
    f = job.figures
    lines = [f"{law}  # {why}\n" for law, why in job.unknown] if show_unknown else []
    lines += [
        f"{f.applications:,} applications, {f.values:,} values, {f.pairs:,} equal pairs, {f.laws:,} laws",
        f"{f.candidates:,} candidates: {f.proved:,} proved, {f.refuted:,} refuted, {f.unknown:,} undecided, "
        f"{f.derivable:,} follow from simpler ones",
        f"{output}: {rules:,} rules, all proved for all sizes; {f.minimised:,} more follow from them ({seconds:.0f} s)",
    ]
    return "\n".join(lines)
