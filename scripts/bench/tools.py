"""What the bench compares: this program and the tools that people use, each run on a file as its users do."""

from __future__ import annotations

import filecmp
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TOOL_TIMEOUT_S = 900.0


@dataclass(frozen=True, slots=True)
class ToolRun:
    """One tool on one model: the file that it wrote, or the line that says why there is none."""

    tool: str
    output: Path | None
    seconds: float
    _: KW_ONLY
    nodes: int | None = None
    same_bytes: bool = False
    failure: str | None = None
    result: dict[str, Any] | None = None
    """The JSON that this program prints; None for other tools."""


def node_count(model_file: Path) -> int:
    """Number of nodes of the main graph."""
    import onnx

    return len(onnx.load(model_file, load_external_data=False).graph.node)


def run_ours(model_file: Path, output: Path, *, threads: int, options: Sequence[str]) -> ToolRun:
    """``superopt optimize MODEL -o OUT --json`` in a process of its own."""
    command = [
        sys.executable, "-m", "taso_py", "optimize", str(model_file), "-o", str(output), "--force", "--json",
        "--threads", str(threads), *options,
    ]  # fmt: skip
    return run_tool("superopt", command, model_file, output)


def run_generated(model_file: Path, output: Path, *, threads: int, options: Sequence[str]) -> ToolRun:
    """``superopt optimize`` with the generated rules instead of the library."""
    rules = str(ROOT / "rules" / "generated.rules")
    run = run_ours(model_file, output, threads=threads, options=[*options, "--rules", rules])
    return replace(run, tool="generated")


def run_onnxsim(model_file: Path, output: Path) -> ToolRun:
    """``onnxsim IN OUT`` with its defaults."""
    return run_tool("onnxsim", [sys.executable, "-m", "onnxsim", str(model_file), str(output)], model_file, output)


def run_onnxslim(model_file: Path, output: Path) -> ToolRun:
    """``onnxslim IN OUT`` with its defaults."""
    return run_tool("onnxslim", [sys.executable, "-m", "onnxslim", str(model_file), str(output)], model_file, output)


_ONNXSCRIPT = """
import sys, onnx, onnxscript.optimizer, onnxscript.rewriter
model = onnxscript.optimizer.optimize(onnx.load(sys.argv[1]))
onnx.save(onnxscript.rewriter.rewrite(model), sys.argv[2])
"""


def run_onnxscript(model_file: Path, output: Path) -> ToolRun:
    """onnxscript's optimizer and rewriter with their default rules."""
    command = [sys.executable, "-c", _ONNXSCRIPT, str(model_file), str(output)]
    return run_tool("onnxscript", command, model_file, output)


def run_ort_transformers(model_file: Path, output: Path) -> ToolRun:
    """``python -m onnxruntime.transformers.optimizer --input IN --output OUT`` with its defaults."""
    command = [sys.executable, "-m", "onnxruntime.transformers.optimizer"]
    files = ["--input", str(model_file), "--output", str(output)]
    return run_tool("ort-transformers", [*command, *files], model_file, output)


def run_tool(tool: str, command: Sequence[str], model_file: Path, output: Path) -> ToolRun:
    """Run ``command``, which is to write ``output``, and look at what it left."""
    output.unlink(missing_ok=True)  # a file of an earlier run must not pass for this run's
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    start = time.monotonic()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return ToolRun(tool, None, time.monotonic() - start, failure=f"stopped after {TOOL_TIMEOUT_S:.0f} s")
    seconds = time.monotonic() - start
    if done.returncode or not output.is_file():
        return ToolRun(tool, None, seconds, failure=f"exit {done.returncode}: {_last_line(done)}")
    result = json.loads(done.stdout) if tool == "superopt" else None
    same = filecmp.cmp(model_file, output, shallow=False)
    return ToolRun(tool, output, seconds, nodes=node_count(output), same_bytes=same, result=result)


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1][:200] if lines else "no output"
