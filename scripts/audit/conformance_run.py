"""One conformance case in one mode: optimise, then look at the result without trusting the optimiser.

Runs in a child process of `conformance.py`, whose live ONNX Runtime workers serve one case after the other.
"""

from __future__ import annotations

import hashlib
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import onnx
import onnx_ir

from scripts.audit.conformance_cases import Case
from scripts.audit.same_nodes import with_one_name
from taso_py.backend.pool import WorkerPool
from taso_py.backend.protocol import Feeds, Outputs, WorkerConfig
from taso_py.check.check import Checker
from taso_py.check.compare import is_floating
from taso_py.cost.roofline import Roofline
from taso_py.errors import MismatchError, ModelError, SuperoptError, TypingError, WorkerError
from taso_py.graph.table import Node, Opaque, Table
from taso_py.onnx_io.branches import lifted
from taso_py.onnx_io.carry import difference
from taso_py.onnx_io.contract import check_contract
from taso_py.onnx_io.export import export, serialize
from taso_py.onnx_io.load import Loaded, load
from taso_py.options import Options
from taso_py.progress import SilentProgress
from taso_py.result import Result
from taso_py.rules.library import load as load_rules
from taso_py.run import pipeline
from taso_py.search.canonical import Canonicalizer
from taso_py.search.lowering import lowered
from taso_py.search.view import View
from taso_py.stop import StopFlag

MODES = ("none", "all", "best", "respell")
"""none: no rule, the graph must come back as it is. all: every rule wherever it matches. best: the search.
respell: no rule, but every node that an operator class reads is written anew."""
CASE_SECONDS = 180
_WRITING_S = 60.0
"""For writing out composite operators."""
_CONFIG = WorkerConfig(threads=1)
_GROWTH = 16.0
"""How many times as large weights may become, so that rules that multiply them are tried too."""


class Failed(Exception):
    """A case went wrong: ``kind`` is crash, mismatch, contract or hang."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one case in one mode; ``verdict``: ok, skipped (ONNX Runtime cannot), or a kind of failure."""

    case: str
    kind: str
    mode: str
    verdict: str
    _: KW_ONLY
    detail: str = ""
    rules: Mapping[str, int] = field(default_factory=dict)
    digest: str = ""
    """Of the result, where a rule rewrote something."""
    opaque: tuple[str, ...] = ()
    compared: bool = False
    """Whether the result was compared with the original on the test's own inputs."""
    deviation: str = ""
    """Where ONNX Runtime's values of the original are not those that the test stores: its own affair."""
    rule: str | None = None


@dataclass(slots=True)
class Runner:
    """Runs cases one after the other, in one process."""

    pool: WorkerPool
    folder: Path

    def run(self, case: Case, mode: str) -> Outcome:
        """The outcome; never raises."""
        outcome = Outcome(case.name, case.kind, mode, "ok", rule=case.rule)
        try:
            with _time_limit(CASE_SECONDS):
                return self._run(case, mode, outcome)
        except _NotRunnableError as error:
            return replace(outcome, verdict="skipped", detail=str(error))
        except Failed as error:
            return replace(outcome, verdict=error.kind, detail=str(error))
        except MismatchError as error:
            return replace(outcome, verdict="mismatch", detail=str(error))
        except TimeoutError as error:
            return replace(outcome, verdict="hang", detail=str(error))
        except Exception as error:  # noqa: BLE001 - whatever a case meets is a finding, with its place
            kind = "contract" if "breaks the contract" in str(error) else "crash"
            place = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in _frames(error))
            return replace(outcome, verdict=kind, detail=f"{type(error).__name__}: {error} [{place}]")

    def _run(self, case: Case, mode: str, outcome: Outcome) -> Outcome:
        before = self._runs(case)
        loaded = load(case.model)
        deviation = _deviation(case, before)
        outcome = replace(outcome, opaque=tuple(sorted(loaded.opaque)), deviation=deviation)
        if mode == "respell":
            return self._respelled(case, loaded, outcome, before)
        if mode == "rule" and not _search_rules(case.rule):
            return self._tidied(case, loaded, outcome, before)
        result = self._optimised(case, mode)
        after = result.model
        _same_frame(case.model, after)
        if mode == "none":
            _same_nodes(case.model, after)
            _same_nodes(case.model, _exported_anew(loaded))
        rules = {report.name: report.sites for report in result.rules}
        if not rules:
            return outcome
        content = after.SerializeToString(deterministic=True)
        compared = self._same_values(case, content, before)
        digest = hashlib.sha256(content).hexdigest()
        return replace(outcome, rules=rules, digest=digest, compared=compared)

    # ---- modes ---------------------------------------------------------------------------------------------------

    def _optimised(self, case: Case, mode: str) -> Result:
        options = Options(race=False, strict=True, threads=_CONFIG.threads, cache=self.folder / "cache.sqlite")
        if mode == "none":
            options = replace(options, rules=())
        if mode in ("all", "rule"):
            options = replace(options, apply="all")
        if mode == "rule":
            options = replace(options, only=_search_rules(case.rule), max_growth=_GROWTH)
        stored = {k: v for k, v in case.inputs.items() if isinstance(v, np.ndarray)}
        # Integers may be shapes, axes and indices: they are the test's own; floats are drawn, unless that fails.
        choices = ({k: v for k, v in stored.items() if v.dtype.kind not in "fc"}, stored, {})
        error: ModelError | None = None
        for given in choices:
            try:
                return self._pipeline(case, replace(options, inputs=self._files(given)))
            except ModelError as failure:
                error = error or failure
        raise _NotRunnableError(f"ONNX Runtime does not run it on other values than its own: {error}")

    def _pipeline(self, case: Case, options: Options) -> Result:
        return pipeline.optimize(case.model, options, progress=SilentProgress(), stop=StopFlag(), pool=self.pool)

    def _files(self, arrays: Mapping[str, Any]) -> dict[str, Path]:
        files = {}
        for number, (name, array) in enumerate(arrays.items()):
            files[name] = self.folder / f"input_{number}.npy"
            np.save(files[name], array.astype(str) if array.dtype == object else array)
        return files

    def _respelled(self, case: Case, loaded: Loaded, outcome: Outcome, before: Outputs | None) -> Outcome:
        model, count = respelled(loaded)
        if not count:
            return outcome
        compared = self._check_table(case, loaded, model, before)
        return replace(outcome, compared=compared, rules={"(respelled)": count})

    def _tidied(self, case: Case, loaded: Loaded, outcome: Outcome, before: Outputs | None) -> Outcome:
        """Rules that make no moves: look-through and tidying, what they offer, and the tables that they leave."""
        library = load_rules()
        canonical = Canonicalizer.of(library.canonical, library.cleanup)
        view = View.of(loaded.table, canonical.expand, loaded.folder.value)
        rules = Counter(e.rule for value in view.table.nodes for e in view.expansions(value))
        plain = lowered(view, library.canonical, Roofline({}), time.monotonic() + _WRITING_S)
        if plain is not None:
            rules.update(step.rule for step in plain.trace)
            self._check_table(case, loaded, plain.table, before)
        view, steps = canonical.tidy(view, list(view.table.nodes))
        rules.update(step.rule for step in steps)
        compared = self._check_table(case, loaded, view.table, before)
        return replace(outcome, compared=compared, rules=dict(rules))

    def _check_table(self, case: Case, loaded: Loaded, table: Table, before: Outputs | None) -> bool:
        """Export a table and check it; whether it was compared on the test's own inputs."""
        exported = export(loaded, table)
        broken = check_contract(loaded.proto, exported)
        if broken:
            raise Failed("contract", broken[0])
        content = serialize(exported)
        _same_frame(case.model, onnx.ModelProto.FromString(content))
        stored = {k: v for k, v in case.inputs.items() if isinstance(v, np.ndarray)}
        with (
            suppress(ModelError),
            Checker(case.content, _CONFIG, overrides=stored, worker=self.pool.worker(_CONFIG)) as checker,
        ):
            report = checker.check(content)
            if not report.passed:
                raise Failed("mismatch", report.reason or "values differ")
        return self._same_values(case, content, before)

    # ---- ONNX Runtime, on the inputs that the test stores -----------------------------------------------------------

    def _runs(self, case: Case) -> Outputs | None:
        """The original's outputs on the stored inputs, if any; `_NotRunnableError` when it does not load or run."""
        try:
            return self._outputs(case.content, case.inputs if case.kind != "rule" else None)
        except (ModelError, WorkerError) as error:
            raise _NotRunnableError(str(error)) from None

    def _outputs(self, content: bytes, feeds: Feeds | None) -> Outputs | None:
        worker = self.pool.worker(_CONFIG)
        handle = worker.open(content, level="disable")
        try:
            return None if feeds is None else worker.run(handle, feeds)
        finally:
            worker.close(handle)

    def _same_values(self, case: Case, content: bytes, before: Outputs | None) -> bool:
        """The result gives what the original gives on the test's inputs, integers exactly; whether there are any.

        Outputs that differ from one run of the original to the next (random numbers) are left out.
        """
        if before is None:
            return False
        again, after = self._outputs(case.content, case.inputs), self._outputs(content, case.inputs)
        assert again is not None
        assert after is not None
        for name in (n for n, value in before.items() if _close(again[n], value, case)):
            if not _close(after[name], before[name], case):
                raise Failed("mismatch", f"output {name!r} is not the original's on the test's own inputs")
        return True


class _NotRunnableError(Exception):
    """ONNX Runtime does not load or run the original."""


def respelled(loaded: Loaded) -> tuple[Table, int]:
    """The table in which every node that can be written counts as new; and how many those are."""
    nodes, count = dict(loaded.table.nodes), 0
    for value, node in loaded.table.nodes.items():
        if isinstance(node.operator, Opaque) or loaded.unsupported is not None:
            continue
        types = [loaded.values.types[i] for i in node.inputs if i is not None]
        with suppress(TypingError):
            if node.operator.write(loaded.table.opset, types) is not None:
                nodes[value] = replace(node, origin=None)
                count += 1
    return replace(loaded.table, nodes=nodes), count


def _exported_anew(loaded: Loaded) -> onnx.ModelProto:
    """The unchanged table, exported although it is unchanged: equal nodes, none of them the same object."""
    nodes: dict[int, Node] = {v: replace(n) for v, n in loaded.table.nodes.items()}
    proto: onnx.ModelProto = onnx_ir.to_proto(export(loaded, replace(loaded.table, nodes=nodes)))
    return proto if loaded.unsupported is None else loaded.proto


def _same_frame(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    broken = check_contract(lifted(before).proto, after)
    if broken:
        raise Failed("contract", broken[0])
    for kind in ("input", "output"):
        one, other = getattr(before.graph, kind), getattr(after.graph, kind)
        if [v.SerializeToString(deterministic=True) for v in one] != [
            v.SerializeToString(deterministic=True) for v in other
        ]:
            raise Failed("contract", f"{kind}s differ")
    with suppress(onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        onnx.checker.check_model(before, full_check=True)
        try:
            onnx.checker.check_model(after, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            raise Failed("contract", f"onnx.checker: {str(error).splitlines()[0]}") from None


def _same_nodes(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    """The same multiset of nodes: names, operators, inputs, outputs, attributes; further names of weights aside."""
    old, new = with_one_name(lifted(before).proto.graph), with_one_name(lifted(after).proto.graph)
    left, right = Counter(map(_key, old)), Counter(map(_key, new))
    if left != right:
        changed = [n.op_type for n in old if left[_key(n)] != right[_key(n)]]
        raise Failed("contract", f"nodes are not what they were: {', '.join(changed) or 'some are new'}")
    others = {tuple(n.output): n for n in new}
    for node in old:
        found = difference(node, others.get(tuple(node.output), node))
        if found is not None:
            raise Failed("contract", f"node {node.name!r}: {found} differs")


def _key(node: onnx.NodeProto) -> str:
    """All of a node; of its subgraphs only the names, because a value_info in them may come and go."""
    plain = [a for a in node.attribute if not a.HasField("g") and not a.graphs]
    attributes = sorted(a.SerializeToString(deterministic=True) for a in plain)
    names = sorted(a.name for a in node.attribute)
    inputs, outputs = ("\0".join(values).rstrip("\0") for values in (node.input, node.output))
    domain = "" if node.domain == "ai.onnx" else node.domain
    return repr((node.name, node.op_type, domain, inputs, outputs, names, attributes))


def _deviation(case: Case, before: Outputs | None) -> str:
    """The outputs of the original that are not what the test stores."""
    other = [n for n, v in case.outputs.items() if before and n in before and not _close(before[n], v, case)]
    return f"the original's output {', '.join(other)} is not what the test stores" if other else ""


def _close(value: Any, wanted: Any, case: Case) -> bool:
    """Equal but for rounding: only floats have any, within the tolerances of the case."""
    if isinstance(wanted, list) or isinstance(value, list):
        lists = isinstance(wanted, list) and isinstance(value, list) and len(value) == len(wanted)
        return lists and all(_close(a, b, case) for a, b in zip(value, wanted, strict=True))
    if value is None or wanted is None:
        return value is wanted
    value, wanted = np.asarray(value), np.asarray(wanted)
    if value.shape != wanted.shape or value.dtype != wanted.dtype:
        return False
    if not is_floating(value.dtype):
        return bool((value == wanted).all())
    wide = np.complex128 if value.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        return np.allclose(value.astype(wide), wanted.astype(wide), rtol=case.rtol, atol=case.atol, equal_nan=True)


def _search_rules(name: str | None) -> tuple[str, ...]:
    """The rule of this (directed) name, if the search has it."""
    plain = (name or "").removesuffix("-reversed")
    return tuple(rule.name for rule in load_rules().search if rule.name in (plain, name))


@contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    def late(_: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"no answer within {seconds} s, in {frame.f_code.co_qualname if frame else '?'}")

    previous = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    frames = traceback.extract_tb(error.__traceback__)
    return list(reversed(frames[-4:]))


@contextmanager
def runner() -> Iterator[Runner]:
    """A runner with its own workers and scratch folder."""
    with WorkerPool() as pool, tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        yield Runner(pool, Path(folder))


__all__ = ["MODES", "Outcome", "Runner", "SuperoptError", "respelled", "runner"]
