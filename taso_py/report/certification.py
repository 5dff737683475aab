"""What `superopt certify` has found, as a sentence and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

from taso_py.certificate.certify import Certified
from taso_py.errors import ApproximateError
from taso_py.report.content import number
from taso_py.result import plain

SCHEMA = "superopt.certification/1"
_FIGURES = ("steps", "places", "weights", "largest_ulp", "same_file", "inputs")


def certification_text(original: Path, optimised: Path, found: Certified) -> str:
    """One sentence about a certificate that holds."""
    runs = f"; both agree on {number(found.inputs, 'set')} of inputs"
    if not found.steps:
        return f"{optimised} is {original}, unchanged{runs}"
    weights = f", {number(found.weights, 'weight')} computed again" if found.weights else ""
    steps = f"{number(len(found.rules), 'proved rule')} in {number(found.places, 'place')}"
    other = "" if found.same_file else "; it is written differently from the file that the certificate was made for"
    return f"{optimised} follows from {original} by {steps}{weights}{runs}{other}"


def exact_part(error: ApproximateError) -> Certified:
    """What was certified of an approximate model."""
    assert isinstance(error.certified, Certified)
    return error.certified


def certification_json(
    files: tuple[Path, Path, Path],
    found: Certified | None,
    reason: str | None,
    unproved: tuple[str, ...] | None = None,
) -> str:
    """One JSON object about the original, the optimised model and the certificate; ``reason``: why it does not hold.

    ``unproved``: then ``found`` is about the exact part alone, and these nodes are approximate.
    """
    names = dict(zip(("original", "optimised", "certificate"), map(str, files), strict=True))
    holds = found is not None and unproved is None
    nodes = None if unproved is None else list(unproved)
    head = {"schema": SCHEMA, **names, "holds": holds, "reason": reason, "unproved": nodes}
    rules = None if found is None else [{"name": law.name, "id": law.id} for law in found.rules]
    return json.dumps(head | {n: plain(getattr(found, n, None)) for n in _FIGURES} | {"rules": rules}, indent=2)
