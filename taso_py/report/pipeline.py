"""What a deployment pipeline reads of a run: JUnit XML, and GitHub's summary of the step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from taso_py.errors import SuperoptError
from taso_py.files import append_text, write_text
from taso_py.onnx_io.artifact import model_files
from taso_py.options import Delivery
from taso_py.report.delivery import outputs
from taso_py.report.document import inline, markdown
from taso_py.report.junit import Case, cases_of, cases_of_failure, junit_text
from taso_py.result import Result


def tell_pipeline(result: Result, model: Path, delivery: Delivery) -> None:
    """Write what was asked for about a run that has a result; OutputError like `Result.save`."""
    _write_junit(model, delivery, cases_of(result), result.kept)
    _append_summary(delivery, markdown(result), result.kept)


@contextmanager
def failures_told(model: Path, delivery: Delivery) -> Iterator[None]:
    """The same about a run that ends with an error within the block; what cannot be written then is left out.

    UsageError where two options name one file.
    """
    others = tuple(file for file in outputs(model, delivery) if file != delivery.junit)
    try:
        yield
    except BaseException as error:
        line = " ".join(f"{'' if isinstance(error, SuperoptError) else f'{type(error).__name__}: '}{error}".split())
        kept = (*model_files(model), *others)
        with suppress(SuperoptError):
            _write_junit(model, delivery, cases_of_failure(line, delivery.conditions), kept)
        with suppress(SuperoptError):
            _append_summary(delivery, f"# {inline(model.name)}: error\n\n{inline(line)}\n", kept)
        raise


def _write_junit(model: Path, delivery: Delivery, cases: list[Case], kept: tuple[Path, ...]) -> None:
    if delivery.junit is not None:
        write_text(delivery.junit, junit_text(model.name, cases), sources=kept, force=delivery.force)


def _append_summary(delivery: Delivery, text: str, kept: tuple[Path, ...]) -> None:
    if delivery.summary is not None:
        append_text(delivery.summary, f"{text}\n", sources=kept)
