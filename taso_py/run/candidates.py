"""From states of the search to checked models, and from a wrong model to the rewrite that made it wrong."""

from __future__ import annotations

import filecmp
import json
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from taso_py.backend.protocol import ModelRef
from taso_py.check.check import Checker
from taso_py.check.report import CheckReport
from taso_py.errors import ContractError, MismatchError, OutputError, SuperoptError
from taso_py.folders import temporary_folder
from taso_py.graph.table import Table
from taso_py.onnx_io.artifact import RewrittenModel, require_unchanged
from taso_py.onnx_io.collecting import uncollected
from taso_py.onnx_io.contract import check_contract
from taso_py.onnx_io.export import artifact, export, folded_weights, serialize
from taso_py.onnx_io.load import Loaded
from taso_py.result import BACKWARDS, Rejection
from taso_py.rules.rule import RuleSet
from taso_py.run.rewrites import places_of_steps, told_name
from taso_py.search.state import Found, State, TraceStep

REJECTION_SCHEMA = "superopt.rejection/1"
_INLINE_BYTES = 2**26
"""Candidates with more weights than this are handed to ONNX Runtime as files: six of them may wait for the race."""


_TOLD = 4
"""Names of places that a rejection has."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A rewritten model that passed its check; its computed weights are not held, only how to open it."""

    state: State
    reference: ModelRef
    report: CheckReport


@dataclass(slots=True, kw_only=True)
class Workshop:
    """Exports and checks candidates of one model; ``rejected`` collects the rewrites that turned out wrong."""

    loaded: Loaded
    checker: Checker
    rules: RuleSet
    folder: Path
    provenance: Mapping[str, str]
    allow_contrib: bool
    strict: bool
    rejected: list[Rejection] = field(default_factory=list)
    barred: set[str] = field(default_factory=set)

    def candidate(self, state: State, deadline: float) -> Candidate | None:
        """The checked model of a state; None when it is wrong, and then the guilty rule is barred.

        ``strict``: `MismatchError` or `ContractError` instead.
        """
        if any(step.rule in self.barred for step in state.trace):
            return None
        try:
            made = self.build(state.table)
        except ContractError as error:
            self.disown(state, error)
            return None
        reference = self.reference(made)
        if self.out_of_range(made, reference) is None:
            report = self.checker.check(reference, deadline=deadline)
            if report.passed:
                return Candidate(state, reference, report)
            discard(reference)
            self._reject(state, report, deadline)
        else:
            discard(reference)
            self._leave_out(state)
        return None

    @uncollected()
    def build(self, table: Table) -> RewrittenModel:
        """The exported model of a table, the same every time; the border's contract is verified."""
        exported = export(self.loaded, table, provenance=self.provenance)
        broken = check_contract(self.loaded.proto, exported, allow_contrib=self.allow_contrib)
        if broken:
            raise ContractError(f"the rewritten model breaks the contract: {broken[0]}; please report this")
        return artifact(self.loaded, exported)

    def rebuilt(self, candidate: Candidate) -> RewrittenModel:
        """A candidate's model once more: the very one that was checked and raced, which is made sure of."""
        made = self.build(candidate.state.table)
        again = self.reference(made)
        if not _same(candidate.reference.model, again.model):
            raise SuperoptError("the winner cannot be made again as it was checked; please report this")
        discard(again)
        return made

    def reference(self, made: RewrittenModel) -> ModelRef:
        """How ONNX Runtime opens an exported model."""
        if made.inline_bytes() < _INLINE_BYTES:
            base = self.loaded.path.parent if self.loaded.path is not None else None
            return ModelRef("candidate", serialize(made.model), base)
        try:
            place = Path(tempfile.mkdtemp(dir=self.folder))
            made.write(place, place / "candidate.onnx")
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise OutputError(f"cannot write to {self.folder}: {reason}; name another folder in TMPDIR") from error
        return ModelRef("candidate", place / "candidate.onnx")

    def _reject(self, state: State, report: CheckReport, deadline: float) -> None:
        require_unchanged(self.loaded.stamps)  # no rule is to blame for another original
        step = self._guilty(state.trace, report, deadline)
        reason = report.reason or "values differ"
        if report.incomparable:
            self._bar(state, step, reason)
            return
        if self.strict and not _dies_deployed(report):
            raise MismatchError(f"rule {step.rule} changed the model's values: {reason}")
        self._bar(state, step, reason, self._reproduction(state, step, report))

    def out_of_range(self, made: RewrittenModel, reference: ModelRef) -> str | None:
        """Why the range of an element type is too small for a candidate: laws know no largest number."""
        beyond = self.loaded.folder.out_of_range
        for name, value in folded_weights(made.model).items():
            if value in beyond:
                return f"the weight '{name}' that it computes is out of the range of its element type"
        return self.checker.cramped(reference)

    def _leave_out(self, state: State) -> None:
        """Bars the first rule whose table leaves a range: nothing is wrong with it elsewhere."""
        for step in state.trace:
            made = self.build(step.table)
            reference = self.reference(made)
            reason = self.out_of_range(made, reference)
            discard(reference)
            if reason is not None:
                self._bar(state, step, reason)
                return

    def disown(self, state: State, error: ContractError) -> None:
        """Bars the first rule whose table breaks the contract; ``strict``: raises the error."""
        if self.strict:
            raise error
        for step in state.trace:
            try:
                self.build(step.table)
            except ContractError:
                self._bar(state, step, str(error))
                return

    def _bar(self, state: State, step: TraceStep, reason: str, reproduction: Path | None = None) -> None:
        self.barred.add(step.rule)
        told = told_name(step)
        identity = next((r.id for r in self.rules if r.name == told.removesuffix(BACKWARDS)), "")
        places = places_of_steps(state.trace, self.loaded.table)
        sites = next(names for one, names in zip(state.trace, places, strict=False) if one is step)
        self.rejected.append(Rejection(told, identity, ", ".join(sites[:_TOLD]), reason, reproduction))

    def _guilty(self, trace: Sequence[TraceStep], whole: CheckReport, deadline: float) -> TraceStep:
        """The first step whose table no longer agrees with the original, by bisection.

        Where all of them together differ, one that merely cannot be compared is not to blame.
        """
        low, high = 0, len(trace) - 1
        while low < high:
            middle = (low + high) // 2
            reference = self.reference(self.build(trace[middle].table))
            deployed = _dies_deployed(whole)
            report = self.checker.check(reference, deadline=deadline, deployed=deployed, first_failure=True)
            discard(reference)
            innocent = report.passed or (report.incomparable and not whole.incomparable)
            low, high = (middle + 1, high) if innocent else (low, middle)
        return trace[low]

    def _reproduction(self, state: State, step: TraceStep, report: CheckReport) -> Path | None:
        """The model after the guilty step, inputs that show it, and what was done; in a folder that stays."""
        try:
            place = Path(tempfile.mkdtemp(prefix="superopt-rejected-"))
            self.build(step.table).write(place, place / "rewritten.onnx")
            feeds = report.failing_feeds or {}
            arrays: dict[str, Any] = {k: v for k, v in feeds.items() if isinstance(v, np.ndarray)}
            _save_arrays(place / "inputs.npz", arrays)
            done = [{"rule": s.rule, "sites": [list(x.outputs) for x in s.sites]} for s in state.trace]
            facts = {
                "schema": REJECTION_SCHEMA,
                "rule": step.rule,
                "reason": report.reason,
                "case": report.failing_case,
                "trace": done,
            }
            (place / "what.json").write_text(json.dumps(facts, indent=2))
        except (OSError, ValueError, struct.error):  # a name may be longer than an archive takes
            return None
        return place


def _dies_deployed(report: CheckReport) -> bool:
    """Whether ONNX Runtime's optimizer or provider cannot open what a rewrite made, which agreed without them."""
    return not report.passed and not report.incomparable and report.failing_case is None and bool(report.cases)


def _save_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """What numpy.savez does, which takes an input called file for the file."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=True)


def _same(one: Path | bytes, other: Path | bytes) -> bool:
    if isinstance(one, Path) and isinstance(other, Path):
        pairs = [(path, other.parent / path.name) for path in one.parent.iterdir()]
        return all(filecmp.cmp(a, b, shallow=False) for a, b in pairs)
    return one == other


def discard(reference: ModelRef) -> None:
    if isinstance(reference.model, Path):
        shutil.rmtree(reference.model.parent, ignore_errors=True)


Finalists: TypeAlias = Callable[[Found, float, int], list[State]]
"""Chooses states of what was found, by the start's cost in seconds, and how many."""


def shortlist(found: Found, start_cost: float, limit: int = 6) -> list[State]:
    """The best states to race: those selected in the whole model, then as the measured regions have it.

    Of these the simplest good one, the cheapest, and for each rule in it the cheapest without: leaving out one rule
    at a time asks the race which rewrites do not pay in the whole model.
    """
    good = [s for s in found.states if s.trace and s.cost <= start_cost]
    good = [s for s in good if s not in found.selected]
    chosen = [*found.selected, *([found.simplest] if found.simplest is not None else []), *good[:1]]
    for rule in dict.fromkeys(step.rule for step in reversed(good[0].trace)) if good else ():
        other = next((s for s in good if all(step.rule != rule for step in s.trace)), None)
        if other is not None:
            chosen.append(other)
    distinct: list[State] = []
    for state in [*chosen, *good[1:limit]]:
        if all(state.table.nodes != known.table.nodes for known in distinct):
            distinct.append(state)
    return distinct[:limit]


@contextmanager
def work_folder() -> Iterator[Path]:
    """A folder for candidates that are too large to travel as bytes; OutputError where none can be made."""
    with temporary_folder() as folder:
        yield folder.path
