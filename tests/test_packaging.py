"""The wheel holds everything the program needs, and nothing else; installed elsewhere, it works."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import onnx
import pytest

from taso_py.cli import superopt
from taso_py.rules.location import rules_directory
from tests.conftest import ROOT, tiny_network
from tests.helpers.interpreters import script
from tests.helpers.judging import DOUBLE
from tests.helpers.packaging import fresh_environment, lend_dependencies, outside, run_pip, source_copy
from tests.helpers.said import said


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source archive, and the wheel that was built from that archive alone."""
    folder = tmp_path_factory.mktemp("archives")
    source = source_copy(folder / "source")
    backend = "from setuptools import build_meta; print(build_meta.build_sdist(__import__('sys').argv[1]))"
    built = subprocess.run(
        [sys.executable, "-c", backend, str(folder)], cwd=source, env=outside(), capture_output=True, text=True
    )
    assert built.returncode == 0, built.stdout + built.stderr
    archive = next(folder.glob("*.tar.gz"))
    run_pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(archive))
    return folder


@pytest.fixture(scope="module")
def wheel(archives: Path) -> Path:
    return next(archives.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment in which only the wheel is installed, and this one's packages are lent."""
    folder = tmp_path_factory.mktemp("installed") / "fresh"
    python = fresh_environment(folder)
    run_pip("install", "--no-deps", str(wheel), python=python)
    lend_dependencies(folder)
    return python.with_name("superopt")


def run_python(python: Path, *arguments: str) -> str:
    result = subprocess.run([str(python), *arguments], capture_output=True, text=True, env=outside(), cwd="/")
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_wheel_holds_the_package_and_the_rules(wheel: Path) -> None:
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    source = wheel.parent / "source"
    package = {str(path.relative_to(source)) for path in (source / "taso_py").rglob("*") if path.is_file()}
    package = {re.sub("^taso_py/_alias/", "superopt/", name) for name in package}
    assert "superopt/__init__.py" in package
    rules = {f"taso_py/_rules/{path.name}" for path in (source / "rules").iterdir()}
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


def test_a_source_archive_holds_all_that_the_wheel_is_made_of(archives: Path, wheel: Path) -> None:
    with tarfile.open(next(archives.glob("*.tar.gz"))) as archive:
        held = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {"pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE"} <= held
    modules = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    sources = {re.sub("^superopt/", "taso_py/_alias/", name).replace("taso_py/_rules/", "rules/") for name in modules}
    assert sources <= held


@pytest.mark.slow
def test_installed_elsewhere_it_finds_its_rules(installed: Path, tmp_path: Path) -> None:
    result = command(installed, tmp_path, "rules", "list")
    assert result.stderr == ""
    assert result.returncode == 0
    assert int(result.stdout.split()[-2]) == len(result.stdout.splitlines()) - 1 > 0
    python = installed.with_name("python")
    for program in ("import superopt, taso_py; assert superopt.optimize is taso_py.optimize", "import superopt.errors"):
        run_python(python, "-c", program)
    assert run_python(python, "-m", "superopt", "--version").startswith("superopt")
    located = subprocess.run(
        [
            str(installed.with_name("python")),
            "-c",
            "from taso_py.rules.location import rules_directory as d; print(d())",
        ],
        cwd=tmp_path,
        env=outside(),
        capture_output=True,
        text=True,
    )
    packages = next(installed.parents[1].glob("lib/python*/site-packages"))
    assert Path(located.stdout.strip()) == packages / "taso_py" / "_rules"


@pytest.mark.slow
def test_an_editable_install_knows_both_names(tmp_path: Path) -> None:
    """From a copy: setuptools leaves its egg-info in the source tree."""
    source = source_copy(tmp_path / "source")
    python = fresh_environment(tmp_path / "fresh")
    lend_dependencies(tmp_path / "fresh")
    run_pip("install", "--no-deps", "--no-build-isolation", "--editable", str(source), python=python)
    program = "import superopt, taso_py; assert superopt.optimize is taso_py.optimize; print(superopt.__file__)"
    assert Path(run_python(python, "-c", program).strip()) == source / "taso_py" / "_alias" / "__init__.py"


def test_installed_elsewhere_every_command_runs(installed: Path, tmp_path: Path) -> None:
    onnx.save(tiny_network(), tmp_path / "a.onnx")
    (tmp_path / "own.rules").write_text(DOUBLE)
    for arguments in COMMANDS:
        result = command(installed, tmp_path, *arguments.split())
        assert (result.returncode, said(result.stderr)) == (0, ""), f"{arguments}: {result.stderr}"
    assert {name for line in COMMANDS if (name := line.split()[0]) != "--help"} == set(superopt.commands)
    assert (tmp_path / "b.onnx").read_bytes() == (tmp_path / "e.onnx").read_bytes()


def test_another_environment_sees_the_installed_package_and_nothing_beside_it(installed: Path, tmp_path: Path) -> None:
    """Beside it lies an ONNX Runtime, which would hide the other's own."""
    onnx.save(tiny_network(), tmp_path / "a.onnx")
    place = tmp_path / "beside"
    place.mkdir()
    told = tmp_path / "paths"
    source = f"import sys\nwith open({str(told)!r}, 'a') as file:\n    print(*sys.path, file=file)\n"
    (place / "sitecustomize.py").write_text(source)
    python = script(tmp_path / "python", f'PYTHONPATH="{place}" exec "{sys.executable}" "$@"')
    result = command(installed, tmp_path, "bench", "a.onnx", "--rounds", "2", "--block", "0.01", "--ep-python", python)
    assert (result.returncode, result.stderr) == (0, "")
    starts = told.read_text().splitlines()
    assert len(starts) >= 2  # it is looked at, and a worker runs
    assert all(str(place) in line and str(installed.parents[1]) not in line for line in starts)


COMMANDS = (
    "--help",
    "optimize a.onnx -o b.onnx --no-race --quiet --certificate c.json --record d.json --report r.html",
    "apply a.onnx d.json -o e.onnx",
    "diff a.onnx b.onnx --report diff.html",
    "certify a.onnx b.onnx c.json",
    "check a.onnx b.onnx",
    "bench a.onnx b.onnx --rounds 2 --block 0.01",
    "inspect a.onnx",
    "eps --test cpu",
    "rules list",
    "rules show double --rules own.rules --obligations",
    "verify",
    "generate --set taso --ops relu --max-operators 1 --workers 1 -o g.rules",
    "schema result",
    "config optimize",
    "completion bash",
    "cache show",
)


def command(installed: Path, place: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the installed command in a folder of its own."""
    environment = outside() | {"SUPEROPT_CACHE": str(place / "cache.sqlite")}
    return subprocess.run([str(installed), *arguments], cwd=place, env=environment, capture_output=True, text=True)


def test_in_a_checkout_the_checkout_s_rules_are_used() -> None:
    assert rules_directory() == ROOT / "rules"


def test_the_notice_and_readme_cite_taso() -> None:
    for name in ("NOTICE", "README.md"):
        assert "SOSP" in (ROOT / name).read_text(encoding="utf-8")


UNMAPPED = {"_alias", "arrays", "errors", "files", "folders", "paths", "version"}
"""What says by its name what it is, and the alias that the README has a sentence for."""


def test_the_map_of_the_readme_has_every_part_and_stays_short() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    parts = {p.stem for p in (ROOT / "taso_py").iterdir() if p.suffix == ".py" or (p.is_dir() and p.name[:2] != "__")}
    rows = [row.split("|")[1] for row in text.partition("## A map of the code")[2].splitlines() if row.startswith("| ")]
    mapped = set(re.findall(r"`(\w+)`", " ".join(rows)))
    assert mapped - {"taso_py"} == {p for p in parts if not p.startswith("__")} - UNMAPPED
    assert len(text.split()) < 900
