"""What a written model says of how it was made: metadata under `superopt.`, read again by later runs.

Nothing in it depends on the clock.  What was not timed (``race=False``) does not depend on the machine either, so that
the machine is not named there and the bytes are the same everywhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import onnx

from taso_py.approximate.record import Approximation
from taso_py.backend.accelerators import gpu_of
from taso_py.backend.interpreters import runtime_of
from taso_py.backend.protocol import WorkerConfig
from taso_py.backend.runtime import available_threads, cpu_name, installed_distributions
from taso_py.certificate.digest import digest
from taso_py.certificate.document import Digest
from taso_py.check.shapes import Assignment
from taso_py.files import load_arrays
from taso_py.onnx_io.ours import Key, free_keys, is_ours, metadata_of
from taso_py.options import Options
from taso_py.options.field import declared
from taso_py.providers.choosing import interpreter_of
from taso_py.result import plain
from taso_py.rules.library import Library
from taso_py.version import VERSION

MACHINE: Mapping[Key, str] = MappingProxyType(
    {Key.RUNTIME: "ONNX Runtime", Key.CPU: "CPU", Key.GPU: "GPU", Key.PROVIDER: "provider", Key.THREADS: "threads"}
)
"""What a speed-up holds for, and what it is called."""
_ELSEWHERE = {"cache", "provenance", "strict", "rules"}
"""Fields that do not decide which model comes out, or are told otherwise."""
_TIMED = {"time_budget_s", "min_gain"}
"""Fields that decide only where something is timed."""
_OF_MACHINE = {"ep", "threads"}


def stated(model: onnx.ModelProto) -> dict[str, str]:
    """What a model says of its making: metadata of ours, not others under our prefix."""
    return {key: text for key, text in metadata_of(model).items() if is_ours(key, text)}


def identity(source: Path | onnx.ModelProto, options: Options, library: Library) -> dict[str, str]:
    """What decides which model a run writes: version, rules, options, original and, where it is timed, the machine."""
    found = {Key.RULES: _digest(f"{rule.name} {rule.id}" for rule in library.all()), Key.OPTIONS: _options(options)}
    here: dict[str, str] = {}
    if options.race:
        here = machine(options.provider, options.threads, interpreter_of(options.provider, options.ep_python))
    return found | _original(digest(source)) | here


def made_again(told: Mapping[str, str], original: Digest) -> dict[str, str]:
    """What decisions say of their making, for another model or a part of their steps: nothing was timed there."""
    kept = {key: _original(original).get(key, text) for key, text in told.items() if key not in MACHINE}
    return kept | {Key.APPLIED: "untimed"} if kept else {}


def approximate(model: onnx.ModelProto, source: Path | onnx.ModelProto, told: Approximation) -> dict[str, str]:
    """What an approximate model says of itself beside what the exact one said: what is not proved, and its error."""
    kept = {key: text for key, text in stated(model).items() if key not in (Key.OPTIONS, Key.RULES)}
    about = {
        "kind": told.kind, "budget": told.budget, "error": plain(told.error), "samples": told.test_samples,
        "random": told.random_data, "layers": [one.name for one in told.approximated], "exact": told.exact_sha256,
    }  # fmt: skip
    found = {Key.VERSION: VERSION, **_original(digest(source)), **kept, Key.APPROXIMATE: json.dumps(about)}
    free = free_keys(metadata_of(model))
    return {key: text for key, text in found.items() if key in free}


def _original(files: Digest) -> dict[str, str]:
    found: dict[str, str] = {Key.ORIGINAL: files.sha256}
    if files.external:
        found[Key.DATA] = _digest(f"{name} {text}" for name, text in files.external.items())
    return found


def shapes_text(assignments: Iterable[Assignment]) -> str:
    """The sizes of every workload."""
    return " | ".join(one.describe() for one in assignments)


def machine(provider: str, threads: int | None, python: str | None = None) -> dict[str, str]:
    """What the figures of a run here hold for; without ONNX Runtime, nothing is said of its version."""
    installed = installed_distributions() if python is None else [runtime_of(python)]
    version = {Key.RUNTIME: installed[0][1]} if len(installed) == 1 else {}
    gpu = gpu_of(provider)
    here: dict[str, str] = {
        **({} if gpu is None else {Key.GPU: gpu}),
        Key.CPU: cpu_name(),
        Key.PROVIDER: provider,
        Key.THREADS: str(threads or available_threads()),
    }
    return here | version


def differences(told: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    """What a model was made for that is otherwise here, in words."""
    unlike = [key for key in MACHINE if key in told and key in here and told[key] != here[key]]
    return [f"{MACHINE[key]} {_line(told[key])} (here {here[key]})" for key in unlike]


def machine_note(name: str, model: onnx.ModelProto, config: WorkerConfig) -> tuple[str, ...]:
    """One line where a model was optimised for something else than what runs it here."""
    unlike = differences(stated(model), machine(config.ep, config.threads, config.python))
    if not unlike:
        return ()
    words = "its speed-up may not hold here: optimise the original again"
    return (f"{name} was optimised for {', '.join(unlike)}; {words}",)


def _options(options: Options) -> str:
    """The fields that differ from their defaults, by their option, as JSON; files by what they hold."""
    left_out = _ELSEWHERE | (_OF_MACHINE if options.race else _TIMED)
    told: dict[str, Any] = {}
    for field in declared(Options):
        value = getattr(options, field.name)
        if field.name not in left_out and value != field.default:
            told[field.flag.name[2:]] = _said(field.name, value)
    return json.dumps(told, sort_keys=True)


def _said(name: str, value: Any) -> Any:
    if name == "inputs":
        return {key: _digest((str(a.dtype), str(a.shape), repr(a.tobytes()))) for key, a in load_arrays(value).items()}
    return not value if name == "race" else plain(value)


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _line(text: str) -> str:
    """A text of somebody's file on one line that is not too long."""
    return " ".join(text.split())[:100]
