"""Does a certificate lead from one model to another?  Nothing that it says is believed.

What is known comes from the two models and from the caller.  The certificate says which law applies where; each law is
judged anew from its text, each step is matched anew with all its conditions, and its substitution, looks, insides and
definitions must be, word for word, what was found here.  Its digests are computed again, its rules are all used, and
metadata is what the optimised model itself has.

Trusted, beside ONNX Runtime, Z3 and the reader and writer of ONNX files: the judgement of rules (`taso_py.prove`), and
matcher and rewriter (`taso_py.search`), which `optimize` uses too.  The comparison of the two models in ONNX Runtime
relies on none of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import onnx

from taso_py.backend.pool import WorkerPool
from taso_py.backend.runtime import require_runtime
from taso_py.certificate import describe
from taso_py.certificate.approximate import require_exact
from taso_py.certificate.compare import Rebuilt, largest_ulp
from taso_py.certificate.digest import digest, leads_to
from taso_py.certificate.document import Certificate, Law, read
from taso_py.certificate.laws import Prover, judged, require_used
from taso_py.certificate.numeric import Inputs, require_agreement
from taso_py.certificate.replay import Replayed, require_whole
from taso_py.certificate.validity import require_valid
from taso_py.errors import CertificateError, UsageError
from taso_py.onnx_io.artifact import Artifact, CopiedFile, GivenProto
from taso_py.onnx_io.export import artifact, export, folded_weights
from taso_py.onnx_io.load import Loaded, load
from taso_py.onnx_io.ours import KEYS
from taso_py.onnx_io.read import read_proto
from taso_py.options.spelling import spelled_on
from taso_py.rules.rule import Rule


@dataclass(frozen=True, slots=True)
class Certified:
    """What was checked: the certificate holds."""

    steps: int
    places: int
    """Applications of rules, counted one by one."""
    rules: tuple[Law, ...]
    """Each judged again."""
    weights: int
    """Initializers computed again."""
    _: KW_ONLY
    largest_ulp: int
    """The largest distance of a computed weight, in units in the last place."""
    same_file: bool
    """Whether the optimised model is byte for byte the one that the certificate was written for."""
    inputs: int
    """Sets of inputs on which both models were run."""


def certify(
    original: Path | onnx.ModelProto,
    optimised: Path | onnx.ModelProto,
    certificate: Path,
    *,
    freeze_initializers: bool = False,
    inputs: Inputs | None = None,
    prover: Prover | None = None,
    pool: WorkerPool | None = None,
) -> Certified:
    """Replays a certificate from ``original`` alone, compares the result with ``optimised``, and runs the two models.

    ``freeze_initializers``: initializers that a caller may override are constants, by the caller's word. ``prover``
    stands in for the judgement of rules; ``pool`` lends a worker for the runs.  Raises `CertificateError` with the
    first thing that does not hold, `UsageError` for a file that is no certificate, `ModelError` for a model that
    cannot be read or run, `RuntimeMissingError` without ONNX Runtime.  Where an approximation took the place of the
    exact model, or the session file beside it makes one of it, that is checked alike and `ApproximateError` raised:
    such a result is never certified as a whole.
    """
    require_runtime()
    document, as_written = read(certificate)
    _require_said(document, freeze_initializers=freeze_initializers)
    loaded = load(original, freeze_initializers=freeze_initializers)
    _require_for(document, original)
    rest, _ = document.unproved, read_proto(optimised)
    try:
        laws = judged(document, prover)
        largest, made = _replayed(loaded, document, laws, original, None if rest is not None else optimised)
        require_used(document)
    except RecursionError:
        raise CertificateError("the certificate is nested too deeply to be followed") from None
    if not as_written:
        raise CertificateError("the certificate was altered after it was written: its own sha256 is another")
    proved = optimised if rest is None else made.proto()
    same_file = _is_same_file(document, proved, made)
    require_valid(original, proved)
    runs = require_agreement(original, proved, inputs or Inputs(), pool)
    found = _certified(document, largest, same_file, runs)
    require_exact(rest, original, optimised, made, found)
    return found


def _certified(document: Certificate, largest: int, same_file: bool, runs: int) -> Certified:
    places = sum(len(step.places) for step in document.steps)
    return Certified(
        len(document.steps), places, document.rules, len(document.weights),
        largest_ulp=largest, same_file=same_file, inputs=runs,
    )  # fmt: skip


def _require_for(document: Certificate, original: Path | onnx.ModelProto) -> None:
    """The original is the model that the certificate is for."""
    given = digest(original)
    if given.sha256 == document.original.sha256 and given != document.original:
        files = {*given.external.items()} ^ {*document.original.external.items()}
        raise CertificateError(f"the weights of the original in {min(files)[0]} are not those that were optimised")
    if given != document.original:
        raise CertificateError(
            f"the original is not the model that was optimised: sha256 {given.sha256[:16]}..., "
            f"the certificate is for {document.original.sha256[:16]}..."
        )


def _is_same_file(document: Certificate, optimised: Path | onnx.ModelProto, made: Artifact) -> bool:
    """Whether the optimised model is byte for byte the one named; otherwise it is what the certificate leads to."""
    same_file = digest(optimised) == document.optimised
    if not same_file and not leads_to(made, document.optimised):
        raise CertificateError(
            f"the certificate was made for another file, sha256 {document.optimised.sha256[:16]}..., "
            "and what it leads to here is not that file either"
        )
    return same_file


def _require_said(document: Certificate, *, freeze_initializers: bool) -> None:
    """What the caller assumes is what was assumed."""
    if document.freeze_initializers and not freeze_initializers:
        raise UsageError(
            "the certificate takes initializers that a caller may override for constants: "
            f"if nobody overrides them, say so with {spelled_on('freeze_initializers')}"
        )
    if freeze_initializers and not document.freeze_initializers:
        raise UsageError(
            f"the certificate was made without {spelled_on('freeze_initializers')}: "
            "leave it out, or optimise with it again"
        )


def _replayed(
    loaded: Loaded,
    document: Certificate,
    laws: Mapping[str, Rule],
    original: Path | onnx.ModelProto,
    optimised: Path | onnx.ModelProto | None,
) -> tuple[int, Artifact]:
    """Replays all steps, exports and compares; the largest distance of a computed weight, and what was made.

    Without ``optimised`` there is nothing to compare with: what was made is the exact model, which is in no file.
    """
    foreign = next((key for key in document.metadata if key not in KEYS), None)
    if foreign is not None:
        raise CertificateError(f"metadata {foreign} is none that a certificate may add")
    if not document.steps:
        return 0, _unchanged(loaded, document, original, optimised)
    if loaded.unsupported is not None:
        raise CertificateError(f"the original can only be returned unchanged: {loaded.unsupported}")
    replay = Replayed(loaded, laws)
    model = replay.run(document.steps)
    require_whole(loaded, model)
    exported = export(loaded, model, provenance=document.metadata)
    folded = folded_weights(exported)
    _require_weights(document, describe.weights(replay.labels, loaded.values, folded))
    if optimised is None:
        return 0, artifact(loaded, exported)
    rebuilt = Rebuilt.of(exported, loaded.path, frozenset(folded))
    return largest_ulp(rebuilt, optimised), artifact(loaded, exported)


def _unchanged(
    loaded: Loaded, document: Certificate, original: Path | onnx.ModelProto, optimised: Path | onnx.ModelProto | None
) -> Artifact:
    """The original itself: then nothing was computed, and nothing added."""
    _require_weights(document, {})
    if document.metadata:
        raise CertificateError(f"metadata {min(document.metadata)} is none of a model that comes back unchanged")
    if optimised is not None and digest(optimised) != digest(original):
        if loaded.unsupported is not None:
            raise CertificateError(f"the original can only be returned byte for byte: {loaded.unsupported}")
        largest_ulp(Rebuilt.unchanged(loaded.given, loaded.path), optimised)
    return CopiedFile(original) if isinstance(original, Path) else GivenProto(original)


def _require_weights(document: Certificate, computed: Mapping[str, str]) -> None:
    unlike = describe.difference(document.weights, computed, "weight")
    if unlike is not None:
        raise CertificateError(unlike)
