"""Where results go: what can go wrong there is found out before a long run."""

from __future__ import annotations

from pathlib import Path

from taso_py.backend.runtime import require_runtime
from taso_py.errors import UsageError
from taso_py.files import check_appendable, check_target, require_model_file
from taso_py.options import Delivery
from taso_py.result import Result


def require_deliverable(model: Path, delivery: Delivery) -> None:
    """Everything that can go wrong before the long run: no runtime, no model, a file that cannot be written."""
    require_runtime()
    require_model_file(model)
    target = delivery.target(model)
    if not delivery.dry_run:
        check_target(target, sources=(model,), force=delivery.force)
    taken = {target.absolute(): "--output"}
    others = {"--report": delivery.report, "--certificate": delivery.certificate, "--junit": delivery.junit}
    for name, file in others.items():
        if file is not None:
            if (other := taken.setdefault(file.absolute(), name)) != name:
                raise UsageError(f"{name} and {other} are both {file}: choose two names")
            check_target(file, sources=(model, target), force=delivery.force)
    if delivery.summary is not None:
        check_appendable(delivery.summary, sources=(model, *(Path(file) for file in taken)))


def delivered(result: Result, model: Path, delivery: Delivery) -> Result:
    """The result with its model and its certificate written, and judged by the gate."""
    if not delivery.dry_run:
        result = result.save(delivery.target(model), force=delivery.force)
    if delivery.certificate is not None:
        result.save_certificate(delivery.certificate, force=delivery.force)
    return result.judged(delivery.conditions)


def require_writable(output: Path, *, force: bool) -> None:
    """What can go wrong before a long run that writes one text file."""
    require_runtime()
    check_target(output, force=force)
