"""Building and installing the package with what this environment has: no registry is asked."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tests.conftest import ROOT, cli_environment

SOURCES = ("taso_py", "rules", "pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE")


def source_copy(folder: Path, *more: str) -> Path:
    """What a build needs, and ``more``, copied: setuptools leaves its build folder in the source tree."""
    folder.mkdir()
    for name in (*SOURCES, *more):
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, folder / name)
    return folder


def outside() -> dict[str, str]:
    """An environment from which the checkout cannot be imported, nor taken for an installed package."""
    return {name: value for name, value in cli_environment().items() if name != "PYTHONPATH"}


def run_pip(*arguments: str, python: Path | None = None) -> None:
    target = [] if python is None else ["--python", str(python)]
    command = [sys.executable, "-m", "pip", *target, *arguments, "--no-index", "--disable-pip-version-check"]
    result = subprocess.run(command, capture_output=True, text=True, env=outside())
    assert result.returncode == 0, result.stdout + result.stderr


def fresh_environment(folder: Path) -> Path:
    """The interpreter of a new environment that has nothing, not even pip."""
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python"


def lend_dependencies(folder: Path) -> None:
    """Let the environment of ``folder`` import this one's packages: second copies would prove nothing."""
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
