"""Other Python environments in which a worker may run, because ONNX Runtime's distributions exclude each other.

Such an environment needs numpy and one ONNX Runtime, nothing of ours: the worker's modules are shown to it one
package at a time, never our own site-packages, whose ONNX Runtime would be taken instead of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from taso_py.backend.runtime import DISTRIBUTIONS, require_runtime
from taso_py.errors import RuntimeMissingError
from taso_py.files import parse_json
from taso_py.options.spelling import spelled
from taso_py.paths import is_folder, reason_of, why_no_file
from taso_py.processes.isolated import command, environment

LEAST_PYTHON, LEAST_RUNTIME = (3, 11), (1, 23)
"""The worker's own language, and the first ONNX Runtime that knows all that it asks for."""
_NEEDED = ("numpy", "onnxruntime")
_DESCRIBE_S = 60.0
_PACKAGE = Path(__file__).resolve().parents[1]

# The current folder is not searched: a numpy.py there is none. Old interpreters understand this, too.
_DESCRIBE = """
import sys
sys.path[:] = [place for place in sys.path if place]
import importlib.util, json
from importlib import metadata
found = []
for name in sys.argv[2:]:
    try:
        found.append((name, metadata.version(name)))
    except metadata.PackageNotFoundError:
        pass
lacking = [name for name in sys.argv[1].split() if importlib.util.find_spec(name) is None]
print(json.dumps({"version": list(sys.version_info[:3]), "distributions": found, "lacking": lacking}))
"""
_WORKER = """
import importlib.util, runpy, sys
place = sys.argv[1]
spec = importlib.util.spec_from_file_location("taso_py", place + "/__init__.py", submodule_search_locations=[place])
package = sys.modules["taso_py"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
sys.argv = ["worker", sys.argv[2]]
runpy.run_module("taso_py.backend.worker", run_name="__main__")
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python and what it has of what a worker needs."""

    path: Path
    version: tuple[int, ...]
    distributions: tuple[tuple[str, str], ...]
    """(name, version) of each distribution of ONNX Runtime: one of them, if it shall work."""
    lacking: tuple[str, ...]
    """Packages that are needed and not there."""

    @property
    def fault(self) -> tuple[str, str] | None:
        """Why no worker can run there, and the line that would help; None where one can."""
        if self.version[:2] < LEAST_PYTHON:
            least = ".".join(map(str, LEAST_PYTHON))
            said = ".".join(map(str, self.version))
            return f"is Python {said}, and superopt's workers need {least} or newer", f"python{least} -m venv ENV"
        wanted = self.distributions[0][0] if self.distributions else "onnxruntime"
        if self.lacking:
            missing = " ".join(wanted if name == "onnxruntime" else name for name in self.lacking)
            return f"has no {' and no '.join(self.lacking)}", f"{self.path} -m pip install {missing}"
        if len(self.distributions) > 1:
            listed = ", ".join(f"{name} {version}" for name, version in self.distributions)
            names = " ".join(name for name, _ in self.distributions)
            remedy = f"{self.path} -m pip uninstall -y {names}, then install the one you want"
            return f"has {len(self.distributions)} ONNX Runtimes that overwrite each other ({listed})", remedy
        for name, version in self.distributions:
            if _numbers(version) < LEAST_RUNTIME:
                least = ".".join(map(str, LEAST_RUNTIME))
                remedy = f"{self.path} -m pip install '{name}>={least}'"
                return f"has {name} {version}, and {least} is the oldest that is known", remedy
        return None


def described(path: Path) -> Interpreter:
    """What an interpreter has; RuntimeMissingError where it is none."""
    return _described(absolute(path))


def absolute(path: Path) -> Path:
    """Not resolved: the python of a virtual environment is a link to one that knows nothing of it."""
    return Path(os.path.abspath(path))  # noqa: PTH100


@cache
def _described(path: Path) -> Interpreter:
    called = spelled("ep_python", path)
    if is_folder(path):
        raise RuntimeMissingError(f"{called} is a directory: name the python in it, {path / 'bin' / 'python'}")
    if (why := why_no_file(path)) is not None:
        raise RuntimeMissingError(f"{called}: {why}: python3 -m venv makes an interpreter")
    words = [str(path), "-c", _DESCRIBE, " ".join(_NEEDED), *DISTRIBUTIONS]
    try:
        done = subprocess.run(
            words, env=foreign_environment(), capture_output=True, encoding="utf-8", errors="replace",
            timeout=_DESCRIBE_S, check=False,
        )  # fmt: skip
    except OSError as error:
        raise RuntimeMissingError(f"{called} cannot be started: {reason_of(error)}") from None
    except subprocess.TimeoutExpired:
        raise RuntimeMissingError(f"{called} did not answer within {_DESCRIBE_S:.0f} s") from None
    try:
        return _read(path, done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError, KeyError, TypeError):
        last = " ".join(done.stderr.split())[-200:] or f"exit code {done.returncode}"
        raise RuntimeMissingError(f"{called} does not answer as a Python does: {last}") from None


def _read(path: Path, answer: str) -> Interpreter:
    """What the program above prints; ValueError, KeyError or TypeError where it was not that."""
    told = parse_json(answer)
    version, lacking = tuple(told["version"]), tuple(told["lacking"])
    distributions = tuple((name, number) for name, number in told["distributions"])
    texts = (*lacking, *(text for pair in distributions for text in pair))
    if not all(isinstance(number, int) for number in version) or not all(isinstance(text, str) for text in texts):
        raise TypeError
    return Interpreter(path, version, distributions, lacking)


def require_interpreter(path: Path) -> Interpreter:
    """What it has; RuntimeMissingError, with the line that would help, where no worker can run there."""
    found = described(path)
    if found.fault is not None:
        why, remedy = found.fault
        raise RuntimeMissingError(f"{spelled('ep_python', path)} {why}: {remedy}")
    return found


def runtime_of(python: str | None) -> tuple[str, str]:
    """(name, version) of the ONNX Runtime that workers of an interpreter have; None: of our own.

    RuntimeMissingError where there is none, or more than one.
    """
    if python is None:
        return require_runtime()
    found = require_interpreter(Path(python))
    # A build of one's own has no entry among the distributions.
    return found.distributions[0] if found.distributions else ("onnxruntime", "")


def worker_command(python: str | None, descriptor: int) -> list[str]:
    """How a worker is started, by our own interpreter or by another."""
    if python is None:
        return command("taso_py.backend.worker", str(descriptor))
    return [python, "-P", "-c", _WORKER, str(_PACKAGE), str(descriptor)]


def worker_environment(python: str | None) -> dict[str, str]:
    """The environment variables that go with `worker_command`."""
    return environment() if python is None else foreign_environment()


def foreign_environment() -> dict[str, str]:
    """The parent's environment without what leads another interpreter to our packages."""
    ours = {"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP"}
    return {name: text for name, text in os.environ.items() if name not in ours} | {"ORT_DISABLE_TELEMETRY": "1"}


def own_interpreter() -> Interpreter:
    """The one that we run under."""
    return described(Path(sys.executable))


def _numbers(version: str) -> tuple[int, ...]:
    """``1.24.1`` as numbers, as far as it consists of them."""
    found: list[int] = []
    for part in version.split("."):
        if not part.isdigit():
            break
        found.append(int(part))
    return tuple(found)
