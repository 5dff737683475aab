"""What a user may ask of `superopt optimize`: two validated records and the parsers of their text forms.

`Options` is everything that decides which model comes out; `Delivery` is where that model and its report go.
Nothing here imports anything heavy: ``superopt --help`` depends on it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeVar, get_args

from taso_py.errors import UsageError

CostName = Literal["measured", "roofline"]
Objective = Literal["latency", "flops"]
Apply = Literal["best", "all"]
OrtLevel = Literal["all", "layout", "extended", "basic", "disable"]

Shape = tuple[int, ...]
T = TypeVar("T")

# Spellings that cannot be guessed; any other NAME stands for NAMEExecutionProvider.
_PROVIDERS = {
    "cpu": "CPU",
    "cuda": "CUDA",
    "gpu": "CUDA",
    "tensorrt": "Tensorrt",
    "nvtensorrtrtx": "NvTensorRTRTX",
    "openvino": "OpenVINO",
    "rocm": "ROCM",
    "migraphx": "MIGraphX",
    "dml": "Dml",
    "directml": "Dml",
    "dnnl": "Dnnl",
    "coreml": "CoreML",
    "qnn": "QNN",
    "xnnpack": "Xnnpack",
    "webgpu": "WebGpu",
    "azure": "Azure",
}

REPORT_SUFFIXES = (".json", ".md", ".html")
# A tensor name may hold nearly anything ("x:0", "/conv/out", "a,b"): the last "=" separates name and sizes.
_SIZES = re.compile(r"^\d+(,\d+)*$")


def _nothing() -> Mapping[str, T]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Options:
    """Everything that decides which model `optimize` returns; UsageError on a value that cannot be meant."""

    ep: str = "cpu"
    ep_options: Mapping[str, str] = field(default_factory=_nothing)
    threads: int | None = None
    """None: the CPUs that this process may use."""
    ort_level: OrtLevel = "all"
    shapes: Mapping[str, Shape] = field(default_factory=_nothing)
    """Input name -> sizes, or symbol -> one size (a 1-tuple)."""
    workloads: tuple[Mapping[str, Shape], ...] = ()
    """Several such assignments: the winner must be slower in none. Empty: one workload, from `shapes`."""
    inputs: Mapping[str, Path] = field(default_factory=_nothing)
    """Input name -> .npy file whose array replaces the generated values."""
    rules: tuple[Path, ...] | None = None
    """None: the shipped library. (): no rule at all. Otherwise these files instead of the library."""
    only: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    allow_bounded: bool = False
    """Also use rules that are proved only up to some size."""
    allow_overflow: bool = False
    """Also use rules whose right side overflows float32 at inputs where the left side does not."""
    apply: Apply = "best"
    """"all" applies each matching rule at least once, whatever it costs (conformance tests)."""
    alpha: float = 1.05
    time_budget_s: float = 120.0
    cost: CostName = "measured"
    objective: Objective = "latency"
    race: bool = True
    """False: no timing at all; roofline cost, full check, the same bytes every time."""
    min_gain: float = 0.01
    """Smallest relative gain of the confirmed median that counts as an improvement."""
    freeze_initializers: bool = False
    allow_contrib: bool = False
    provenance: bool = True
    cache: Path | None = None
    """SQLite file of measured regions; None: in the user's cache directory."""
    seed: int = 0
    strict: bool = False

    def __post_init__(self) -> None:
        _demand(bool(self.ep), "--ep is empty: name an execution provider, for example cpu")
        _demand(self.threads is None or self.threads >= 1, f"--threads {self.threads}: must be 1 or more")
        _one_of("--ort-level", self.ort_level, get_args(OrtLevel))
        _one_of("--cost", self.cost, get_args(CostName))
        _one_of("--objective", self.objective, get_args(Objective))
        _one_of("--apply", self.apply, get_args(Apply))
        _demand(math.isfinite(self.alpha) and self.alpha >= 1, f"--alpha {self.alpha:g}: must be 1 or more")
        _demand(
            math.isfinite(self.time_budget_s) and self.time_budget_s > 0,
            f"--time-budget {self.time_budget_s:g}: must be a positive number of seconds",
        )
        _demand(0 <= self.min_gain < 1, f"--min-gain {self.min_gain:g}: must lie in [0, 1), 0.01 means 1 %")
        _demand(self.seed >= 0, f"--seed {self.seed}: must be 0 or more")
        both = sorted(set(self.only) & set(self.disable))
        _demand(not both, f"rule {', '.join(both)} is named by both --only and --disable: keep one")
        _demand(
            not (self.shapes and self.workloads),
            "--shape and --workload exclude each other: write the shapes into the workloads",
        )

    @property
    def provider(self) -> str:
        """`ep` as ONNX Runtime names it: cpu -> CPUExecutionProvider; a full name stays as it is."""
        if self.ep.lower().endswith("executionprovider"):
            return self.ep
        return _PROVIDERS.get(self.ep.lower(), self.ep) + "ExecutionProvider"


@dataclass(frozen=True, slots=True)
class Delivery:
    """Where the result of `superopt optimize` goes and what it must reach."""

    output: Path | None = None
    """None: ``<stem>.superopt.onnx`` beside MODEL."""
    report: Path | None = None
    certificate: Path | None = None
    min_speedup: float | None = None
    dry_run: bool = False
    force: bool = False
    as_json: bool = False
    quiet: bool = False
    verbosity: int = 0

    def __post_init__(self) -> None:
        speedup = self.min_speedup
        _demand(
            speedup is None or (math.isfinite(speedup) and speedup > 0),
            f"--min-speedup {speedup}: must be a positive ratio, 1.1 means 1.1 times faster",
        )
        _demand(
            self.report is None or self.report.suffix.lower() in REPORT_SUFFIXES,
            f"--report {self.report}: the name must end in {', '.join(REPORT_SUFFIXES)}",
        )
        _demand(not (self.quiet and self.verbosity), "-q and -v exclude each other: keep one")
        _demand(
            not (self.dry_run and self.certificate),
            "--certificate speaks of the model that is written: drop --dry-run or --certificate",
        )

    def target(self, model: Path) -> Path:
        """The file to write: ``--output``, or ``<stem>.superopt.onnx`` beside MODEL."""
        return self.output or model.with_name(f"{model.stem}.superopt.onnx")

    def require_compatible(self, options: Options) -> None:
        """Raise UsageError where a demand on the result cannot be decided by the chosen options."""
        _demand(
            options.race or self.min_speedup is None,
            "--min-speedup needs the race: drop --no-race or --min-speedup",
        )


def parse_shapes(texts: Iterable[str], option: str = "--shape") -> Mapping[str, Shape]:
    """``["x=1,3,224,224", "batch=1"]`` -> ``{"x": (1, 3, 224, 224), "batch": (1,)}``."""
    result: dict[str, Shape] = {}
    for text in texts:
        name, sizes = _split(text, option, "x=1,3,224,224 or batch=1")
        _demand(bool(_SIZES.match(sizes)), f"{option} '{text}': sizes must be whole numbers and commas")
        _demand(name not in result, f"{option} names '{name}' twice: keep one")
        result[name] = tuple(int(size) for size in sizes.split(","))
    return MappingProxyType(result)


def parse_workload(text: str) -> Mapping[str, Shape]:
    """``"a=1,128;b=1,128"`` -> ``{"a": (1, 128), "b": (1, 128)}``."""
    parts = [part.strip() for part in text.split(";") if part.strip()]
    _demand(bool(parts), f"--workload '{text}' names no input: write 'a=1,128;b=1,128'")
    return parse_shapes(parts, "--workload")


def parse_ep_options(texts: Iterable[str]) -> Mapping[str, str]:
    """``["device_id=0"]`` -> ``{"device_id": "0"}``; the first "=" separates, values may hold more."""
    result: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        _demand(bool(equals and key.strip()), f"--ep-option '{text}' is not of the form key=value")
        _demand(key.strip() not in result, f"--ep-option names '{key.strip()}' twice: keep one")
        result[key.strip()] = value
    return MappingProxyType(result)


def parse_inputs(texts: Iterable[str]) -> Mapping[str, Path]:
    """``["ids=ids.npy"]`` -> ``{"ids": Path("ids.npy")}``; every file must exist and end in .npy."""
    result: dict[str, Path] = {}
    for text in texts:
        name, file = _split(text, "--input", "ids=ids.npy")
        path = Path(file)
        _demand(name not in result, f"--input names '{name}' twice: keep one")
        _demand(path.suffix == ".npy", f"--input '{text}': the file must be a .npy array")
        _demand(path.is_file(), f"--input '{text}': there is no file {path}")
        result[name] = path
    return MappingProxyType(result)


def parse_rules(texts: Iterable[str]) -> tuple[Path, ...] | None:
    """No text -> None (the shipped library); ``["none"]`` -> () (no rule); otherwise the files named."""
    names = tuple(texts)
    if not names:
        return None
    if "none" in names:
        _demand(len(set(names)) == 1, "--rules none excludes rule files: keep one of them")
        return ()
    for name in names:
        _demand(Path(name).is_file(), f"--rules {name}: there is no such file; 'none' switches all rules off")
    return tuple(Path(name) for name in names)


def _split(text: str, option: str, example: str) -> tuple[str, str]:
    name, equals, value = text.rpartition("=")
    complete = bool(equals and name.strip() and value.strip())
    _demand(complete, f"{option} '{text}' is not of the form {example}")
    return name.strip(), value.strip()


def _one_of(option: str, value: str, choices: tuple[str, ...]) -> None:
    _demand(value in choices, f"{option} '{value}': must be one of {', '.join(choices)}")


def _demand(holds: bool, message: str) -> None:
    if not holds:
        raise UsageError(message)
