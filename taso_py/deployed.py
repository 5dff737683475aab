"""Running a result as it was timed: a session of ONNX Runtime in the caller's own process.

The only part of the package that loads ONNX Runtime where it is called; it needs none of our other dependencies.
"""

from __future__ import annotations

import mmap
import re
import warnings
from functools import cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taso_py.backend.accelerators import load_libraries
from taso_py.errors import ModelError, RuntimeMissingError, UsageError
from taso_py.files import require_model_file
from taso_py.paths import exists, is_file
from taso_py.providers.record import SessionRecord, read_record, session_file, sha256_of

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

_CPU = "CPUExecutionProvider"
_LEVELS = {"disable": "DISABLE_ALL", "basic": "ENABLE_BASIC", "extended": "ENABLE_EXTENDED", "layout": "ENABLE_LAYOUT"}
"""ONNX Runtime's names of levels; "all" is its default."""
_LOCATION = re.compile(rb"j(?:[\x00-\x7f]|[\x80-\xff][\x00-\x7f])\n\x08location")
"""An entry of TensorProto.external_data, field 13, of up to 16383 bytes, whose key comes first."""


def session(model: str | PathLike[str], *, allow_library: bool = False) -> InferenceSession:
    """An onnxruntime.InferenceSession of a model, made as the file MODEL.session.json beside it says.

    Without such a file it is the default session of the CPU provider.  Where an error budget was given, the file may
    ask for less precision, and the session has it.  ``allow_library``: the file is trusted to name a library of
    providers, or provider options other than superopt's own, which may lead to code.  Raises ModelError for
    a model that is missing or cannot be loaded, UsageError for a session file that is damaged, belongs to another
    model or is not trusted so far, RuntimeMissingError where this process has not the provider.
    """
    path = Path(model)
    require_model_file(path)
    file = session_file(path)
    if not exists(file):
        return _session(path, [_CPU], None)
    record = read_record(file)
    if sha256_of(path) != record.sha256:
        raise UsageError(
            f"{file} belongs to another file than {path} as it is now (their sha256 differ): "
            "optimise again, or remove it for the default session"
        )
    _require_weights(path, record, file)
    trusted = record.needs_consent
    if trusted is not None and not allow_library:
        raise UsageError(f"{file} names {trusted}, which may load code: allow_library=True if you trust it")
    _warn_elsewhere(record, file)
    return _session(path, _providers(record, file), record)


def _require_weights(path: Path, record: SessionRecord, file: Path) -> None:
    """The files of weights beside the model are those that it was timed with; UsageError where one is not."""
    if not record.external and _has_weights_outside(path):
        raise UsageError(
            f"{file} does not say which weights {path} is for, whose weights are in other files: "
            "optimise again, or remove it for the default session"
        )
    for name, sha256 in record.external.items():
        data = path.parent / name
        if not is_file(data):
            raise ModelError(f"{data}, which holds weights of {path}, is missing: put it beside the model")
        if sha256_of(data) != sha256:
            raise UsageError(
                f"{file} is for other weights than those in {data} (their sha256 differ): "
                "optimise again, or remove it for the default session"
            )


def _warn_elsewhere(record: SessionRecord, file: Path) -> None:
    """Says of an approximation that its error was measured with another ONNX Runtime than this one."""
    here = _runtime().__version__
    if record.approximation is not None and record.ort_version not in ("", here):
        words = f"was measured with ONNX Runtime {record.ort_version}, and this is {here}: check it again"
        warnings.warn(f"{file}: the error of this approximation {words}", stacklevel=3)


def _has_weights_outside(path: Path) -> bool:
    """Whether a tensor in the model's file has the `location` of its data, as protobuf writes that: without onnx."""
    with path.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return _LOCATION.search(text) is not None


def _providers(record: SessionRecord, file: Path) -> list[Any] | None:
    """What a session is given; None for a plugin's provider."""
    ort = _runtime()
    if record.library is not None:
        _load(ort, record.library)
        return None
    available = ort.get_available_providers()
    if record.ep not in available:
        where = "superopt's own environment" if record.python is None else record.python
        raise RuntimeMissingError(
            f"{file} asks for {record.ep}, which ONNX Runtime {ort.__version__} has not here: it was timed with "
            f"{record.distribution} {record.ort_version} under {where}: run there, or remove the file"
        )
    own: list[Any] = [(record.ep, dict(record.options))]
    return own if record.ep == _CPU else [*own, _CPU]


def _session(path: Path, providers: list[Any] | None, record: SessionRecord | None) -> InferenceSession:
    ort = _runtime()
    options = ort.SessionOptions()
    if record is not None:
        missing = load_libraries(ort, record.ep)
        if record.threads is not None:
            options.intra_op_num_threads = record.threads
        if record.ort_level in _LEVELS:
            options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{_LEVELS[record.ort_level]}")
        if providers is None:
            options.add_provider_for_devices(_devices(ort, record), dict(record.options))
    try:
        made = ort.InferenceSession(str(path), options, providers=providers, enable_fallback=0)
    except Exception as error:
        raise ModelError(f"{path}: ONNX Runtime cannot make a session of it: {' '.join(str(error).split())}") from error
    if record is not None and record.ep not in made.get_providers():
        raise RuntimeMissingError(
            f"{record.ep} is part of this ONNX Runtime but cannot start: see superopt eps{missing and f' ({missing})'}"
        )
    return made


def _devices(ort: Any, record: SessionRecord) -> list[Any]:
    found = [one for one in ort.get_ep_devices() if one.ep_name == record.ep]
    if not found:
        raise RuntimeMissingError(f"{record.library} offers no device of {record.ep} here: see superopt eps")
    return found


@cache  # ONNX Runtime takes a library once in a process
def _load(ort: Any, library: str) -> None:
    try:
        ort.register_execution_provider_library(Path(library).stem, library)
    except Exception as error:
        words = " ".join(str(error).split())
        raise RuntimeMissingError(f"the provider library {library} cannot be loaded: {words}") from error


def _runtime() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        words = "ONNX Runtime is not installed: run `pip install 'superopt[cpu]'`"
        raise RuntimeMissingError(f"{words} ({error})") from None
    return onnxruntime
