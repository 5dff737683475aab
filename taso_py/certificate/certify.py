"""Does a certificate lead from one model to another?  Nothing that it says is believed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from taso_py.certificate import describe
from taso_py.certificate.compare import largest_ulp
from taso_py.certificate.digest import digest
from taso_py.certificate.document import Certificate, Law, read
from taso_py.certificate.replay import Replay, read_law
from taso_py.errors import CertificateError
from taso_py.graph.model import Model
from taso_py.onnx_io.contract import PROVENANCE
from taso_py.onnx_io.export import export, folded_weights
from taso_py.onnx_io.load import Loaded, load
from taso_py.onnx_io.read import read_proto
from taso_py.prove.verdict import Proved, Refuted, Verdict
from taso_py.rules.rule import Rule

Prover = Callable[[Rule], Verdict]


@dataclass(frozen=True, slots=True)
class Certified:
    """What was checked: the certificate holds."""

    steps: int
    places: int
    """Applications of rules, counted one by one."""
    rules: tuple[Law, ...]
    """Each proved again."""
    weights: int
    """Initializers computed again."""
    largest_ulp: int
    """The largest distance of a computed weight, in units in the last place."""
    same_file: bool
    """Whether the optimised model is byte for byte the one that the certificate was written for."""


def certify(
    original: Path | onnx.ModelProto,
    optimised: Path | onnx.ModelProto,
    certificate: Path,
    *,
    prover: Prover | None = None,
) -> Certified:
    """Replays a certificate from ``original`` alone and compares the result with ``optimised``.

    Raises `CertificateError` with the first thing that does not hold, `UsageError` for a file that is no certificate,
    `ModelError` for a model that cannot be read.
    """
    document = read(certificate)
    loaded = load(original, freeze_initializers=document.freeze_initializers)
    given = digest(original)
    if given != document.original:
        raise CertificateError(
            f"the original is not the model that was optimised: sha256 {given.sha256[:16]}..., "
            f"the certificate is for {document.original.sha256[:16]}..."
        )
    read_proto(optimised)
    same_file = digest(optimised) == document.optimised
    laws = {law.id: proved(law, prover or _own_prover()) for law in document.rules}
    largest = 0 if _is_copy(document, same_file) else _replayed(loaded, document, laws, optimised)
    places = sum(len(step.places) for step in document.steps)
    return Certified(len(document.steps), places, document.rules, len(document.weights), largest, same_file)


def _is_copy(document: Certificate, same_file: bool) -> bool:
    """Whether nothing was rewritten and nothing written but the original's own bytes."""
    return not document.steps and same_file and document.optimised == document.original


def _replayed(
    loaded: Loaded, document: Certificate, laws: Mapping[str, Rule], optimised: Path | onnx.ModelProto
) -> int:
    """Replays all steps, exports the table and compares; the largest distance of a computed weight."""
    if loaded.unsupported is not None:
        raise CertificateError(f"the original can only be returned unchanged: {loaded.unsupported}")
    foreign = next((key for key in document.metadata if not key.startswith(PROVENANCE)), None)
    if foreign is not None:
        raise CertificateError(f"metadata {foreign} is none that a certificate may add")
    replay = Replay(loaded, laws)
    model = replay.run(document)
    _require_whole(loaded, model)
    exported = export(loaded, model, provenance=document.metadata)
    folded = folded_weights(exported)
    unlike = describe.difference(document.weights, describe.weights(replay.labels, loaded.values, folded), "weight")
    if unlike is not None:
        raise CertificateError(unlike)
    return largest_ulp(exported, optimised, folded)


def _require_whole(loaded: Loaded, model: Model) -> None:
    """Whatever the table reads is computed in it, or is a source of the original."""
    for value in model.reachable():
        if value not in model.nodes and (value in loaded.model.nodes or value not in loaded.values.names):
            raise CertificateError("the steps leave a value that nothing computes")


def proved(law: Law, prover: Prover) -> Rule:
    """The rule that the certificate states, proved again, for the ways of broadcasting that the proof covers.

    `CertificateError` for every verdict but `Proved` for all sizes.
    """
    rule = read_law(law)
    verdict = prover(rule)
    if isinstance(verdict, Proved) and verdict.limit is None:
        return replace(rule, patterns=verdict.patterns or None)
    if isinstance(verdict, Proved):
        why = f"proved up to size {verdict.limit} only"
    elif isinstance(verdict, Refuted):
        why = f"false: {verdict.counterexample}"
    else:
        why = f"not proved: {verdict.why}"
    raise CertificateError(f"rule {law.name} ({law.id}) is {why}")


def _own_prover() -> Prover:
    from taso_py.prove.prover import prove

    return prove
