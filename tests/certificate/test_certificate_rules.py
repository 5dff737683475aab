"""Every rule of the library, applied in a graph of its own, written down and replayed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from taso_py.backend.pool import WorkerPool
from taso_py.certificate.certify import certify
from taso_py.certificate.record import Trail
from taso_py.onnx_io.export import export, serialize
from taso_py.onnx_io.fragment import fragment
from taso_py.onnx_io.load import load
from taso_py.prove.prover import prove
from taso_py.rules.coverage import DEFINED
from taso_py.rules.instances import Instance
from taso_py.rules.library import load as load_library
from taso_py.rules.rule import Rule
from taso_py.search.canonical import Canonicalizer
from taso_py.search.moves import Rewriter
from taso_py.search.view import View
from taso_py.search.written import family_of
from tests.helpers.certified import trusting
from tests.rules.test_rules import DIRECTED, OPSET, consumed, drawn

LIBRARY = load_library()
PARTS = 4
"""The rules go in so many tests, which run side by side."""
CANONICAL = Canonicalizer.of(LIBRARY.canonical, LIBRARY.cleanup)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_a_move_of_every_rule_is_certified(tmp_path: Path, part: int) -> None:
    """Whatever tidying follows; some instances are folded when they are loaded and have nothing left to match."""
    certified, rules = 0, DIRECTED[part::PARTS]
    with WorkerPool() as pool:
        for rule in rules:
            for instance in drawn(rule, 1):
                certified += moved_and_certified(rule, consumed(instance), tmp_path / "certificate.json", pool)
    assert certified > 0.85 * len(rules)


def moved_and_certified(rule: Rule, instance: Instance, file: Path, pool: WorkerPool) -> bool:
    """One move of the rule in the instance's own graph; whether there was one."""
    proto = fragment(
        list(instance.nodes.items()), list(instance.feeds), instance.right, instance.values, OPSET,
        weights=instance.weights, fold=False,
    )  # fmt: skip
    loaded = load(proto)
    view = View.of(loaded.table, CANONICAL.expand, loaded.folder.value)
    rewriter = Rewriter.directed([replace(rule, patterns=DEFINED)], CANONICAL)
    moves = (rewriter.apply(view, group, 4) for group in rewriter.groups(view, rewriter.all_matches(view)))
    outcome = next((move for move in moves if move is not None), None)
    if outcome is None:
        return False
    exported = export(loaded, outcome.view.table)
    made = onnx.ModelProto.FromString(serialize(exported))
    trail = Trail(
        source=proto,
        loaded=loaded,
        canonical=CANONICAL,
        applied=outcome.applied,
        table=outcome.view.table,
        exported=exported,
    )
    file.write_text(trail.certificate(made))
    prover = prove if family_of(rule) else trusting  # what is written where it stands is in no library
    assert certify(proto, made, file, prover=prover, pool=pool).places, rule.name
    return True
