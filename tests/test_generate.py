"""The generator: fingerprints, enumeration, general forms, derivation, and the batch job with its faults."""

from __future__ import annotations

import itertools
import json
import re
import resource
import tempfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from scripts import generated_coverage
from taso_py.cli import main
from taso_py.errors import OutputError
from taso_py.generate.derive import Rules, derivable
from taso_py.generate.equations import Unsized
from taso_py.generate.field import P, draw, fingerprints, kernel
from taso_py.generate.generalise import rules
from taso_py.generate.last import last_collisions, last_parts
from taso_py.generate.merge import merged
from taso_py.generate.pairs import CONSTANT, VARIABLE, Law, Terms, Tree
from taso_py.generate.settle import settle
from taso_py.generate.sizing import Sizing
from taso_py.generate.stacks import Stacks
from taso_py.generate.table import Table
from taso_py.generate.templates import SETS
from taso_py.generate.work import Space, Start, follows, grown
from taso_py.graph.types import TensorType
from taso_py.ops import OPERATORS
from taso_py.prove.replay import Replay
from taso_py.rules.parser import parse_rule

TASO = SETS["taso"]()


def template(name: str) -> int:
    return [t.name for t in TASO.templates].index(name)


def variable(*shape: int, number: int = 0) -> Tree:
    return (VARIABLE, shape, number)


X, Y = variable(2, 4), variable(2, 4, number=1)
V, W = variable(4, 4), variable(4, 4, number=1)
IMAGE, SMALL, LARGE = variable(2, 4, 5, 5), variable(4, 4, 1, 3), variable(4, 4, 3, 3)


# ---- values ------------------------------------------------------------------------------------------------------


def residues(values: np.ndarray) -> np.ndarray:
    flat = values.reshape(1, 1, -1) % P
    return np.concatenate([flat, flat], axis=1).astype(np.uint32)


def computed(name: str, *operands: np.ndarray, **attributes: object) -> np.ndarray:
    """An operator's value modulo P, by its own definition."""
    types = tuple(TensorType("float32", o.shape) for o in operands)
    found = kernel(OPERATORS[name](**attributes).normal(*types), types)
    shape = [int(str(d)) for d in found.result.dims]
    return np.asarray(found.run([residues(o) for o in operands])[0, 0].astype(np.int64)).reshape(shape)


def test_values_are_those_of_the_operators() -> None:
    random = np.random.default_rng(0)
    a, b = random.integers(1, 100, (2, 3)), random.integers(1, 100, (3, 4))
    image, weights = random.integers(0, 9, (1, 2, 5, 5)), random.integers(0, 9, (3, 2, 3, 3))
    assert (computed("MatMul", a, b) == a @ b).all()
    assert (computed("Concat", a, a + 1, axis=1) == np.concatenate([a, a + 1], axis=1)).all()
    assert (computed("Transpose", a, perm=(1, 0)) == a.T).all()
    assert (computed("Slice", a, axes=(1,), starts=(1,), ends=(3,), steps=(1,)) == a[:, 1:]).all()
    assert (computed("Neg", a) == P - a).all()
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    products = np.einsum("nchwij,ocij->nohw", windows, weights)
    assert (computed("Conv", image, weights, pads=(1, 1, 1, 1)) == products).all()
    means = computed("AveragePool", image, kernel_shape=(3, 3), pads=(1, 1, 1, 1), count_include_pad=1)
    assert (means * 9 % P == windows.sum(axis=(4, 5))).all()


def test_functions_keep_the_laws_that_are_promised() -> None:
    random = np.random.default_rng(1)
    a, b = random.integers(1, 10**6, (2, 3)), random.integers(1, 10**6, (2, 3))
    relu = computed("Relu", a)
    assert (computed("Relu", relu) == relu).all()
    assert (computed("Max", a, b) == computed("Max", b, a)).all()
    assert (computed("Exp", a + b) == computed("Mul", computed("Exp", a), computed("Exp", b))).all()
    assert (computed("Tanh", a) != computed("Sigmoid", a)).all()


def test_constants_are_in_their_usual_order() -> None:
    """Else relu would make 0 of some positive constants, and laws that are false were met everywhere."""
    ninth = pow(9, -1, P)
    assert computed("Relu", np.array([0, 1, 2, ninth, P - 1, P - ninth])).tolist() == [0, 1, 2, ninth, 0, 0]
    assert computed("Max", np.array([1, 2, P - 3]), np.array([2, ninth, P - 1])).tolist() == [2, 2, P - 1]


def test_a_pooled_relu_is_told_from_what_is_pooled() -> None:
    """All residues of a window lie below 0 often enough; inputs have residues on both sides."""
    image = draw((4, 1, 3, 3), 0).astype(np.int64)[0].reshape(4, 1, 3, 3)
    pool = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}
    assert (computed("MaxPool", computed("Relu", image), **pool) != computed("MaxPool", image, **pool)).any()
    for shape in [(), (2,), (2, 4)]:
        relu = kernel(OPERATORS["Relu"](), (TensorType("float32", shape),))
        for number in range(20):
            given = draw(shape, number)
            kept = relu.run([given[None]])[0] == given
            assert 0 < kept.sum() < kept.size
            assert shape == () or (kept.any(axis=1) & ~kept.all(axis=1)).all()


def test_fingerprints_differ_where_values_differ() -> None:
    values = np.random.default_rng(2).integers(0, P, (1000, 2, 6))
    assert len(set(fingerprints(values, exact=True).tolist())) == 1000
    changed = values.copy()
    changed[:, 1, 3] += 1
    assert (fingerprints(values, exact=True) != fingerprints(changed, exact=True)).all()
    assert (fingerprints(values, exact=False) == fingerprints(changed, exact=False)).all()


def test_each_class_of_equal_values_has_one_representative() -> None:
    table = Table(TASO.only(["ewadd", "transpose"]))
    assert table.estimate(1) >= 3
    for cost in (1, 2):
        table.grow(cost)
    prints = [(v.type, stack_of(table, k)) for k, v in enumerate(table.values)]
    assert len(set(prints)) == len(prints)
    sums = [v for v in table.values if v.cost == 2 and v.type.dims == (2, 4)]
    assert sums  # (x + y) + z, and with one of them twice
    assert all(len(v.nodes) == v.cost for v in table.values)
    assert table.collisions  # transposed twice, and sums in another order


def test_values_in_files_are_those_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("taso_py.generate.stacks._SMALL", 1)
    tables = [Table(TASO.only(["ewadd", "transpose", "matmul"]), Stacks(on_disk)) for on_disk in (False, True)]
    for table in tables:
        table.grow(1)
        table.grow(2)
    here, there = tables
    assert len(here.values) > 100  # more than a stack has room for at first
    assert here.values == there.values
    assert all(stack_of(here, k) == stack_of(there, k) for k in range(len(here.values)))
    assert all(isinstance(s._room, np.memmap) for s in there.stacks.by_type.values())
    assert list(tmp_path.iterdir()) == []  # nothing is left behind, however the process ends


def test_no_room_for_values_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("taso_py.generate.stacks._SMALL", 1)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, before[1]))
    try:
        with pytest.raises(OutputError, match=r"no room for .* GB of values .* TMPDIR"):
            Table(TASO, Stacks(on_disk=True)).grow(1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_operands_that_share_operators_are_all_found() -> None:
    table = Table(TASO.only(["transpose", "relu", "matmul"]))
    for cost in (1, 2, 3):
        found = {(i, j) for pairs in table._sharing(cost).values() for i, j in pairs.tolist()}
        assert found == {
            (i, j)
            for (i, a), (j, b) in itertools.product(enumerate(table.values), repeat=2)
            if len(a.nodes | b.nodes) == cost - 1 and a.nodes & b.nodes
        }
        for (left, right), pairs in table._sharing(cost).items():
            assert {(table.values[i].type, table.values[i].weight) for i in pairs[:, 0]} == {left}
            assert {(table.values[j].type, table.values[j].weight) for j in pairs[:, 1]} == {right}
        if cost < 3:
            table.grow(cost)
    assert len(found) > 500


def test_pairs_do_not_depend_on_how_much_is_sorted_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    start = Start(Space("taso", ("ewadd", "relu", "transpose"), 2))
    table = grown(start)
    parts = last_parts(table, 2)
    prints = [table.evaluate(part)[1] for part in parts]
    whole = last_collisions(table, parts, prints)
    assert {(whole[0].value >= 0).any(), (whole[0].value < 0).any()} == {True}
    monkeypatch.setattr("taso_py.generate.last._PIECE", 20)
    in_pieces = last_collisions(table, parts, prints)
    assert (list(in_pieces[0]), in_pieces[1]) == (list(whole[0]), whole[1])


def stack_of(table: Table, number: int) -> bytes:
    value = table.values[number]
    return bytes(table.stacks.take(value.type, np.array([value.row])).tobytes())


# ---- laws --------------------------------------------------------------------------------------------------------


def test_renamed_and_commuted_laws_are_one() -> None:
    terms = Terms(Table(TASO))
    add, transpose = template("ewadd"), template("transpose")
    one = terms.canonical((transpose, (add, X, Y)), (add, (transpose, X), (transpose, Y)))
    other = terms.canonical((add, (transpose, Y), (transpose, X)), (transpose, (add, Y, X)))
    assert one == other is not None
    assert terms.canonical((add, X, Y), (add, Y, X)) is None


def test_a_law_is_made_as_general_as_its_values_allow() -> None:
    terms = Terms(Table(TASO))
    add, product = template("ewadd"), template("matmul")
    special: Law = ((product, X, (add, V, V)), (add, (product, X, V), (product, X, V)))
    general = terms.general(special)
    assert general == terms.canonical((product, X, (add, V, W)), (add, (product, X, V), (product, X, W)))


def test_occurrences_told_apart_free_the_parts_that_they_belong_to() -> None:
    """In join(t(t(x)), t(x)) == t(join(t(x), x)) only a part of the first x is shared with the other side."""
    terms = Terms(Table(TASO))
    join, relu = template("concat4d1"), template("relu")
    special: Law = ((join, (relu, (relu, IMAGE)), (relu, IMAGE)), (relu, (join, (relu, IMAGE), IMAGE)))
    other = variable(2, 4, 5, 5, number=1)
    assert terms.general(special) == terms.canonical(
        (join, (relu, IMAGE), (relu, other)), (relu, (join, IMAGE, other))
    )


def test_point_wise_laws_say_nothing_about_shapes() -> None:
    times, plus = template("scale"), template("ewadd")
    number = variable()
    law: Law = ((times, (plus, X, Y), number), (plus, (times, X, number), (times, Y, number)))
    ((first, *_), *_) = rules(law, TASO)
    assert first.declarations == ()


DEFAULT = SETS["default"]()


def in_default(name: str) -> int:
    return [t.name for t in DEFAULT.templates].index(name)


def test_scales_of_a_resize_become_variables_and_kernels_of_one_pixel_stay(replay: Replay) -> None:
    image, pixel = variable(2, 4, 6, 6), variable(4, 4, 1, 1)
    resize, conv = in_default("resize2"), in_default("conv1x1s1s")
    law: Law = ((resize, (conv, image, pixel)), (conv, (resize, image), pixel))
    outcome = settle(rules(law, DEFAULT), replay)
    assert outcome.fate == "proved"
    (rule,) = outcome.rules
    assert "scales=[1.0, 1.0, m, n]" in rule.text()
    assert "x[q, (g r), t, i], y[(g j), r, 1, 1]" in rule.text()


def test_cuts_of_two_tensors_at_one_place_are_cuts_of_their_sum(replay: Replay) -> None:
    """The halves are of equal size in the enumeration and need not be in general."""
    x, y = variable(2, 8), variable(2, 8, number=1)
    cut, plus = in_default("split11"), in_default("add")
    outcome = settle(rules(((plus, (cut, x), (cut, y)), (cut, (plus, x, y))), DEFAULT), replay)
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
    outcome = settle(rules(law, DEFAULT), replay)
    (rule,) = outcome.rules
    assert rule.text().endswith("when m >= 2\n")


def test_a_factor_for_each_channel_is_a_convolution_of_as_many_groups(replay: Replay) -> None:
    """The product of groups and outputs of each is the number of groups: there is one output for each."""
    image, factors = variable(2, 4, 6, 6), variable(4, 1, 1)
    law: Law = (
        (in_default("conv1x1s1s"), image, (in_default("column4"), factors)),
        (in_default("gain"), image, factors),
    )
    outcome = settle(rules(law, DEFAULT), replay)
    assert [rule.text().partition("\n")[2] for rule in outcome.rules] == [
        "  Conv(x, Reshape(y, shape=[g, 1, 1, 1]), group=g)\n  == Mul(x, y)\n  for x[m, g, n, q], y[g, 1, 1]\n"
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
    outcome = settle(rules((merged, grouped) if merged_first else (grouped, merged), DEFAULT), replay)
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
    outcome = settle(rules(((pool, (pool, image)), (larger, image)), DEFAULT), replay)
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
    outcome = settle(rules(law, TASO), replay)
    assert outcome.fate == "proved"
    wanted = "=> Conv(x, Add(y, Pad(z, pads=[0, 0, m - t, n - i, 0, 0, q - j, r - l]))"
    assert any(wanted in rule.text() for rule in outcome.rules)


def test_a_false_law_is_refuted(replay: Replay) -> None:
    false = parse_rule("rule false: MatMul(x, y) => Add(x, y) for x[m, m], y[m, m]")
    assert settle([[false]], replay).fate == "refuted"


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


def test_laws_that_follow_are_derived_and_others_are_not() -> None:
    sums = parse_rule("rule a: Add(x, Add(y, z)) == Add(Add(x, y), z) for x[*s], y[*s], z[*s]")
    relu = parse_rule("rule b: Relu(Relu(x)) == Relu(x) for x[*s]")
    known = Rules.of([sums, relu])
    follows = "Add(x, Add(y, Add(z, Relu(w)))) == Add(Add(Add(x, z), y), Relu(Relu(w))) for x[*s], y[*s], z[*s], w[*s]"
    assert derivable(parse_rule(f"rule c: {follows}"), known)
    assert not derivable(parse_rule(f"rule c: {follows}"), Rules.of([sums]))
    assert not derivable(parse_rule("rule d: Relu(Add(x, y)) == Add(Relu(x), Relu(y)) for x[*s], y[*s]"), known)


def test_a_law_does_not_follow_from_its_special_case() -> None:
    """Most random kernels have a side of 1, so that few instances of the law are none of the special case."""
    law = "Conv(x, Mul(y, z), strides=s, pads=p) == Conv(Mul(x, z), y, strides=s, pads=p)"
    general = parse_rule(f"rule general: {law} for x[m, n, q, r], y[t, n, i, j], z[n, 1, 1]")
    special = parse_rule(f"rule special: {law} for x[m, n, q, r], y[t, n, 1, i], z[n, 1, 1]")
    for seed in range(12):
        assert not derivable(general, Rules.of([special]), seed=seed)
        assert derivable(special, Rules.of([general]), seed=seed)


@pytest.mark.parametrize(("between", "left_out"), [("Exp(Neg(Abs(x)))", False), ("Exp(Abs(x))", True)])
def test_a_law_that_needs_a_detour_through_a_larger_graph_is_kept(between: str, left_out: bool) -> None:
    """The rules need not be true to be steps."""
    known = Rules.of(
        [
            parse_rule(f"rule there: Relu(Relu(x)) == {between} for x[*s]"),
            parse_rule(f"rule back: {between} == Tanh(Tanh(x)) for x[*s]"),
        ]
    )
    law = parse_rule("rule law: Relu(Relu(x)) == Tanh(Tanh(x)) for x[*s]")
    assert derivable(law, known)
    assert follows(law, known) is left_out


# ---- derivation --------------------------------------------------------------------------------------------------

SUMS = """
rule sums: Add(x, Add(y, z)) == Add(Add(x, y), z) for x[*s], y[*s], z[*s]
rule twice: Relu(Relu(x)) == Relu(x) for x[*s]
"""


def test_laws_are_derived_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "from.rules").write_text(SUMS)
    (tmp_path / "goal.rules").write_text(
        "rule four: Add(x, Add(y, Add(z, w))) == Add(Add(Add(w, y), x), z) for x[*s], y[*s], z[*s], w[*s]\n"
    )
    (tmp_path / "more.rules").write_text("rule kept: Relu(Add(x, y)) => Add(Relu(x), y) for x[*s], y[*s]\n")
    arguments = ["rules", "derive", "--from", str(tmp_path / "from.rules"), "--goal", str(tmp_path / "goal.rules")]
    assert main(arguments) == 0
    assert "1 of 1 laws follow" in capsys.readouterr().out
    assert main([*arguments, "--goal", str(tmp_path / "more.rules"), "--json"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["derived"] == {"four": True, "kept": False}
    assert captured.err == "superopt: error: 1 of 2 laws were not derived: kept\n"


@pytest.mark.parametrize("text", [None, "{}", "no json"])
def test_goals_that_are_no_substitutions_are_one_line(
    text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "goal.json"
    if text is not None:
        path.write_text(text)
    assert main(["rules", "derive", "--goal", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"superopt: error: --goal {path}: ")
    assert error.count("\n") == 1


def test_random_graphs_reach_their_representatives(tmp_path: Path) -> None:
    (tmp_path / "rules.rules").write_text(SUMS)
    arguments = [str(tmp_path / "rules.rules"), "--max-operators", "1", "--graphs", "300"]
    outcome = CliRunner().invoke(generated_coverage.main, arguments)
    assert outcome.exit_code == 0
    counts = {name: int(count) for name, count in re.findall(r"'(\w+)': (\d+)", outcome.output)}
    assert sum(counts.values()) == 300
    assert counts["derived"] > 0  # commutation is built in
    # Laws of the constants are missing, and no others.
    assert all(re.search("eye|unit3|ones", line) for line in outcome.output.splitlines() if line.startswith("open"))
