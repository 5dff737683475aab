"""Small ONNX models written as text, and helpers to search them."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

from taso_py.cost.model import RooflineCost
from taso_py.cost.roofline import Roofline
from taso_py.graph.table import Table
from taso_py.onnx_io.load import Loaded, load
from taso_py.rules.coverage import DEFINED
from taso_py.rules.library import load as load_library
from taso_py.rules.parser import parse_rules
from taso_py.rules.rule import RuleSet
from taso_py.search.bundle import Bundle
from taso_py.search.canonical import Canonicalizer
from taso_py.search.moves import Rewriter
from taso_py.search.rounding import rounding_bodies
from taso_py.search.state import Found
from taso_py.search.strategy import Backtracking, Limits
from taso_py.search.view import View


def model(text: str, opset: int = 17, seed: int = 0, **weights: tuple[int, ...]) -> onnx.ModelProto:
    """The graph of ``text`` with random float32 initializers of the given shapes."""
    header = f'<ir_version: 8, opset_import: ["" : {opset}]>'
    proto = onnx.parser.parse_model(header + text)
    rng = np.random.default_rng(seed)
    for name, shape in weights.items():
        array = rng.standard_normal(shape).astype(np.float32)
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    onnx.checker.check_model(proto)
    return proto


def rewriter(rules: str | None = None, *names: str) -> tuple[Rewriter, Canonicalizer]:
    """A rewriter over rules given as text, or over some (or all) rules of the library."""
    library = load_library()
    canonical = Canonicalizer.of(library.canonical, library.cleanup)
    # Rules given as text are taken to hold however they are typed.
    stated = (replace(rule, patterns=DEFINED) for rule in parse_rules(rules)) if rules is not None else library.search
    search = RuleSet.of(stated)
    return Rewriter.of(search.only(names) if names else search, canonical), canonical


def view_of(loaded: Loaded, canonical: Canonicalizer) -> View:
    """The matcher's view of a loaded model."""
    rounding, read = rounding_bodies(loaded.proto), loaded.folder.value
    return View.of(loaded.table, canonical.expand, read, rounding=rounding, scopes=loaded.scopes)


def sizes(table: Table, operator: str) -> list[tuple[object, ...]]:
    """Of what the nodes of one type compute when the model runs, in order."""
    return [
        table.type(v).dims for v, n in table.order() if n.operator.onnx == operator and v not in table.values.constant
    ]


def together(rules: Rewriter, view: View, bundle: Bundle) -> View:
    """The view after the rules of a bundle, again and again, at all sites."""
    for _ in range(8):
        for name in (*bundle.leading, *bundle.following):
            found = rules.only([name]).all_matches(view).values()
            matches = bundle.chosen(name, [m for ms in found for m in ms], view.table)
            moved = rules.apply(view, matches, 16) if matches else None
            view = view if moved is None else moved.view
    return view


def searched(
    proto: onnx.ModelProto, rules: str | None = None, *names: str, alpha: float = 1.05, seconds: float = 60.0
) -> tuple[Loaded, Found]:
    """A roofline search of a model."""
    loaded = load(proto)
    rules_, canonical = rewriter(rules, *names)
    roofline = Roofline({})
    strategy = Backtracking(
        rules_, RooflineCost(roofline), roofline, Limits(time.monotonic() + seconds, alpha=alpha, states=60)
    )
    start = roofline.total(loaded.table)
    return loaded, strategy.run(view_of(loaded, canonical), start, lambda: False, lambda count, best: None)


def running(table: Table) -> Counter[str]:
    """Operator types of the nodes that run."""
    return Counter(n.operator.onnx for v, n in table.nodes.items() if v not in table.values.constant)
