"""What callers of `taso_py.api` may hand over, brought into the one form that is worked with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike, fsdecode
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from taso_py.errors import UsageError
from taso_py.options.field import shown
from taso_py.progress import CallingProgress, Progress, ProgressReport, SilentProgress, is_progress
from taso_py.stop import StopFlag

if TYPE_CHECKING:
    import onnx
    import onnx_ir

File: TypeAlias = "str | PathLike[str]"
Model: TypeAlias = "str | PathLike[str] | bytes | onnx.ModelProto | onnx_ir.Model"
Listener: TypeAlias = "Progress | Callable[[ProgressReport], object]"
"""Who hears how far a call is: a function of one argument, or an object with the methods of `Progress`."""


def flag_of(stop: StopFlag | None) -> StopFlag:
    """The caller's own flag: one that is not set yet is false, and counts."""
    return StopFlag() if stop is None else stop


def listener_of(progress: Listener | None) -> Progress:
    """Whoever is to hear of progress, with all the methods of `Progress`; UsageError for what cannot hear."""
    if progress is None:
        return SilentProgress()
    if is_progress(progress):
        return progress
    if callable(progress) and not isinstance(progress, type):
        return CallingProgress(progress)
    words = "a function of one taso_py.ProgressReport, or an object with the methods of taso_py.progress.Progress"
    raise UsageError(f"progress={shown(progress)}: must be {words}")


def model_of(model: Model) -> Path | onnx.ModelProto:
    """A model's file, or the model itself; UsageError for what is neither."""
    if isinstance(model, str | PathLike):
        return Path(fsdecode(model))
    from taso_py.onnx_io.given import proto_of

    found = proto_of(model)
    if found is None:
        kinds = "a file name, an onnx.ModelProto, an onnx_ir.Model, or the bytes of a model"
        raise UsageError(f"model={shown(model)}: must be {kinds}")
    return found


def models_of(models: Sequence[Model]) -> list[Path | onnx.ModelProto]:
    """The same of several; UsageError for none."""
    return [model_of(model) for model in _several("models", models)]


def files_of(name: str, files: Sequence[File]) -> list[Path]:
    """File names as paths; UsageError, which calls the argument ``name``, for anything else."""
    found = []
    for file in _several(name, files, least=0 if name == "files" else 1):
        if not isinstance(file, str | PathLike):
            raise UsageError(f"{name}={shown(file)}: must be file names")
        found.append(Path(fsdecode(file)))
    return found


def _several(name: str, given: Sequence[Any], least: int = 1) -> Sequence[Any]:
    if isinstance(given, str | PathLike | bytes) or not isinstance(given, Sequence):
        raise UsageError(f"{name}={shown(given)}: must be a list")
    if len(given) < least:
        raise UsageError(f"{name}={shown(given)}: must name at least one file")
    return given
