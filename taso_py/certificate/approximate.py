"""A certificate for a result that is proved in part: the exact part step by step, the rest named as what it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from taso_py.certificate.digest import digest
from taso_py.certificate.document import Unproved, extended
from taso_py.difference.graph import Graph
from taso_py.errors import SuperoptError
from taso_py.finished import Evidence
from taso_py.onnx_io.artifact import Artifact


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
