"""Every rule of the library against ONNX Runtime, at random sizes, attributes and values.

The rule files are the corpus: a rule added to `rules/` is tested here without a line of code.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest

from taso_py.graph.model import Node, Values
from taso_py.onnx_io.fragment import fragment
from taso_py.ops.elementwise import Neg
from taso_py.ops.numeric import evaluate
from taso_py.rules.build import Builder
from taso_py.rules.instances import Instance, draw
from taso_py.rules.library import load, load_file
from taso_py.rules.location import rules_directory
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule
from taso_py.search.matcher import Match, matcher
from taso_py.search.rewriter import rewrite
from taso_py.search.view import View

Array = npt.NDArray[np.generic]

OPSET = 23
INSTANCES = 20
LIBRARY = load().all()
REFUTED = load_file(rules_directory() / "refuted.rules")
DIRECTED = [directed for rule in LIBRARY for directed in rule.directions()]


def drawn(rule: Rule, count: int, *, attempts: int = 3000) -> list[Instance]:
    """Instances of a directed rule over one table of values, the same ones in every run."""
    random, values = np.random.default_rng(zlib.crc32(rule.name.encode())), Values()
    found = (draw(rule, random, values, attempts) for _ in range(count))
    return [instance for instance in found if instance is not None]


def computed(instances: Sequence[Instance], outputs: Sequence[int]) -> dict[int, Array]:
    """The values of ids of all instances, by ONNX Runtime with its optimiser off, in one session."""
    nodes = {v: n for instance in instances for v, n in instance.nodes.items()}
    feeds = {v: a for instance in instances for v, a in instance.feeds.items()}
    weights = {v: a for instance in instances for v, a in instance.weights.items()}
    wanted = list(dict.fromkeys(outputs))
    values = instances[0].values
    proto = fragment(
        sorted(nodes.items()), list(feeds), wanted, values, OPSET, weights=weights, fold=True
    )
    return dict(zip(wanted, outputs_of(proto, feeds), strict=True))


def outputs_of(proto: onnx.ModelProto, feeds: Mapping[int, Array]) -> list[Array]:
    """A fragment's outputs, by ONNX Runtime with its optimiser off."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, {f"v{v}": a for v, a in feeds.items()}))


def difference(a: Array, b: Array) -> float:
    """max |a - b| relative to max |a|; infinite where NaN or Inf stand in different places."""
    if a.shape != b.shape:
        return np.inf
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)):
        return np.inf
    if not finite.any():
        return 0.0
    gap = np.max(np.abs(a[finite].astype(np.float64) - b[finite]))
    return float(gap / max(1.0, float(np.max(np.abs(a[finite])))))


def constant_reader(instance: Instance) -> Callable[[int, Mapping[int, Node]], Array]:
    """Values of constants, folded where a table's nodes compute them."""

    def read(value: int, nodes: Mapping[int, Node]) -> Array:
        if value in instance.weights:
            return instance.weights[value]
        node = nodes[value]
        inputs = [i for i in node.inputs if i is not None]
        types = [instance.values.types[i] for i in inputs]
        return evaluate(node.operator, [read(i, nodes) for i in inputs], types).astype(np.float32)

    return read


def matches_of(instance: Instance, roots: Sequence[int] = ()) -> tuple[View, list[Match]]:
    """The matches of the rule at exactly the instance's outputs, in a table that holds its left side alone."""
    model = instance.model(roots or instance.left, OPSET)
    view = View.of(model, lambda view, value, node: (), constant_reader(instance))
    found = matcher(instance.rule).matches_at(view, instance.left[0])
    return view, [m for m in found if m.outputs == instance.left]


def pairs(instances: Sequence[Instance]) -> list[tuple[Instance, int, int]]:
    """(instance, left id, right id) for every output."""
    return [(i, a, b) for i in instances for a, b in zip(i.left, i.right, strict=True)]


@pytest.mark.parametrize("rule", DIRECTED, ids=lambda rule: rule.name)
def test_both_sides_agree_and_the_matcher_finds_the_left_side(rule: Rule) -> None:
    instances = drawn(rule, INSTANCES)
    assert len(instances) == INSTANCES, f"only {len(instances)} instances of {rule.name} could be drawn"
    replaced = [rewritten(instance) for instance in instances]
    whole = [i for i, _ in replaced]
    others = [(i, a, b) for i, built in replaced for right in built for a, b in zip(i.left, right, strict=True)]
    wanted = [v for _, a, b in [*pairs(whole), *others] for v in (a, b)]
    results = computed(whole, wanted)
    assert any(np.isfinite(results[a]).all() for _, a, _ in pairs(whole))
    for instance, a, b in [*pairs(whole), *others]:
        values = instance.values
        assert values.types[a] == values.types[b]
        assert results[a].shape == values.types[a].shape
        assert difference(results[a], results[b]) <= 1e-4, describe(instance)


def rewritten(instance: Instance) -> tuple[Instance, list[tuple[int, ...]]]:
    """The instance with the nodes of every right side that a match gives, and those sides' outputs."""
    view, matches = matches_of(instance)
    assert matches, f"the matcher does not find {describe(instance)}"
    nodes, built = dict(instance.nodes), []
    for match in matches:
        step = rewrite(view, match)
        if step is not None:
            assert set(step.outputs) == set(instance.left)
            assert set(instance.left) <= set(step.model.nodes)
        builder = Builder(view.values, match.binding, match.rule.right, "float32")
        built.append(tuple(builder.output(t) for t in match.rule.right.outputs))
        nodes.update(builder.nodes)
    return replace(instance, nodes=nodes), built


def describe(instance: Instance) -> str:
    """One instance in words, for a failing test."""
    types = {n: str(instance.values.types[v]) for n, v in instance.binding.tensors.items()}
    return f"{instance.rule.name}: {types} {instance.binding.names} {instance.binding.blocks}"


@pytest.mark.parametrize("rule", DIRECTED, ids=lambda rule: rule.name)
def test_a_rewritten_table_computes_the_same(rule: Rule) -> None:
    """A table after the rewrite keeps its outputs' ids, with other definitions."""
    checked = 0
    for instance in map(consumed, drawn(rule, 2)):
        view, matches = matches_of(instance, instance.right)
        steps = [s for s in (rewrite(view, m) for m in matches) if s is not None]
        for step in steps[:1]:
            after = replace(instance, nodes=dict(step.model.order()))
            before, now = computed([instance], instance.right), tables_value(after)
            for output in instance.right:
                assert difference(before[output], now[output]) <= 1e-4, describe(instance)
            checked += 1
    assert checked > 0


def consumed(instance: Instance) -> Instance:
    """The left side alone, with a node that reads each of its outputs; these nodes are the ``right`` ids."""
    values, nodes = instance.values, dict(instance.nodes)
    readers = []
    for output in instance.left:
        node = Node(Neg(), (output,))
        readers.append(values.intern(node, values.types[output]))
        nodes[readers[-1]] = node
    return replace(instance, nodes=dict(sorted(nodes.items())), right=tuple(readers))


def tables_value(instance: Instance) -> Mapping[int, Array]:
    """The outputs of a table whose nodes are in topological order but whose ids need not be."""
    proto = fragment(
        list(instance.nodes.items()), list(instance.feeds), instance.right, instance.values, OPSET,
        weights=instance.weights, fold=True,
    )  # fmt: skip
    return dict(zip(instance.right, outputs_of(proto, instance.feeds), strict=True))


@pytest.mark.parametrize("law", list(REFUTED), ids=lambda rule: rule.name)
def test_a_refuted_law_is_false(law: Rule) -> None:
    """The canary: these laws look true, and the instances show that they are not."""
    instances = drawn(law, 3 * INSTANCES)
    assert instances, f"no instance of {law.name} could be drawn"
    results = computed(instances, [v for _, a, b in pairs(instances) for v in (a, b)])
    worst = max(difference(results[a], results[b]) for _, a, b in pairs(instances))
    assert worst > 1e-2, f"{law.name} was not refuted"


@pytest.mark.parametrize("rule", [*LIBRARY, *REFUTED], ids=lambda rule: rule.name)
def test_a_rule_prints_and_parses_back(rule: Rule) -> None:
    again = parse_rule(rule.text())
    assert again.text() == rule.text()
    assert again.id == rule.id
    assert rule.doc.endswith("."), "a rule's documentation is one sentence"
    assert rule.reversed().reversed().id == rule.id


def test_rules_have_their_own_names_and_laws() -> None:
    rules = [*LIBRARY, *REFUTED]
    assert len({r.name for r in rules}) == len(rules)
    assert len({r.id for r in rules}) == len(rules)


def test_the_library_has_its_size() -> None:
    assert len(LIBRARY) >= 100
    assert len(REFUTED) >= 30
