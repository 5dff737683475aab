"""From equal terms to rules: general laws, their forms, and what becomes of them."""

from __future__ import annotations

import pytest

from taso_py.generate.deciding import settle
from taso_py.generate.laws.equations import Unsized
from taso_py.generate.laws.generalise import rules
from taso_py.generate.laws.pairs import CONSTANT, Law, Terms
from taso_py.generate.laws.shared_outputs import merged
from taso_py.generate.laws.sizing import Sizing
from taso_py.generate.tasks import STEPS
from taso_py.generate.terms.enumeration import Enumeration
from taso_py.prove.trials.runs import Replay
from taso_py.rules.parser import parse_rule
from tests.helpers.generator_terms import DEFAULT, IMAGE, LARGE, SMALL, TASO, V, W, X, Y, in_default, template, variable


def test_renamed_and_commuted_laws_are_one() -> None:
    terms = Terms(Enumeration(TASO))
    add, transpose = template("ewadd"), template("transpose")
    one = terms.canonical((transpose, (add, X, Y)), (add, (transpose, X), (transpose, Y)))
    other = terms.canonical((add, (transpose, Y), (transpose, X)), (transpose, (add, Y, X)))
    assert one == other is not None
    assert terms.canonical((add, X, Y), (add, Y, X)) is None


def test_a_law_is_made_as_general_as_its_values_allow() -> None:
    terms = Terms(Enumeration(TASO))
    add, product = template("ewadd"), template("matmul")
    special: Law = ((product, X, (add, V, V)), (add, (product, X, V), (product, X, V)))
    general = terms.general(special)
    assert general == terms.canonical((product, X, (add, V, W)), (add, (product, X, V), (product, X, W)))


def test_occurrences_told_apart_free_the_parts_that_they_belong_to() -> None:
    """In join(t(t(x)), t(x)) == t(join(t(x), x)) only a part of the first x is shared with the other side."""
    terms = Terms(Enumeration(TASO))
    join, relu = template("concat4d1"), template("relu")
    special: Law = ((join, (relu, (relu, IMAGE)), (relu, IMAGE)), (relu, (join, (relu, IMAGE), IMAGE)))
    other = variable(2, 4, 5, 5, number=1)
    assert terms.general(special) == terms.canonical((join, (relu, IMAGE), (relu, other)), (relu, (join, IMAGE, other)))


def test_point_wise_laws_say_nothing_about_shapes() -> None:
    times, plus = template("scale"), template("ewadd")
    number = variable()
    law: Law = ((times, (plus, X, Y), number), (plus, (times, X, number), (times, Y, number)))
    ((first, *_), *_) = rules(law, TASO)
    assert first.declarations == ()


def test_scales_of_a_resize_become_variables_and_kernels_of_one_pixel_stay(replay: Replay) -> None:
    image, pixel = variable(2, 4, 6, 6), variable(4, 4, 1, 1)
    resize, conv = in_default("resize2"), in_default("conv1x1s1s")
    law: Law = ((resize, (conv, image, pixel)), (conv, (resize, image), pixel))
    outcome = settle(rules(law, DEFAULT), replay, STEPS)
    assert outcome.fate == "proved"
    (rule,) = outcome.rules
    # For any scales the image that a convolution sees after the Resize might be empty.
    assert "scales=[1.0, 1.0, 2.0, 2.0]" in rule.text()
    assert "x[m, n, q, r], y[t, n, 1, 1]" in rule.text()


def test_cuts_of_two_tensors_at_one_place_are_cuts_of_their_sum(replay: Replay) -> None:
    """The halves are of equal size in the enumeration and need not be in general."""
    x, y = variable(2, 8), variable(2, 8, number=1)
    cut, plus = in_default("split11"), in_default("add")
    outcome = settle(rules(((plus, (cut, x), (cut, y)), (cut, (plus, x, y))), DEFAULT), replay, STEPS)
    assert [rule.text().partition("\n")[2] for rule in outcome.rules] == [
        "  Add(Slice(x, axes=[rank(a)], starts=[m], ends=[m + n], steps=[1]), "
        "Slice(y, axes=[rank(a)], starts=[m], ends=[m + n], steps=[1]))\n"
        "  == Slice(Add(x, y), axes=[rank(a)], starts=[m], ends=[m + n], steps=[1])\n"
        "  for x[*a, m + n, *b], y[*a, m + n, *b]\n"
    ]


def test_a_constant_matrix_of_one_number_may_be_left_out(replay: Replay) -> None:
    eye = (CONSTANT, [source.name for source in DEFAULT.sources].index("eye"))
    scales, matrix = variable(4), variable(4, 4)
    diagonal = (in_default("gain"), eye, scales)
    law: Law = (
        (in_default("matmul"), diagonal, matrix),
        (in_default("outer"), matrix, (in_default("column2"), scales)),
    )
    outcome = settle(rules(law, DEFAULT), replay, STEPS)
    (rule,) = outcome.rules
    assert rule.text().endswith("for x[m], y[m, n]\n")


def test_a_factor_for_each_channel_is_a_convolution_of_as_many_groups(replay: Replay) -> None:
    """The product of groups and outputs of each is the number of groups: there is one output for each."""
    image, factors = variable(2, 4, 6, 6), variable(4, 1, 1)
    law: Law = (
        (in_default("conv1x1s1s"), image, (in_default("column4"), factors)),
        (in_default("gain"), image, factors),
    )
    outcome = settle(rules(law, DEFAULT), replay, STEPS)
    assert [rule.text().partition("\n")[2] for rule in outcome.rules] == [
        "  Conv(x, Reshape(y, shape=[g, 1, 1, 1]), group=g)\n  == Mul(x, y)\n  for x[m, g, n, q], y[g, 1, 1]\n"
        "  when g >= 1, n >= 1, q >= 1\n"
    ]


def test_sizes_that_cannot_be_made_equal_are_said_to_be_so() -> None:
    """A number of groups on both sides must not be put in terms of itself."""
    sizing = Sizing(frozenset({"group"}))
    groups = sizing.attribute("group", 2)
    a, b, c = (sizing.fresh(d) for d in (3, 5, 7))
    with pytest.raises(Unsized):
        sizing.unify(a * b * groups + 1, c * groups)


@pytest.mark.parametrize("merged_first", [True, False])
def test_groups_are_merged_in_pairs(merged_first: bool, replay: Replay) -> None:
    image, kernels = variable(2, 8, 6, 6), variable(4, 4, 3, 3)
    blocks = (CONSTANT, [source.name for source in DEFAULT.sources].index("blocks"))
    conv, twice = in_default("conv3x3s2s"), (in_default("concat4d1"), kernels, kernels)
    grouped, merged = (conv, image, kernels), (conv, image, (in_default("masked"), twice, blocks))
    outcome = settle(rules((merged, grouped) if merged_first else (grouped, merged), DEFAULT), replay, STEPS)
    assert outcome.fate == "proved"
    (rule,) = outcome.rules
    assert rule.arrow == "=="
    assert "group=2 * g" in rule.text()
    assert "for x[q, (g 2 n), r, t], y[(g 2 m), n, i, j]" in rule.text()


def test_pads_of_an_enlarged_kernel_are_related_to_those_of_the_kernel() -> None:
    law: Law = (
        (template("conv3x3"), IMAGE, (template("enlarge3"), SMALL)),
        (template("conv1x3"), IMAGE, SMALL),
    )
    (first, *_), *_ = rules(law, TASO)
    wanted = parse_rule(
        "rule wanted: Conv(x, Pad(y, pads=[0, 0, m, n, 0, 0, q, r]), strides=s, pads=[t, i, j, l], group=g) => "
        "Conv(x, y, strides=s, pads=[t - m, i - n, j - q, l - r], group=g) for x[o, (g c), d, e], y[(g f), c, h, v] "
        "when m >= 0, n >= 0, q >= 0, r >= 0, t - m >= 0, i - n >= 0, j - q >= 0, l - r >= 0"
    )
    assert first.id == wanted.id


def test_two_windows_of_maxima_are_one_in_general(replay: Replay) -> None:
    pool, larger = in_default("maxpool3"), in_default("maxpool5")
    image = variable(2, 4, 6, 6)
    outcome = settle(rules(((pool, (pool, image)), (larger, image)), DEFAULT), replay, STEPS)
    (rule,) = outcome.rules
    wanted = parse_rule(
        "rule wanted: MaxPool(MaxPool(x, kernel_shape=[m, n], pads=[q, r, t, i]), kernel_shape=[m, n], "
        "pads=[q, r, t, i]) => MaxPool(x, kernel_shape=[2 * m - 1, 2 * n - 1], pads=[2 * q, 2 * r, 2 * t, 2 * i]) "
        "for x[j, l, o, c]"
    )
    assert rule.id == wanted.id


def test_a_sum_of_convolutions_with_different_kernels_is_merged_in_general(replay: Replay) -> None:
    add, enlarge = template("ewadd"), template("enlarge3")
    law: Law = (
        (add, (template("conv3x3"), IMAGE, LARGE), (template("conv1x3"), IMAGE, SMALL)),
        (template("conv3x3"), IMAGE, (add, LARGE, (enlarge, SMALL))),
    )
    outcome = settle(rules(law, TASO), replay, STEPS)
    assert outcome.fate == "proved"
    wanted = "=> Conv(x, Add(y, Pad(z, pads=[0, 0, m - t, n - i, 0, 0, q - j, r - l]))"
    assert any(wanted in rule.text() for rule in outcome.rules)


def test_a_false_law_is_refuted(replay: Replay) -> None:
    false = parse_rule("rule false: MatMul(x, y) => Add(x, y) for x[m, m], y[m, m]")
    assert settle([[false]], replay, STEPS).fate == "refuted"


def test_parts_of_one_value_make_a_law_of_two_outputs() -> None:
    product, join = template("matmul"), template("concat2d1")
    whole = (product, X, (join, V, W))
    laws: list[Law] = [
        ((template("split10"), whole), (product, X, V)),
        ((template("split11"), whole), (product, X, W)),
    ]
    (law,) = merged(laws, TASO)
    ((rule, *_), *_) = rules(law, TASO)
    assert [len(side.outputs) for side in (rule.left, rule.right)] == [2, 2]
    assert merged(laws[:1], TASO) == []
