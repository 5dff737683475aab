"""Shapes and inputs that the check runs on."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto

from taso_py.backend.protocol import ModelRef
from taso_py.check.facts import InputSpec, interface_difference, read_facts
from taso_py.check.inputs import FILLS, fills_for, make_feeds, override_shapes
from taso_py.check.roles import legal_array
from taso_py.check.shapes import DEFAULT_BYTES, Assignment, resolve_shapes, second_sizes
from taso_py.errors import ModelError, UnfedInputError, UsageError


def proto(text: str, *, opset: int = 17, ir: int = 8) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}]>\n{text}')


def spec(name: str, *dims: int | str, element: int = TensorProto.FLOAT) -> InputSpec:
    return InputSpec(name, "tensor", element, dims)


IMAGE = spec("image", "N", 3, "H", "W")
IDS = spec("ids", "N", "S", element=TensorProto.INT64)
MASK = spec("mask", "N", "S", element=TensorProto.INT64)


def test_default_shapes_follow_the_contract_and_symbols_agree() -> None:
    found = resolve_shapes([IMAGE, IDS, MASK, spec("fixed", 2, 5)], {})
    assert found.shapes == {"image": (1, 3, 224, 224), "ids": (1, 128), "mask": (1, 128), "fixed": (2, 5)}
    assert found.sizes == {"N": 1, "H": 224, "W": 224, "S": 128}
    assert found.describe() == "image=1,3,224,224; ids=1,128; mask=1,128; fixed=2,5"


def test_options_name_inputs_or_symbols() -> None:
    by_input = resolve_shapes([IDS, MASK], {"ids": (2, 7)})
    by_symbol = resolve_shapes([IDS, MASK], {"N": (2,), "S": (7,)})
    assert by_input.shapes == by_symbol.shapes == {"ids": (2, 7), "mask": (2, 7)}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nope": (1,)}, "no such input or symbol: use one of image, ids, N, H, W, S"),
        ({"ids": (1,)}, "the input has 2 axes"),
        ({"image": (1, 4, 8, 8)}, "axis 1 is fixed to 3 in the model: write 3"),
        ({"ids": (2, 7), "N": (3,)}, "symbol 'N' is 3 here and 2 elsewhere"),
        ({"image": (1, 3, 8, 8), "ids": (2, 7)}, "symbol 'N' is 2 here and 1 elsewhere"),
    ],
)
def test_contradicting_options_are_refused(options: dict[str, tuple[int, ...]], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_shapes([IMAGE, IDS], options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_expressions_over_symbols_are_evaluated() -> None:
    past = spec("past", "batch", 4, "past_length", 8)
    mask = spec("mask", "batch", "past_length + sequence")
    tokens = spec("tokens", "batch", "sequence")
    found = resolve_shapes([past, mask, tokens], {"past_length": (5,), "sequence": (3,)})
    assert found.shapes["mask"] == (1, 8)
    odd = resolve_shapes([spec("x", "unk__12", "a-b c", "2*")], {})
    assert odd.shapes["x"] == (1, 128, 128)


def test_anonymous_and_unknown_dimensions(tmp_path: Path) -> None:
    model = proto("g (float[N,3] x, float[N,3] z) => (float[N,3] y) { y = Add(x, z) }")
    model.graph.input[0].type.tensor_type.shape.dim[0].ClearField("dim_param")
    model.graph.input[1].type.tensor_type.ClearField("shape")
    facts = read_facts(model)
    assert [one.dims for one in facts.inputs] == [("x[0]", 3), None]
    assert resolve_shapes(facts.inputs, {}).shapes == {"x": (1, 3), "z": (1,)}
    chosen = resolve_shapes(facts.inputs, {"z": (1, 3), "x": (4, 3)})
    assert chosen.shapes == {"x": (4, 3), "z": (1, 3)}
    assert second_sizes(facts.inputs, chosen)[0].shapes == {"x": (2, 3), "z": (1, 3)}


def test_second_sizes_change_every_symbol_then_the_batch_only() -> None:
    first = resolve_shapes([IMAGE, IDS], {})
    every, batch = second_sizes([IMAGE, IDS], first)
    assert every.shapes == {"image": (2, 3, 192, 192), "ids": (2, 96)}
    assert batch.shapes == {"image": (2, 3, 224, 224), "ids": (2, 128)}
    assert second_sizes([spec("x", 1, 3)], resolve_shapes([spec("x", 1, 3)], {})) == ()
    kept = second_sizes([IMAGE, IDS], first, fixed=("ids",))
    assert [one.shapes["image"] for one in kept] == [(1, 3, 192, 192)]


@given(st.integers(0, 500))
def test_a_second_size_differs_and_is_positive(size: int) -> None:
    one = spec("x", "N")
    (second,) = second_sizes([one], resolve_shapes([one], {"N": (size,)}))
    assert second.shapes["x"][0] >= 1
    assert second.shapes["x"][0] != size


def feeds(fill: str, one: InputSpec, *, seed: int = 0) -> np.ndarray:
    return make_feeds([one], resolve_shapes([one], {}), fill, seed=seed)[one.name]


def test_fills_are_what_they_say() -> None:
    one = spec("x", 40, 50)
    normal = feeds("normal", one)
    assert normal.dtype == np.float32
    assert abs(normal.mean()) < 0.1
    assert 0.9 < normal.std() < 1.1
    assert feeds("negative", one).max() <= 0
    assert 9 < feeds("large", one).std() < 11
    assert 9e-4 < feeds("tiny", one).std() < 1.1e-3
    uniform = feeds("uniform", one)
    assert 0 <= uniform.min() < uniform.max() < 1
    assert not feeds("zeros", one).any()


def test_feeds_are_seeded() -> None:
    one = spec("x", 4)
    assert feeds("normal", one).tolist() == feeds("normal", one).tolist()
    assert feeds("normal", one).tolist() != feeds("normal", one, seed=1).tolist()
    assert feeds("normal", one).tolist() != feeds("normal", spec("z", 4)).tolist()


@pytest.mark.parametrize(
    ("element", "dtype"),
    [
        (TensorProto.FLOAT16, np.float16),
        (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
        (TensorProto.DOUBLE, np.float64),
        (TensorProto.UINT8, np.uint8),
        (TensorProto.BOOL, np.bool_),
        (TensorProto.COMPLEX64, np.complex64),
        (TensorProto.FLOAT8E5M2, ml_dtypes.float8_e5m2),
        (TensorProto.STRING, object),
    ],
)
def test_every_element_type_can_be_made(element: int, dtype: type) -> None:
    for fill in FILLS:
        assert feeds(fill, spec("x", 2, 3, element=element)).dtype == dtype


def test_sequences_and_optionals_are_made() -> None:
    model = proto(
        "g (optional(float[2]) o, seq(float[M,3]) s) => (float[2] y, float[K,3] z)"
        "{ y = OptionalGetElement(o) z = ConcatFromSequence<axis=0>(s) }"
    )
    facts = read_facts(model)
    assert [(one.kind, one.dims) for one in facts.inputs] == [("optional", (2,)), ("sequence", ("M", 3))]
    made = make_feeds(facts.inputs, resolve_shapes(facts.inputs, {}))
    assert made["o"].shape == (2,)
    assert [item.shape for item in made["s"]] == [(1, 3)] * 3


def test_discrete_models_need_fewer_fills() -> None:
    assert fills_for([IMAGE], {}) == FILLS
    assert fills_for([IDS], {}) == ("normal", "uniform", "zeros")
    assert fills_for([IMAGE], {"image": np.zeros(1)}) == ("normal",)


def test_overrides_replace_inputs_and_fix_shapes() -> None:
    mine = np.full((2, 7), 3)
    found = resolve_shapes([IDS, MASK], override_shapes({"ids": mine}))
    made = make_feeds([IDS, MASK], found, overrides={"ids": mine})
    assert made["ids"] is mine
    assert made["mask"].shape == (2, 7)
    with pytest.raises(UsageError, match=r"inputs\[.nope.\]: the model has no such input: use one of ids"):
        make_feeds([IDS], found, overrides={"nope": mine})
    with pytest.raises(UsageError, match="the array is float32, the model expects int64"):
        make_feeds([IDS, MASK], found, overrides={"ids": mine.astype(np.float32)})
    raw = np.ones((2, 7), ml_dtypes.bfloat16).view("V2")
    half = spec("h", 2, 7, element=TensorProto.BFLOAT16)
    assert make_feeds([half], found, overrides={"h": raw})["h"].dtype == ml_dtypes.bfloat16


GATHERS = [
    ("g (int64[N,S] i, float[7,3] t) => (float[N,S,3] y) { y = Gather(t, i) }", (7,)),
    ("g (int64[N] i, float[7,3] t) => (float[7,N] y) { y = Gather<axis=-1>(t, i) }", (3,)),
    (
        "g (int32[N,S] i, float[7,3] t) => (float[M,3] y)"
        "{ c = Cast<to=7>(i) s = Constant<value_ints=[-1]>() r = Reshape(c, s) y = Gather(t, r) }",
        (7,),
    ),
    (
        "g (int64[N] i, float[9,3] t, float[5,2] u) => (float[N,3] y, float[N,2] z)"
        "{ y = Gather(t, i) z = Gather(u, i) }",
        (9, 5),
    ),
    ("g (int64[N,2] i, float[7,3,4] t) => (float[N,4] y) { y = GatherND(t, i) }", (7, 3)),
    ("g (int64[N,3] i, float[N,3] t) => (float[N,3] y) { y = GatherElements<axis=0>(t, i) }", ("N",)),
    ("g (int64[N] i, float[N] t) => (float[N] y) { c = Cast<to=1>(i) y = Add(c, t) }", ()),
]


@pytest.mark.parametrize(("text", "bounds"), GATHERS)
def test_integer_ranges_come_from_what_they_index(text: str, bounds: tuple[int | str, ...]) -> None:
    facts = read_facts(proto(text))
    assert facts.inputs[0].bounds == bounds
    assignment = resolve_shapes(facts.inputs, {})
    made = make_feeds(facts.inputs, Assignment({**assignment.sizes}, {**assignment.shapes, "i": (64, 2)}))["i"]
    sizes = [assignment.sizes[bound] if isinstance(bound, str) else bound for bound in bounds]
    assert made.min() == 0
    assert made.max() == (min(sizes) if sizes else 2) - 1


def test_ranges_reach_into_subgraphs_and_functions() -> None:
    inner = onnx.parser.parse_graph("b () => (float[2,3] y) { y = Gather(t, i) }")
    node = onnx.helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    model = proto("g (bool c, int64[2] i, float[7,3] t) => (float[2,3] y) { y = Gather(t, i) }")
    model.graph.node[0].CopyFrom(node)
    assert read_facts(model).inputs[1].bounds == (7,)
    called = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "local" : 1]>\n'
        "g (int64[2] i, float[7,3] t) => (float[2,3] y) { y = local.pick(t, i) }\n"
        '<domain: "local", opset_import: ["" : 17]>\npick (a, b) => (c) { c = Gather(a, b) }'
    )
    assert read_facts(called).inputs[0].bounds == (7,)


def test_overridable_initializers_are_not_fed() -> None:
    model = proto("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(2, np.float32), "w"))
    assert [one.name for one in read_facts(model).inputs] == ["x"]


def test_random_operators_and_precision_are_noticed() -> None:
    plain = read_facts(proto("g (double[2] x) => (double[2] y) { y = Neg(x) }"))
    assert (plain.random, plain.narrowest) == (False, "float64")
    mixed = read_facts(proto("g (double[2] x) => (double[2] y) { c = Cast<to=1>(x) y = Cast<to=11>(c) }"))
    assert mixed.narrowest == "float32"
    half = read_facts(proto("g (float[2] x) => (float[2] y) { c = Cast<to=10>(x) y = Cast<to=1>(c) }"))
    assert half.narrowest == "float16"
    assert read_facts(proto("g (float[2] x) => (float[2] y) { y = RandomNormalLike(x) }")).random
    assert not read_facts(proto("g (float[2] x) => (float[2] y) { y = Dropout(x) }")).random


def test_what_follows_from_random_numbers_is_known_through_branches() -> None:
    text = """g (float[2] x, bool c) => (float[2] y, float[2] z, float[2] v) {
      y = If(c) <then_branch = t () => (float[2] a) { a = RandomNormalLike(x) },
                 else_branch = e () => (float[2] b) { b = Neg(x) }>
      w = If(c) <then_branch = t () => (float[2] d) { d = Neg(y) }, else_branch = e () => (float[2] f) { f = Neg(x) }>
      z = Relu(w) v = Neg(x) }"""
    assert read_facts(proto(text)).drawn == {"y", "z"}


@pytest.mark.parametrize(
    ("mode", "drawn"),
    [
        ("t = Constant<value = bool {1}>()", {"y"}),
        ("t = Constant<value = bool {0}>()", set()),
        ("u = Constant<value = bool {1}>() t = Identity(u)", {"y"}),
        ("", set()),  # an input that is made up, and false
        ("t = Not(still)", set()),  # true
        ("u = Not(still) v = Identity(u) t = Not(v)", set()),
    ],
)
def test_a_dropout_that_trains_draws(mode: str, drawn: set[str]) -> None:
    inputs = "float[2] x, float r" + (", bool still" if "still" in mode else "" if mode else ", bool t")
    text = f"g ({inputs}) => (float[2] y, float[2] z) {{ {mode} d = Dropout(x, r, t) y = Relu(d) z = Neg(x) }}"
    assert read_facts(proto(text)).drawn == drawn


@pytest.mark.parametrize(
    ("flag", "value"),
    [("t = Identity(i)", False), ("t = Not(i)", True), ("u = Not(i) t = Not(u)", False), ("t = And(i, i)", None)],
)
def test_an_input_that_is_a_flag_is_what_turns_training_off(flag: str, value: bool | None) -> None:
    text = f"g (float[2] x, float r, bool i) => (float[2] y) {{ {flag} y = Dropout(x, r, t) }}"
    (role,) = [one.role for one in read_facts(proto(text)).inputs if one.name == "i"]
    assert (role is None) == (value is None)
    if role is not None and value is not None:
        made = legal_array(role, (), np.dtype(bool), lambda dim: None)
        assert made is not None
        assert bool(made) is value


def test_a_map_is_the_models_fault_and_no_options() -> None:
    text = "g (map(int64, float) d, float[2] x) => (float[2] y) { y = Relu(x) }"
    with pytest.raises(ModelError, match="'d' has a type that cannot be fed"):
        read_facts(proto(text))


def test_unreadable_models_are_model_errors(tmp_path: Path) -> None:
    bad = tmp_path / "bad.onnx"
    bad.write_text("not a protobuf at all")
    with pytest.raises(ModelError, match=r"bad\.onnx: not an ONNX model"):
        read_facts(ModelRef.of(bad))
    with pytest.raises(ModelError, match="not an ONNX model"):
        read_facts(ModelRef.of(b"\xff\xff\xff\xff"))
    with pytest.raises(ModelError, match="No such file"):
        read_facts(ModelRef.of(tmp_path / "absent.onnx"))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ("g (float[N,3] x) => (float[N,3] y) { y = Neg(x) }", None),
        ("g (float[2,3] x) => (float[2,3] y) { y = Neg(x) }", None),
        ("g (float[N,4] x) => (float[N,4] y) { y = Neg(x) }", "input 'x' has shape"),
        ("g (float[N] x) => (float[N] y) { y = Neg(x) }", "input 'x' has shape"),
        ("g (double[N,3] x) => (double[N,3] y) { y = Neg(x) }", "input 'x' has another type"),
        ("g (float[N,3] z) => (float[N,3] y) { y = Neg(z) }", "the inputs are x and z"),
        ("g (float[N,3] x) => (float[N,3] z) { z = Neg(x) }", "the outputs are y and z"),
    ],
)
def test_interfaces_are_compared(other: str, words: str | None) -> None:
    ours = read_facts(proto("g (float[N,3] x) => (float[N,3] y) { y = Neg(x) }"))
    found = interface_difference(ours, read_facts(proto(other)))
    assert (found is None) == (words is None)
    assert words is None or words in (found or "")


def test_defaults_that_take_too_much_memory_are_halved_and_given_sizes_are_not() -> None:
    large = spec("x", "a", "b", "c", "d", "e")
    found = resolve_shapes([large], {})
    assert found.shrunk
    assert found.sizes["a"] == 1
    assert len({found.sizes[s] for s in "bcde"}) == 1
    assert 4 * np.prod(found.shapes["x"]) <= DEFAULT_BYTES
    kept = resolve_shapes([large], {"b": (128,)})
    assert kept.sizes["b"] == 128
    assert 4 * np.prod(kept.shapes["x"]) <= DEFAULT_BYTES
    assert not resolve_shapes([IMAGE, IDS], {}).shrunk


@pytest.mark.parametrize(
    ("dims", "error", "remedy"), [((10**6, "n"), UsageError, "shapes"), ((10**6, 10**6), UnfedInputError, "inputs")]
)
def test_an_input_that_no_memory_holds_is_refused(
    dims: tuple[int | str, ...], error: type[Exception], remedy: str
) -> None:
    huge = spec("x", *dims)
    assignment = resolve_shapes([huge], {"n": (10**6,)} if "n" in dims else {})
    with pytest.raises(error, match=rf"input .x. of shape 1000000,1000000 takes .* {remedy}\[.x.\]"):
        make_feeds([huge], assignment)


def test_negative_sizes_are_unknown() -> None:
    model = proto("g (float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }")
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = -1
    (found,) = read_facts(model).inputs
    assert found.dims == ("n", "x[1]")
