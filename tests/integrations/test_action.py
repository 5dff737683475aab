"""The steps of the GitHub Action, run as a runner runs them: the same shell, inputs and outputs through files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import pytest
import yaml

from taso_py.options import Options
from taso_py.options.field import declared
from tests.conftest import ROOT, tiny_network
from tests.helpers.documents import fenced
from tests.helpers.packaging import fresh_environment, lend_dependencies, outside, source_copy

ACTION = ".github/actions/superopt/action.yml"
DEFINITION: dict[str, Any] = yaml.safe_load((ROOT / ACTION).read_text(encoding="utf-8"))
EXPRESSION = re.compile(r"\$\{\{\s*(\S+?)\s*\}\}")
MODEL = "-a $(touch pwned) `touch pwned`.onnx"
"""A name that must reach the command as it is."""
QUICK = {"options": "--no-race\n--threads=1\n\n", "summary": "false"}


@dataclass(frozen=True)
class Runner:
    """A workspace with a model, the action of a checkout, and an environment that needs no registry."""

    workspace: Path
    temp: Path
    action: Path

    def use(self, **given: str) -> tuple[int, dict[str, str], str]:
        """Exit code, outputs and log of one use of the action."""
        inputs = {name: entry.get("default") for name, entry in DEFINITION["inputs"].items()}
        inputs |= {name.replace("_", "-"): value for name, value in given.items()}
        assert None not in inputs.values()
        known = {f"inputs.{name}": str(value) for name, value in inputs.items()}
        log = ""
        for step in DEFINITION["runs"]["steps"]:
            if not wanted(step, known):
                continue
            done, outputs = self.step(step, known)
            log += done.stdout + done.stderr
            known |= {f"steps.{step['id']}.outputs.{name}": value for name, value in outputs.items()} if outputs else {}
            if done.returncode:
                break
        described = {name: filled(entry["value"], known) for name, entry in DEFINITION["outputs"].items()}
        return done.returncode, described, log

    def step(
        self, step: Mapping[str, Any], known: Mapping[str, str]
    ) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
        script, outputs = self.temp / "step.sh", self.temp / "outputs"
        script.write_text(step["run"], encoding="utf-8")
        outputs.write_text("", encoding="utf-8")
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "an expression in a script runs whatever stands in it"
        environment = outside() | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_ACTION_PATH": str(self.action),
            "GITHUB_OUTPUT": str(outputs),
            "GITHUB_STEP_SUMMARY": str(self.temp / "summary.md"),
            "SUPEROPT_CACHE": str(self.temp / "cache.sqlite"),
            # What only a test asks for: no registry, and the build tools of this environment.
            "PIP_NO_INDEX": "1",
            "PIP_NO_DEPS": "1",
            "PIP_NO_BUILD_ISOLATION": "0",
            **{name: filled(value, known) for name, value in step.get("env", {}).items()},
        }
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.workspace,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        lines = outputs.read_text(encoding="utf-8").splitlines()
        return done, dict(line.split("=", 1) for line in lines)


def filled(text: str, known: Mapping[str, str]) -> str:
    """A value with its expressions replaced; an output that no step has set is empty, an unknown input an error."""
    return EXPRESSION.sub(
        lambda found: known[found[1]] if found[1].startswith("inputs.") else known.get(found[1], ""), text
    )


def wanted(step: Mapping[str, Any], known: Mapping[str, str]) -> bool:
    if "if" not in step:
        return True
    name, other = step["if"].split(" != ")
    assert other == "''"
    return known[name] != ""


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    folder = tmp_path_factory.mktemp("runner")
    checkout = source_copy(folder / "checkout", ".github")
    workspace, temp = folder / "work space", folder / "temp"
    workspace.mkdir()
    temp.mkdir()
    onnx.save(tiny_network(), workspace / MODEL)
    # The first step leaves an environment that is there as it is, and puts pip into it.
    (temp / "superopt").mkdir()
    fresh_environment(temp / "superopt" / "venv")
    lend_dependencies(temp / "superopt" / "venv")
    return Runner(workspace, temp, (checkout / ACTION).parent)


@pytest.mark.slow
def test_the_action_optimises_certifies_and_says_what_came_out(runner: Runner) -> None:
    code, outputs, log = runner.use(model=MODEL, certificate="steps.json", **QUICK)
    assert code == 0, log
    assert outputs["model"] == MODEL.replace(".onnx", ".superopt.onnx")
    assert outputs["improved"] == outputs["speedup"] == ""  # nothing was timed
    assert outputs["exit-code"] == "0"
    assert Path(outputs["report"]).is_file()
    assert not (runner.workspace / "pwned").exists()
    onnx.checker.check_model(runner.workspace / outputs["model"])
    assert f"{outputs['model']} follows from {MODEL} by" in log
    # The commit of the action, not whatever else is installed here.
    packages = next((runner.temp / "superopt" / "venv").glob("lib/python*/site-packages"))
    assert (packages / "taso_py" / "_rules").is_dir()


@pytest.mark.slow
def test_a_gate_that_is_missed_fails_the_step_and_is_reported(runner: Runner) -> None:
    code, outputs, log = runner.use(
        model=MODEL, output="out.onnx", gate="max-size=0.5", junit="gate.xml", certificate="no.json",
        options=QUICK["options"],
    )  # fmt: skip
    assert (code, outputs["exit-code"], outputs["model"]) == (6, "6", "out.onnx"), log
    assert "max-size" in (runner.workspace / "gate.xml").read_text()
    assert "max-size" in (runner.temp / "summary.md").read_text()
    assert "follows from" not in log  # no step comes after one that failed


@pytest.mark.slow
def test_what_fails_fails_the_step_with_the_command_s_exit_code(runner: Runner) -> None:
    code, outputs, log = runner.use(model="no.onnx", **QUICK)
    assert (code, outputs["exit-code"], outputs["model"], outputs["report"]) == (3, "3", "", "")
    assert "no.onnx does not exist" in log


def test_the_documented_workflow_gives_inputs_and_reads_outputs_that_there_are() -> None:
    text = fenced(ROOT / "docs" / "integrations.md", "yaml", "/.github/actions/superopt")
    (used,) = (step for step in yaml.safe_load(text)["jobs"]["superopt"]["steps"] if step.get("id") == "superopt")
    assert set(used["with"]) <= set(DEFINITION["inputs"])
    assert set(re.findall(r"steps\.superopt\.outputs\.([\w-]+)", text)) <= set(DEFINITION["outputs"])
    options = [line.split("=")[0] for name in ("options", "certify-options") for line in used["with"][name].split()]
    assert set(options) <= {one.flag.name for one in declared(Options)}
