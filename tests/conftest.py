"""Fixtures that several test files share."""

from __future__ import annotations

import gc
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from taso_py.cli import outcome
from taso_py.prove.trials.runs import Replay
from taso_py.rules import lock as locks
from tests.helpers.forked import Server
from tests.helpers.judging import DOUBLE
from tests.helpers.schemas import require_valid, require_valid_files

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background: what the tests start would ignore it, too
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before any test module imports ONNX Runtime
gc.set_threshold(200_000)  # as in processes that prove: many small terms and hardly a cycle

ROOT = Path(__file__).resolve().parents[1]

RunCli = Callable[..., "subprocess.CompletedProcess[str]"]


def cli_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a command-line test: this checkout importable, no SUPEROPT_* setting inherited."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SUPEROPT_")}
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return kept | {"PYTHONPATH": path} | dict(extra or {})


@pytest.fixture(scope="session")
def servers() -> Iterator[Iterator[Server]]:
    """What command lines are forked from, in turn."""
    several = [Server(), Server()]
    yield itertools.cycle(several)
    for one in several:
        one.close()


FRESH = ("PYTHON", "LC_", "LANG", "OMP_", "GLIBC")
"""Beginnings of variables that an interpreter reads once, at its start."""


@pytest.fixture
def run_cli(tmp_path: Path, servers: Iterator[Server]) -> RunCli:
    """Run `python -m taso_py ARGUMENTS` as a real process, by default in a temporary folder.

    It is a fork of one that has imported most things, unless it is to be ``fresh``, or depends on how it is started.
    """

    def run(
        *arguments: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 120,
        preexec: Callable[[], None] | None = None,
        fresh: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        cache = {"SUPEROPT_CACHE": str(tmp_path.parent / f"{tmp_path.name}-cache.sqlite")}
        told, whole = list(map(str, arguments)), cli_environment(cache | dict(env or {}))
        if fresh or preexec is not None or any(name.startswith(FRESH) for name in env or ()):
            done = subprocess.run(
                [sys.executable, "-m", "taso_py", *told],
                cwd=cwd or tmp_path, env=whole, capture_output=True, text=True, timeout=timeout, preexec_fn=preexec,
            )  # fmt: skip
        else:
            done = next(servers).run(told, cwd=cwd or tmp_path, env=whole, timeout=timeout)
        if "--json" in arguments and "--help" not in arguments:
            require_valid(json.loads(done.stdout))
        require_valid_files(cwd or tmp_path)
        return done

    return run


@pytest.fixture(autouse=True)
def json_as_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command prints as JSON inside a test's own process conforms to its schema."""
    write = outcome._write

    def written(text: str) -> None:
        if text.startswith("{") and "$schema" not in text:
            require_valid(json.loads(text))
        write(text)

    monkeypatch.setattr(outcome, "_write", written)


def tiny_network() -> onnx.ModelProto:
    """Conv -> BatchNormalization -> Relu on x[1, 3, 8, 8]; opset 17."""
    generator = np.random.default_rng(0)
    weights = {
        "w": generator.normal(size=(4, 3, 3, 3)),
        "scale": generator.uniform(0.5, 1.5, size=4),
        "bias": generator.normal(size=4),
        "mean": generator.normal(size=4),
        "var": generator.uniform(0.5, 1.5, size=4),
    }
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
            helper.make_node("BatchNormalization", ["c", "scale", "bias", "mean", "var"], ["b"], name="norm"),
            helper.make_node("Relu", ["b"], ["y"], name="relu"),
        ],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 8, 8])],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def tiny_model(tmp_path: Path) -> Path:
    """`tiny_network` saved as model.onnx in the temporary folder."""
    path = tmp_path / "model.onnx"
    onnx.save(tiny_network(), path)
    return path


@pytest.fixture(scope="module")
def replay() -> Iterator[Replay]:
    with Replay() as found:
        yield found


@pytest.fixture
def lock_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "proofs.lock"
    monkeypatch.setattr(locks, "lock_path", lambda: path)
    return path


@pytest.fixture
def own_rules(tmp_path: Path) -> Path:
    path = tmp_path / "own.rules"
    path.write_text(DOUBLE)
    return path
