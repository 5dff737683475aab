"""Who takes part for one model: the original and our results on providers, and models that other quantisers make.

A contestant is a file and the configuration of the worker that runs it, or the line that says why there is none.  The
configurations are those of the product: settled options for a provider that is to compute in float32, its own hint for
bfloat16, and for our results what the session file beside them says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from scripts.bench.tools import ToolRun, run_nncf, run_ort_dynamic, run_ort_static, run_ours
from taso_py.backend.client import Worker
from taso_py.backend.protocol import ModelRef, WorkerConfig
from taso_py.check.check import Checker
from taso_py.check.oracle import OracleLimits
from taso_py.check.placed import difference_at
from taso_py.errors import SuperoptError, UsageError
from taso_py.options import CheckOptions
from taso_py.options.providers import bf16_options
from taso_py.providers.choosing import providers_of, worker_config
from taso_py.providers.lossless import require_lossless
from taso_py.providers.record import read_record, session_file, sha256_of

PATIENCE_S = 240.0
"""One request to a provider: compilers of large graphs take their time."""
_OPENVINO = "openvino"
_CASES = 4
"""Sets of inputs on which a provider is compared with ONNX Runtime's own, as the product's race does."""


class Who(StrEnum):
    """The contestants, in the order of their columns."""

    ORIGINAL = "original"
    OURS_CPU = "ours-cpu"
    OURS_AUTO = "ours-auto"
    OPENVINO = "openvino"
    BF16 = "openvino-bf16"
    OURS_BUDGET = "ours-budget"
    ORT_STATIC = "ort-static"
    ORT_DYNAMIC = "ort-dynamic"
    NNCF = "nncf"


BY_BUDGET = (Who.OURS_BUDGET, Who.ORT_STATIC, Who.ORT_DYNAMIC, Who.NNCF)
"""Those that an error budget alone allows, and its samples make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """What holds for every model of one run."""

    out: Path
    rounds: int
    threads: int
    options: tuple[str, ...]
    """Of each of our optimisations; another seed would draw other unseen samples than those that all are judged by."""
    ep: str = "auto"
    ep_python: tuple[Path, ...] = ()
    nncf_python: Path | None = None
    budget: float | None = None
    """The largest relative error; None: lossless."""
    samples: Path | None = None
    """A folder with a NAME.npz for models that have samples of their own; others are drawn."""
    only: tuple[str, ...] = ()
    """Who takes part beside the original; (): everybody."""

    @property
    def wanted(self) -> tuple[Who, ...]:
        """Everybody that this run has a place for."""
        asked = {Who.ORIGINAL, *self.only} if self.only else set(Who)
        return tuple(who for who in Who if who in asked and (self.budget is not None or who not in BY_BUDGET))


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A model and where it runs, or why it does not."""

    who: Who
    model: Path | None = None
    config: WorkerConfig | None = None
    failure: str | None = None
    made_s: float = 0.0
    """Seconds that making its model took."""
    result: Mapping[str, Any] | None = None
    """The JSON that our own run printed."""

    @property
    def key(self) -> tuple[object, ...] | None:
        """The same for two that run the same bytes in the same session: they are one entrant; None: it does not run.

        It reads the whole file.
        """
        if self.failure is not None or self.model is None or self.config is None:
            return None
        options = tuple(sorted(self.config.ep_options))
        return (sha256_of(self.model), replace(self.config, ep_options=options))


@dataclass(frozen=True, slots=True)
class Given:
    """One model, and with a budget the samples of its inputs: all of them, and those that quantisers may see."""

    model: Path
    samples: Path | None = None
    calibration: Path | None = None


def contestants(given: Given, contest: Contest) -> Iterator[Contestant]:
    """Each of them, one after the other as it is made; a fault of one is its own."""
    for who in contest.wanted:
        try:
            yield _MAKERS[who](who, given, contest)
        except SuperoptError as error:
            yield Contestant(who=who, failure=str(error))


def deployed_config(output: Path, threads: int) -> WorkerConfig:
    """The session that `taso_py.session(output)` makes, as a worker's; ``threads`` without a session file.

    UsageError for a session file that belongs to another model.
    """
    file = session_file(output)
    if not file.is_file():
        return WorkerConfig(threads=threads)
    record = read_record(file)
    if record.sha256 != sha256_of(output):
        raise UsageError(f"{file} belongs to another file than {output}")
    return WorkerConfig(
        record.ep,
        tuple(record.options.items()),
        record.threads or threads,
        record.ort_level,
        python=record.python,
        library=record.library,
    )


def openvino_config(contest: Contest) -> WorkerConfig:
    """OpenVINO in float32; SuperoptError where it is in none of the environments."""
    options = CheckOptions(ep=_OPENVINO, ep_python=contest.ep_python, threads=contest.threads)
    config = worker_config(options)
    if config.ep not in providers_of(config.python):
        raise UsageError("OpenVINO is in no environment that is named: make test-eps sets one up, for --ep-python")
    return config


def unfit(original: Path, config: WorkerConfig) -> str | None:
    """Why a provider's speed counts for nothing: it is not in float32, or other values come out; None: it counts."""
    reference = ModelRef.of(original)
    limits = OracleLimits(max_cases=_CASES)
    with (
        Worker(config, timeout=PATIENCE_S) as worker,
        Checker(reference, WorkerConfig(threads=config.threads), limits=limits) as checker,
    ):
        try:
            require_lossless(worker)
            return difference_at(checker, worker, timeout=PATIENCE_S)
        except SuperoptError as error:
            return str(error)


def _original(who: Who, given: Given, contest: Contest) -> Contestant:
    return Contestant(who=who, model=given.model, config=WorkerConfig(threads=contest.threads))


def _openvino(who: Who, given: Given, contest: Contest) -> Contestant:
    config = openvino_config(contest)
    return Contestant(who=who, model=given.model, config=config, failure=unfit(given.model, config))


def _bf16(who: Who, given: Given, contest: Contest) -> Contestant:
    exact = openvino_config(contest)
    hinted = bf16_options(exact.ep, {}, exact.threads)
    assert hinted is not None
    return Contestant(who=who, model=given.model, config=replace(exact, ep_options=tuple(hinted.items())))


def _ours(who: Who, given: Given, contest: Contest) -> Contestant:
    output = _target(who, given, contest)
    session_file(output).unlink(missing_ok=True)  # of an earlier run: it would be taken for this one's
    options = (*contest.options, *_asked(who, given, contest))
    run = run_ours(given.model, output, threads=contest.threads, options=options)
    if run.output is None:
        return _of_tool(who, run, contest)
    return replace(_of_tool(who, run, contest), config=deployed_config(run.output, contest.threads))


def _asked(who: Who, given: Given, contest: Contest) -> Sequence[str]:
    """The options of one of our runs."""
    if who is Who.OURS_CPU:
        return ("--ep", "cpu")
    placed = ["--ep", contest.ep]
    placed += [word for python in contest.ep_python for word in ("--ep-python", str(python))]
    if who is Who.OURS_AUTO:
        return placed
    return [*placed, "--error-budget", f"rel={contest.budget:g}", "--calibration", str(given.samples)]


def _static(who: Who, given: Given, contest: Contest) -> Contestant:
    assert given.calibration is not None
    return _of_tool(who, run_ort_static(given.model, _target(who, given, contest), given.calibration), contest)


def _dynamic(who: Who, given: Given, contest: Contest) -> Contestant:
    assert given.calibration is not None
    return _of_tool(who, run_ort_dynamic(given.model, _target(who, given, contest), given.calibration), contest)


def _nncf(who: Who, given: Given, contest: Contest) -> Contestant:
    assert given.calibration is not None
    if contest.nncf_python is None:
        return Contestant(who=who, failure="absent: --nncf-python names no environment that has nncf")
    target = _target(who, given, contest)
    return _of_tool(who, run_nncf(given.model, target, given.calibration, python=contest.nncf_python), contest)


def _of_tool(who: Who, run: ToolRun, contest: Contest) -> Contestant:
    return Contestant(
        who=who, model=run.output, config=WorkerConfig(threads=contest.threads), failure=run.failure,
        made_s=run.seconds, result=run.result,
    )  # fmt: skip


def _target(who: Who, given: Given, contest: Contest) -> Path:
    return contest.out / f"{given.model.stem}.{who}.onnx"


_MAKERS: Mapping[Who, Callable[[Who, Given, Contest], Contestant]] = {
    Who.ORIGINAL: _original,
    Who.OURS_CPU: _ours,
    Who.OURS_AUTO: _ours,
    Who.OPENVINO: _openvino,
    Who.BF16: _bf16,
    Who.OURS_BUDGET: _ours,
    Who.ORT_STATIC: _static,
    Who.ORT_DYNAMIC: _dynamic,
    Who.NNCF: _nncf,
}
