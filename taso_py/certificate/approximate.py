"""A certificate for a result that is proved in part: the exact part step by step, the rest named as what it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from taso_py.approximate.layers import approximate_nodes
from taso_py.approximate.record import HINT
from taso_py.certificate.digest import digest
from taso_py.certificate.document import Unproved, extended
from taso_py.check.facts import interface_difference, read_facts
from taso_py.difference.graph import Graph
from taso_py.errors import ApproximateError, CertificateError, SuperoptError
from taso_py.finished import Evidence
from taso_py.onnx_io.artifact import Artifact
from taso_py.onnx_io.read import read_proto
from taso_py.providers.record import approximation_of, session_file

if TYPE_CHECKING:
    from taso_py.certificate.certify import Certified

_SHOWN = 6
"""Nodes that a message names."""


@dataclass(frozen=True, slots=True)
class ApproximateTrail:
    """The way to the exact model, and that another one took its place."""

    exact: Evidence
    artifact: Artifact
    """The exact model."""
    kind: str

    def certificate(self, optimised: Path | onnx.ModelProto) -> str:
        """That of the exact model, which names the approximate one and claims nothing of it."""
        return extended(self.exact.certificate(self.artifact.proto()), Unproved(self.kind, digest(optimised)))

    def decisions(self, measured: Mapping[str, Any]) -> str:
        """There are none: what was approximated cannot be made again by proved steps."""
        raise SuperoptError("decisions hold proved steps alone, and this result is approximate")

    def graphs(self) -> tuple[Graph, Graph]:
        """The original's graph and the exact model's: what proved rewrites changed."""
        return self.exact.graphs()


def _without_nodes(kind: str) -> str:
    """What approximates where no node of the file does."""
    return "run as its session file says, at less precision" if kind == HINT else "replaced by another model"


def require_exact(
    rest: Unproved | None,
    original: Path | onnx.ModelProto,
    optimised: Path | onnx.ModelProto,
    made: Artifact,
    exact: Certified,
) -> None:
    """ApproximateError where the optimised model, or a session of it, is another than ``made``, which is certified.

    CertificateError where it is another model than the certificate names, or does not stand where the original does.
    """
    if rest is not None:
        raise _not_proved(rest, original, optimised, made.proto(), exact)
    said = approximation_of(optimised) if isinstance(optimised, Path) else None
    if said is not None:
        what = f"{session_file(Path(optimised))} runs it as an approximation ({' '.join(said.split())[:200]})"
        raise ApproximateError(f"exact part certified ({_steps(exact)}); {what}: error not proved", exact)


def _steps(exact: Certified) -> str:
    return f"{len(exact.rules)} proved rules in {exact.places} places" if exact.steps else "the original unchanged"


def _not_proved(
    rest: Unproved,
    original: Path | onnx.ModelProto,
    optimised: Path | onnx.ModelProto,
    proved: onnx.ModelProto,
    exact: Certified,
) -> ApproximateError:
    """What is to be said of an approximate model whose exact part, ``proved``, is certified.

    CertificateError where it is another model than the certificate names, or does not stand where the original does.
    """
    found = digest(optimised)
    if found != rest.model:
        said = f"sha256 {rest.model.sha256[:16]}...; this one's is {found.sha256[:16]}..."
        raise CertificateError(f"the certificate was made for another approximate model, {said}")
    (proto, _), (first, _) = read_proto(optimised), read_proto(original)
    unlike = interface_difference(read_facts(first), read_facts(proto))
    if unlike is not None:
        raise CertificateError(f"the approximate model cannot take the original's place: {unlike}")
    nodes = approximate_nodes(proto, proved)
    kind = " ".join(rest.kind.split())[:40]
    listed = ", ".join(nodes[:_SHOWN]) + (f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else "")
    what = f"{len(nodes)} nodes approximated ({listed})" if nodes else _without_nodes(kind)
    words = f"exact part certified ({_steps(exact)}); {what}, {kind}: error not proved"
    return ApproximateError(words, exact, nodes)
