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


def run_ablated(part: str, model_file: Path, output: Path, *, threads: int, options: Sequence[str]) -> ToolRun:
    """``superopt optimize`` without a part of its search, which knows nothing of what others have found or timed."""
    cache = output.with_suffix(".cache.sqlite")
    cache.unlink(missing_ok=True)
    command = [
        sys.executable, "-m", "scripts.bench.ablated", part, "optimize", str(model_file), "-o", str(output), "--force",
        "--threads", str(threads), "--cache", str(cache), *options,
    ]  # fmt: skip
    return run_tool(f"without-{part}", command, model_file, output)


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


_SAMPLES = """
import sys, numpy
model, output, data = sys.argv[1:]
with numpy.load(data) as found:
    arrays = {name: found[name] for name in found.files}
count = len(next(iter(arrays.values())))
samples = [{name: array[k] for name, array in arrays.items()} for k in range(count)]
"""

# The preparation that ONNX Runtime's documentation asks for fails on some models, which go without it.
_PREPARED = """
import tempfile
from onnxruntime.quantization.shape_inference import quant_pre_process
folder = tempfile.TemporaryDirectory()
prepared = folder.name + "/prepared.onnx"
try:
    quant_pre_process(model, prepared, skip_symbolic_shape=True)
except Exception:
    prepared = model
"""

_ORT_STATIC = """
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, quantize_static
class Reader(CalibrationDataReader):
    rest = iter(samples)
    def get_next(self):
        return next(self.rest, None)
form, ranges = QuantFormat.QDQ, CalibrationMethod.MinMax
quantize_static(prepared, output, Reader(), quant_format=form, per_channel=True, calibrate_method=ranges)
"""

# No CPU kernel takes the integer convolutions of its defaults, so a user leaves those as they are.
_ORT_DYNAMIC = """
import onnxruntime
from onnxruntime.quantization import quantize_dynamic
from onnxruntime.quantization.registry import IntegerOpsRegistry
quantize_dynamic(prepared, output, per_channel=True)
try:
    onnxruntime.InferenceSession(output, providers=["CPUExecutionProvider"])
except Exception:
    rest = [kind for kind in IntegerOpsRegistry if kind != "Conv"]
    quantize_dynamic(prepared, output, per_channel=True, op_types_to_quantize=rest)
"""

_NNCF = """
import nncf, onnx
onnx.save(nncf.quantize(onnx.load(model), nncf.Dataset(samples), subset_size=count), output)
"""


def run_ort_static(model_file: Path, output: Path, samples: Path) -> ToolRun:
    """ONNX Runtime's quantize_static, per channel, with ranges by MinMax from all samples of a .npz file."""
    script = _SAMPLES + _PREPARED + _ORT_STATIC
    command = [sys.executable, "-c", script, str(model_file), str(output), str(samples)]
    return run_tool("ort-static", command, model_file, output)


def run_ort_dynamic(model_file: Path, output: Path, samples: Path) -> ToolRun:
    """ONNX Runtime's quantize_dynamic, per channel; the samples say nothing to it."""
    script = _SAMPLES + _PREPARED + _ORT_DYNAMIC
    command = [sys.executable, "-c", script, str(model_file), str(output), str(samples)]
    return run_tool("ort-dynamic", command, model_file, output)


def run_nncf(model_file: Path, output: Path, samples: Path, *, python: Path) -> ToolRun:
    """``nncf.quantize`` with its defaults, in an environment of its own with nncf, onnx and onnxruntime."""
    command = [str(python), "-c", _SAMPLES + _NNCF, str(model_file), str(output), str(samples)]
    return run_tool("nncf", command, model_file, output)


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
    except OSError as error:  # the interpreter that is to run it is not there
        return ToolRun(tool, None, time.monotonic() - start, failure=str(error))
    seconds = time.monotonic() - start
    if done.returncode or not output.is_file():
        return ToolRun(tool, None, seconds, failure=f"exit {done.returncode}: {_last_line(done)}")
    result = json.loads(done.stdout) if tool == "superopt" else None
    same = filecmp.cmp(model_file, output, shallow=False)
    return ToolRun(tool, output, seconds, nodes=node_count(output), same_bytes=same, result=result)


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1][:200] if lines else "no output"
