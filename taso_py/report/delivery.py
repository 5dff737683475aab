"""Where results go: what can go wrong there is found out before a long run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from taso_py.backend.runtime import require_runtime
from taso_py.errors import UsageError
from taso_py.files import check_appendable, check_target, require_model_file
from taso_py.finished import FinishedModel
from taso_py.onnx_io.artifact import data_file, files_beside, model_files
from taso_py.options.delivery import DiffDelivery, ModelDelivery
from taso_py.paths import real
from taso_py.providers.record import require_no_record, session_file

Finished = TypeVar("Finished", bound=FinishedModel)


def require_deliverable(
    model: Path,
    delivery: ModelDelivery,
    *,
    over: bool = False,
    reads: Iterable[Path] = (),
    placed: bool = False,
    copied: bool = True,
) -> None:
    """Everything that can go wrong before the long run: no runtime, no model, a file that cannot be written.

    ``over``: OUT, which is there, holds nothing to lose. ``reads``: other files that must stay. ``placed``: OUT gets a
    session file. ``copied``: OUT may be a copy of MODEL.
    """
    require_runtime()
    require_model_file(model)
    target, *others = outputs(model, delivery)
    read = (*model_files(model), *reads)
    if not delivery.dry_run:
        force = delivery.force or over
        check_target(target, sources=read, force=force)
        for file in (*files_beside(model, target, copied=copied), *([session_file(target)] if placed else [])):
            check_target(file, sources=read, force=force)
        if not placed:
            require_no_record(target, force=force)
    kept = (*read, target, data_file(target), session_file(target))
    for file in others:
        check_target(file, sources=kept, force=delivery.force)
    if delivery.summary is not None:
        check_appendable(delivery.summary, sources=(*kept, *others))


def outputs(model: Path, delivery: ModelDelivery) -> tuple[Path, ...]:
    """The files that are asked for, OUT first; UsageError where two options name one."""
    target = delivery.target(model)
    taken, found = {real(target): "--output"}, [target]
    for name, file in delivery.beside().items():
        if (other := taken.setdefault(real(file), name)) != name:
            raise UsageError(f"{name} and {other} are both {file}: choose two names")
        found.append(file)
    return tuple(found)


def delivered(result: Finished, model: Path, delivery: ModelDelivery, *, over: bool = False) -> Finished:
    """The result with its model and its certificate written; ``over``: OUT, which is there, holds nothing to lose."""
    if not delivery.dry_run:
        result = result.save(delivery.target(model), force=delivery.force or over)
    if delivery.certificate is not None:
        result.save_certificate(delivery.certificate, force=delivery.force)
    return result


def require_report_writable(delivery: DiffDelivery, *models: Path) -> None:
    """A page that cannot be written is found out before two models are read."""
    if delivery.report is not None:
        check_target(delivery.report, sources=models, force=delivery.force)


def require_writable(output: Path, *, force: bool) -> None:
    """What can go wrong before a long run that writes one text file."""
    require_runtime()
    check_target(output, force=force)
