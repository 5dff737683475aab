"""Every rule of the library against ONNX Runtime, at random sizes, attributes and values.

The rule files are the corpus: a rule added to `rules/` is tested here without a line of code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from taso_py.arrays import Array
from taso_py.graph.table import Node
from taso_py.onnx_io.fragment import fragment
from taso_py.ops.elementwise import Neg
from taso_py.ops.numeric import evaluate
from taso_py.rules.build import Builder
from taso_py.rules.coverage import DEFINED
from taso_py.rules.instances import Instance
from taso_py.rules.library import load, load_file
from taso_py.rules.location import rules_directory
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule
from taso_py.search.matcher import Match, matcher
from taso_py.search.rewriter import rewrite
from taso_py.search.view import View
from tests.helpers.rule_instances import (
    FEW,
    INSTANCES,
    OPSET,
    computed,
    contradiction,
    describe,
    difference,
    drawn,
    outputs_of,
    pairs,
)

# Which of the instances that the matcher finds are covered by proofs is another matter.
LIBRARY = [replace(rule, patterns=None) for rule in load().all()]
COMPILER = [law for name in ("compiler", "open") for law in load_file(rules_directory() / f"{name}.rules")]
REFUTED = load_file(rules_directory() / "refuted.rules")
DIRECTED = [directed for rule in LIBRARY for directed in rule.directions()]
TRUE = [*DIRECTED, *(directed for rule in COMPILER for directed in rule.directions())]


def of_kind(prefix: str) -> list[Rule]:
    """The false laws that fail in one way: what the first word of a name there stands for."""
    return [law for law in REFUTED if law.name.split("-")[0] == prefix]


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
    instance.values.inputs.clear()  # operands are features: differences of a model's inputs are not taken apart
    view = View.of(model, lambda view, value, node: (), constant_reader(instance))
    found = matcher(replace(instance.rule, patterns=DEFINED, limit=None, types=None)).matches_at(view, instance.left[0])
    return view, [m for m in found if m.outputs == instance.left]


@pytest.mark.parametrize("rule", TRUE, ids=lambda rule: rule.name)
def test_both_sides_agree_and_the_matcher_finds_the_left_side(rule: Rule) -> None:
    assert are_equal_and_finite(rule, FEW) or are_equal_and_finite(rule, INSTANCES)


def are_equal_and_finite(rule: Rule, count: int) -> bool:
    """Whether one of so many instances is finite; the sides of each are compared."""
    instances = drawn(rule, count)
    assert len(instances) == count, f"only {len(instances)} instances of {rule.name} could be drawn"
    replaced = [rewritten(instance) for instance in instances]
    whole = [i for i, _ in replaced]
    others = [(i, a, b) for i, built in replaced for right in built for a, b in zip(i.left, right, strict=True)]
    wanted = [v for _, a, b in [*pairs(whole), *others] for v in (a, b)]
    results = computed(whole, wanted)
    for instance, a, b in [*pairs(whole), *others]:
        values = instance.values
        assert values.types[a] == values.types[b]
        assert results[a].shape == values.types[a].shape
        assert difference(results[a], results[b]) <= 1e-4, describe(instance)
    return any(np.isfinite(results[a]).all() for _, a, _ in pairs(whole))


def rewritten(instance: Instance) -> tuple[Instance, list[tuple[int, ...]]]:
    """The instance with the nodes of every right side that a match gives, and those sides' outputs."""
    view, matches = matches_of(instance)
    assert matches, f"the matcher does not find {describe(instance)}"
    nodes, built = dict(instance.nodes), []
    for match in matches:
        step = rewrite(view, match)
        if step is not None:
            assert set(step.outputs) == set(instance.left)
            assert set(instance.left) <= set(step.table.nodes)
        builder = Builder(view.values, match.binding, match.rule.right, "float32")
        built.append(tuple(builder.output(t) for t in match.rule.right.outputs))
        nodes.update(builder.nodes)
    return replace(instance, nodes=nodes), built


@pytest.mark.parametrize("rule", DIRECTED, ids=lambda rule: rule.name)
def test_a_rewritten_table_computes_the_same(rule: Rule) -> None:
    """A table after the rewrite keeps its outputs' ids, with other definitions."""
    checked = 0
    for instance in map(consumed, drawn(rule, 2)):
        view, matches = matches_of(instance, instance.right)
        steps = [s for s in (rewrite(view, m) for m in matches) if s is not None]
        for step in steps[:1]:
            after = replace(instance, nodes=dict(step.table.order()))
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


@pytest.mark.parametrize("law", of_kind("refuted"), ids=lambda rule: rule.name)
def test_a_refuted_law_is_false(law: Rule) -> None:
    """The canary: these laws look true, and the instances show that they are not."""
    assert is_refuted(law, FEW) or is_refuted(law, 3 * INSTANCES), f"{law.name} was not refuted"


def is_refuted(law: Rule, count: int) -> bool:
    """Whether the sides of one of so many instances differ."""
    instances = drawn(law, count)
    assert instances, f"no instance of {law.name} could be drawn"
    results = computed(instances, [v for _, a, b in pairs(instances) for v in (a, b)])
    return max(contradiction(results[a], results[b]) for _, a, b in pairs(instances)) > 1e-2


@pytest.mark.parametrize("law", of_kind("mistyped"), ids=lambda rule: rule.name)
def test_a_mistyped_law_has_sides_of_different_types(law: Rule) -> None:
    """The types that ONNX Runtime finds differ, not only those that the operators state."""
    instances = drawn(law, INSTANCES, typed=False)
    assert instances, f"no instance of {law.name} could be drawn"
    results = computed(instances, [v for _, a, b in pairs(instances) for v in (a, b)])
    for instance, a, b in pairs(instances):
        assert (results[a].shape, results[b].shape) == tuple(instance.values.types[v].shape for v in (a, b))
    assert any(results[a].shape != results[b].shape for _, a, b in pairs(instances)), f"{law.name} was not refuted"


@pytest.mark.parametrize("law", of_kind("vacuous"), ids=lambda rule: rule.name)
def test_a_vacuous_law_has_instances_only_without_its_conditions(law: Rule) -> None:
    assert not drawn(law, 1)
    assert drawn(replace(law, conditions=()), 1), f"{law.name} has no instance for another reason"


@pytest.mark.parametrize("rule", [*LIBRARY, *COMPILER, *REFUTED], ids=lambda rule: rule.name)
def test_a_rule_prints_and_parses_back(rule: Rule) -> None:
    again = parse_rule(rule.text())
    assert again.text() == rule.text()
    assert again.id == rule.id
    assert rule.doc.endswith("."), "a rule's documentation is one sentence"
    assert rule.reversed().reversed().id == rule.id


def test_rules_have_their_own_names_and_laws() -> None:
    rules = [*LIBRARY, *COMPILER, *REFUTED]
    assert len({r.name for r in rules}) == len(rules)
    assert len({r.id for r in rules}) == len(rules)


def test_the_library_has_its_size() -> None:
    assert len(LIBRARY) >= 100
    assert len(COMPILER) >= 200
    assert len(of_kind("refuted")) >= 200
    assert len(REFUTED) == sum(len(of_kind(prefix)) for prefix in ("refuted", "mistyped", "vacuous"))
