"""Other environments for tests: stubs that behave as a test says, and the real one of OpenVINO where it is set up."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

OPENVINO = "OpenVINOExecutionProvider"
_NAMED = "OPENVINO_PYTHON"


def openvino_python() -> Path:
    """The interpreter of an environment with onnxruntime-openvino; the test is skipped where there is none."""
    named = os.environ.get(_NAMED)
    path = Path(named) if named else ROOT / ".venv" / "openvino" / "bin" / "python"
    if not path.exists():
        pytest.skip(f"no OpenVINO: {_NAMED} names no interpreter that has it, and make test-eps was not run")
    return path


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
