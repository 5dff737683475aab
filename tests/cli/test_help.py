"""What --help shows: every option under a heading, and examples that all work."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click
import numpy as np
import onnx
import pytest

import taso_py.cli
from taso_py.cli import superopt
from taso_py.cli.command import UNGROUPED, Command
from taso_py.cli.settings import leaves
from taso_py.options.field import Group, declared
from tests.cli.test_cli_options import RECORDS
from tests.conftest import cli_environment
from tests.helpers.forked import Server
from tests.helpers.graphs import model

COMMANDS = {" ".join(names): command for names, command in leaves(superopt)}
SMALL = """agraph (float[batch,4] x) => (float[batch,4] y) {
  h = MatMul(x, a) i = Relu(h) j = Relu(i) y = MatMul(j, b)}"""
POLARIZATION = """rule polarization "Four products out of two squares.":
  Sub(Mul(Add(x, y), Add(x, y)), Mul(Sub(x, y), Sub(x, y))) => Mul(4, Mul(x, y))
  for x[*s], y[*s]
"""
GOAL = "rule four: Neg(Neg(Neg(Neg(x)))) => x\n"
OWN = "rule negative: Neg(Neg(x)) => x\n"
_OF_SHELLS = re.compile(r"[^\w\s./=:,-]")
"""Characters that may mean something to a shell: a line without them needs none."""


def examples(command: click.Command) -> tuple[str, ...]:
    assert isinstance(command, Command)
    return command.examples


def test_every_option_has_a_heading() -> None:
    for kind in RECORDS:
        for one in declared(kind):
            words = (
                f"{kind.__name__}.{one.name} ({one.flag.name}) has no heading: give it option(..., group=...), one of"
            )
            assert one.flag.group in get_args(Group), f"{words} {', '.join(get_args(Group))}"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_and_every_option_under_its_heading(name: str) -> None:
    command = COMMANDS[name]
    text = command.get_help(command.make_context(f"superopt {name}", [], resilient_parsing=True))
    assert UNGROUPED not in text
    assert text.index("Examples:") < text.index("General:")
    assert examples(command)
    for line in examples(command):
        assert f"\n  {line}\n" in text
        assert line.startswith(f"superopt {name}")
    heading, found = "", {}
    for line in text.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            heading = line[:-1]
        elif line.startswith("  -"):
            found[line.split("  ")[1].split(" ")[0].rstrip(",")] = heading
    options = [one for one in command.params if isinstance(one, click.Option)]
    assert found.pop("-h") == "General"
    assert found == {one.opts[0]: one.field.flag.group for one in options}


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that the examples name, and `superopt` in bin."""
    folder = tmp_path_factory.mktemp("examples")
    onnx.save(model(SMALL, a=(4, 4), b=(4, 4)), folder / "model.onnx")
    result = taso_py.optimize(folder / "model.onnx", race=False, threads=1).save(folder / "faster.onnx")
    result.save_certificate(folder / "faster.json")
    result.save_decisions(folder / "decisions.json")
    onnx.save(model(SMALL, a=(4, 4), b=(4, 4), seed=1), folder / "retrained.onnx")
    (folder / "my.rules").write_text(POLARIZATION)
    (folder / "own.rules").write_text(OWN)
    (folder / "goals.rules").write_text(GOAL)
    (folder / "measurements.jsonl").touch()
    np.save(folder / "x.npy", np.ones((1, 4), np.float32))
    (folder / ".config" / "fish" / "completions").mkdir(parents=True)
    (folder / "bin").mkdir()
    program = folder / "bin" / "superopt"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m taso_py "$@"\n')
    program.chmod(0o755)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for command in COMMANDS.values() for line in examples(command)])
def test_every_example_works(line: str, stock: Path, servers: Iterator[Server], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(stock, tmp_path / "here"))
    if line.startswith(("superopt optimize", "superopt apply")):  # nothing lies where the result goes
        for name in ("faster.onnx", "faster.json"):
            (folder / name).unlink()
    known = {*folder.iterdir()}
    budget = "12" if "--rules" in line else "3"  # the rules of a file are proved first, beside other tests
    short = {"SUPEROPT_TIME_BUDGET": budget, "SUPEROPT_ROUNDS": "2", "SUPEROPT_BLOCK": "0.01"}
    environment = cli_environment(short | {"HOME": str(folder), "SUPEROPT_CACHE": str(tmp_path / "cache.sqlite")})
    environment["PATH"] = f"{folder / 'bin'}:{environment['PATH']}"
    if _OF_SHELLS.search(line):
        done = subprocess.run(
            ["/bin/sh", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
        )
    else:
        done = next(servers).run(shlex.split(line)[1:], cwd=folder, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout or {*folder.iterdir()} - known or ">" in line


@pytest.mark.parametrize("arguments", [[], ["rules"]])
def test_no_summary_of_a_command_is_cut(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert taso_py.cli.main([*arguments, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Commands:" in shown
    assert "..." not in shown.partition("Commands:")[2]


def test_what_an_interrupt_does_stands_with_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert taso_py.cli.main(["--help"]) == 0
    rows = re.split(r"^  (?=  \d)", capsys.readouterr().out.partition("Exit codes:")[2], flags=re.MULTILINE)
    (row,) = [row for row in rows if "first" in row]
    assert row.split()[:2] == ["130", "Ctrl-C"]
