"""Other environments for tests: stubs that behave as a test says, and the real one of OpenVINO where it is set up."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from taso_py.providers.listing import list_providers
from tests.conftest import ROOT

OPENVINO = "OpenVINOExecutionProvider"
_NAMED = "OPENVINO_PYTHON"


def openvino_python() -> Path:
    """The interpreter of an environment with onnxruntime-openvino; the test is skipped where there is none."""
    named = os.environ.get(_NAMED)
    path = ROOT / (named or Path(".venv", "openvino", "bin", "python"))
    if not path.exists():
        pytest.skip(f"no OpenVINO: {_NAMED} names no interpreter that has it, and make test-eps was not run")
    return path


def require_cuda() -> None:
    """The test is skipped where our own ONNX Runtime cannot use CUDA."""
    found = next(one for one in list_providers(()).providers if one.ep == "cuda")
    if not found.usable:
        pytest.skip(f"no CUDA: {found.why}")


def script(path: Path, body: str) -> Path:
    """An executable shell script in the place of an interpreter."""
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def wrapped_python(folder: Path, module: str, source: str, *, prefix: str = "") -> Path:
    """Our own interpreter, under which one more module is found, before an installed one of that name.

    ``prefix`` are lines of the shell before it starts.
    """
    place = folder / "modules"
    place.mkdir(exist_ok=True)
    (place / f"{module}.py").write_text(source, encoding="utf-8")
    return script(folder / "python", f'{prefix}\nPYTHONPATH="{place}" exec "{sys.executable}" "$@"')


def described_as(folder: Path, answer: str) -> Path:
    """An interpreter that says this of itself and can do nothing else."""
    return script(folder / "python", f"echo '{answer}'")


STUB = "StubExecutionProvider"
_STUB = """
import json, os, pathlib, signal, sys, time
import numpy as np
import onnxruntime as ort

STUB, CPU = "{name}", "CPUExecutionProvider"
real = ort.InferenceSession
ort.get_available_providers = lambda: [STUB, CPU]


class Session(real):
    def __init__(self, source, options=None, providers=None, **further):
        given = [(one, {{}}) if isinstance(one, str) else one for one in providers]
        self.stub = any(name == STUB for name, _ in given)
        self.given = dict(given)
        if self.stub:
            self.before(source)
        super().__init__(source, options, providers=[CPU], **further)

    def before(self, source):
        {before}

    def after(self, outputs):
        {after}

    def get_providers(self):
        return [STUB, CPU] if self.stub else [CPU]

    def get_provider_options(self):
        return {{name: dict(options) for name, options in self.given.items()}}

    def run(self, names, feeds, run_options=None):
        outputs = super().run(names, feeds, run_options)
        return self.after(outputs) if self.stub else outputs

    def end_profiling(self):
        name = super().end_profiling()
        if self.stub:
            file = pathlib.Path(name)
            lines = file.read_text().splitlines()
            file.write_text("\\n".join(line.replace(CPU, STUB) if {takes} else line for line in lines))
        return name


ort.InferenceSession = Session
"""


def stub_provider(
    folder: Path,
    *,
    before: str = "pass",
    after: str = "return outputs",
    takes: str = "True",
    log: Path | None = None,
    name: str = STUB,
) -> Path:
    """An interpreter whose ONNX Runtime has a provider of that name, which is the CPU's but for what a test says.

    ``before`` is run with ``source`` when a session is made, ``after`` with the list ``outputs`` of each run.
    ``takes`` says of a ``line`` of the profile, an event, whether the provider ran it or the CPU's did.  Each start of
    the interpreter is a line of ``log``.
    """
    source = _STUB.format(before=before, after=after, takes=takes, name=name)
    return wrapped_python(folder, "sitecustomize", source, prefix="" if log is None else f'echo "$@" >> "{log}"')
