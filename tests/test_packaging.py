"""The wheel holds everything the program needs, and nothing else; installed elsewhere, it works."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

from taso_py.rules.location import rules_directory
from tests.conftest import ROOT, cli_environment

SOURCES = ("taso_py", "rules", "pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy: setuptools leaves its build folder in the source tree."""
    folder = tmp_path_factory.mktemp("wheel")
    source = copied(folder / "source")
    run_pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source))
    return next(folder.glob("*.whl"))


def copied(source: Path) -> Path:
    """The sources of the package in a new folder."""
    source.mkdir()
    for name in SOURCES:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, source / name)
    return source


def outside() -> dict[str, str]:
    """An environment from which the checkout cannot be imported, nor taken for an installed package."""
    return {name: value for name, value in cli_environment().items() if name != "PYTHONPATH"}


def run_pip(*arguments: str, python: Path | None = None) -> None:
    target = [] if python is None else ["--python", str(python)]
    command = [sys.executable, "-m", "pip", *target, *arguments, "--no-index", "--disable-pip-version-check"]
    result = subprocess.run(command, capture_output=True, text=True, env=outside())
    assert result.returncode == 0, result.stdout + result.stderr


def run_python(python: Path, *arguments: str) -> str:
    result = subprocess.run([str(python), *arguments], capture_output=True, text=True, env=outside(), cwd="/")
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_wheel_holds_the_package_and_the_rules(wheel: Path) -> None:
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    kinds = (".py", ".lark", ".typed", ".json")
    source = wheel.parent / "source"
    package = {str(path.relative_to(source)) for path in (source / "taso_py").rglob("*") if path.suffix in kinds}
    package = {re.sub("^taso_py/_alias/", "superopt/", name) for name in package}
    assert "superopt/__init__.py" in package
    rules = {f"taso_py/_rules/{path.name}" for path in (source / "rules").glob("*.rules")}
    assert package <= held
    assert rules
    assert rules <= held
    assert {name.split("/")[0] for name in held} == {"taso_py", "superopt"}
    assert not [name for name in held if name.startswith("taso_py/_alias")]


def test_the_metadata_says_what_the_project_declares(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    names = archive.namelist()
    metadata = HeaderParser().parsestr(
        archive.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode()
    )
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = metadata.get_all("Requires-Dist", [])
    assert metadata["Name"] == "superopt"
    assert metadata["Requires-Python"] == "<3.14,>=3.11"
    assert set(metadata.get_all("Provides-Extra", [])) == set(declared["optional-dependencies"])
    assert not [line for line in required if "onnxruntime" in line and "extra ==" not in line]
    assert not [
        line for line in required if line.startswith(("torch", "timm")) and "'bench'" not in line.replace('"', "'")
    ]
    assert {"LICENSE", "NOTICE"} <= {Path(name).name for name in names if ".dist-info/" in name}


@pytest.mark.slow
def test_installed_elsewhere_it_finds_its_rules(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "fresh", with_pip=False, symlinks=True)
    python = tmp_path / "fresh" / "bin" / "python"
    run_pip("install", "--no-deps", str(wheel), python=python)
    # The dependencies are this environment's: a second copy of onnx and z3 would prove nothing more.
    packages = next((tmp_path / "fresh").glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    result = subprocess.run(
        [str(python.with_name("superopt")), "rules", "list"],
        cwd=elsewhere,
        env=outside(),
        capture_output=True,
        text=True,
    )
    assert result.stderr == ""
    assert result.returncode == 0
    assert int(result.stdout.split()[-2]) == len(result.stdout.splitlines()) - 1 > 0
    for program in ("import superopt, taso_py; assert superopt.optimize is taso_py.optimize", "import superopt.errors"):
        run_python(python, "-c", program)
    assert run_python(python, "-m", "superopt", "--version").startswith("superopt")
    located = subprocess.run(
        [str(python), "-c", "from taso_py.rules.location import rules_directory as d; print(d())"],
        cwd=elsewhere,
        env=outside(),
        capture_output=True,
        text=True,
    )
    assert Path(located.stdout.strip()) == packages / "taso_py" / "_rules"


@pytest.mark.slow
def test_an_editable_install_knows_both_names(tmp_path: Path) -> None:
    """From a copy: setuptools leaves its egg-info in the source tree."""
    source = copied(tmp_path / "source")
    venv.create(tmp_path / "fresh", with_pip=False, symlinks=True)
    python = tmp_path / "fresh" / "bin" / "python"
    packages = next((tmp_path / "fresh").glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    run_pip("install", "--no-deps", "--no-build-isolation", "--editable", str(source), python=python)
    program = "import superopt, taso_py; assert superopt.optimize is taso_py.optimize; print(superopt.__file__)"
    assert Path(run_python(python, "-c", program).strip()) == source / "taso_py" / "_alias" / "__init__.py"


def test_in_a_checkout_the_checkout_s_rules_are_used() -> None:
    assert rules_directory() == ROOT / "rules"


def test_the_notice_and_readme_cite_taso() -> None:
    for name in ("NOTICE", "README.md"):
        assert "SOSP" in (ROOT / name).read_text(encoding="utf-8")
