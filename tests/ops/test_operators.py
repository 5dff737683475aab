"""The conformance suite: checks that every operator class passes for every case at every opset bracket."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx
import onnx.defs
import pytest
from onnx import numpy_helper
from onnxruntime.capi import onnxruntime_pybind11_state as onnxruntime_errors

from taso_py.errors import TypingError
from taso_py.graph.sizes import Size, symbol
from taso_py.graph.substitution import substitute
from taso_py.graph.types import TensorType
from taso_py.ops import OPERATORS
from taso_py.ops.algebra import algebra
from taso_py.ops.comparison import Where
from taso_py.ops.elementwise import Pointwise
from taso_py.ops.numeric import evaluate, evaluate_meaning, operations
from taso_py.ops.operator import Given, Operator
from tests.helpers.operator_cases import FIRST_OPSET, LAST_OPSET, Case
from tests.helpers.operator_models import Example, call_of, example, inferred, input_name, model_of, run, type_of

NOT_IN_FLOAT64 = (
    onnx.shape_inference.InferenceError,
    onnxruntime_errors.InvalidGraph,
    onnxruntime_errors.NotImplemented,
)
TOLERANCES = {"float64": 1e-9, "float32": 1e-5, "float16": 1e-3}


def _collect() -> Iterator[Case]:
    for path in sorted((Path(__file__).parents[1] / "helpers").glob("operator_cases*.py")):
        yield from importlib.import_module(f"tests.helpers.{path.stem}").CASES


CASES = list(_collect())
every_case = pytest.mark.parametrize("case", CASES, ids=str)


@lru_cache(maxsize=1)
def _versions() -> dict[str, frozenset[int]]:
    """For each standard operator the opsets at which its definition changes."""
    found: dict[str, set[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            found.setdefault(schema.name, set()).add(schema.since_version)
    return {name: frozenset(versions) for name, versions in found.items()}


def brackets(case: Case) -> list[int]:
    """Opsets to test: ends of the range, every new definition in ONNX, every change of our own spelling."""
    types = example(case).types
    operator = case.operator.normal(*types)
    spellings = {opset: repr(operator.write(opset, types)) for opset in case.opsets}
    changes = {o for o in case.opsets if o - 1 in spellings and spellings[o] != spellings[o - 1]}
    writing = operator.write(case.opsets[0], types)
    assert writing is not None
    renewed = _versions()[writing.op_type] & set(case.opsets)
    return sorted({case.opsets[0], case.opsets[-1]} | changes | renewed)


def test_every_class_has_a_case() -> None:
    assert {type(case.operator) for case in CASES} == set(OPERATORS.values())


@dataclass(frozen=True)
class _Bare(Operator):
    onnx = "Bare"


@dataclass(frozen=True)
class _Nameless(Pointwise):
    onnx = "Nameless"


@dataclass(frozen=True)
class _Unheard(Pointwise):
    onnx = "Unheard"
    function = "unheard"


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        (_Bare, "does not define `infer` and `element`"),
        (_Nameless, "defines neither `scalar` nor `function`"),
        (_Unheard, "has the function 'unheard', which is not in FUNCTIONS (taso_py/ops/numeric.py)"),
    ],
)
def test_what_a_class_lacks_is_said(operator: type[Operator], words: str) -> None:
    assert operator.lacks() == words


@pytest.mark.parametrize("operator", dict.fromkeys(OPERATORS.values()), ids=lambda c: c.onnx)
def test_onnx_has_the_operator_from_its_first_opset_on(operator: type[Operator]) -> None:
    first = min(
        (
            s.since_version
            for s in onnx.defs.get_all_schemas_with_history()
            if s.name in (operator.onnx, *operator.aliases)
        ),
        default=0,
    )
    assert operator.since >= first, f"{operator.onnx}: ONNX has it from opset {first} on, `since` says {operator.since}"


@every_case
def test_writable_at_exactly_the_opsets_of_the_case(case: Case) -> None:
    instance = example(case, "float32")
    writable = [
        opset
        for opset in range(FIRST_OPSET, LAST_OPSET + 1)
        if instance.operator.write(opset, instance.types) is not None
    ]
    assert writable == list(case.opsets)


@every_case
def test_element_type_is_declared(case: Case) -> None:
    for floating in ("float32", "float64"):
        first = case.element_types(floating)[:1]
        declared = case.operator.dtypes
        assert not first or declared is None or first[0] in declared, (
            f"{type(case.operator).__name__}.dtypes lacks {first[0]}, which its case has"
        )


@every_case
def test_shapes_and_values_agree_with_onnx(case: Case) -> None:
    for opset in brackets(case) if case.opsets else ():
        instance, actual, expected = _both(case, opset)
        model_type = TensorType(str(actual.dtype), actual.shape)
        assert instance.operator.infer(*instance.types) == model_type, f"opset {opset}"
        assert expected.shape == actual.shape
        if actual.dtype.kind == "f":
            tolerance = max(TOLERANCES[t.dtype] for t in (*instance.types, model_type) if t.dtype in TOLERANCES)
            np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance, err_msg=f"opset {opset}")
        else:
            np.testing.assert_array_equal(actual, expected.astype(actual.dtype), err_msg=f"opset {opset}")


def _both(case: Case, opset: int) -> tuple[Example, np.ndarray, np.ndarray]:
    """ONNX Runtime's value and ours, in float64 where ONNX and ONNX Runtime have it."""
    for floating in ("float64", "float32"):
        instance = example(case, floating)
        try:
            model, type_ = inferred(model_of(instance, opset))
            actual = run(model, instance.arrays)
        except NOT_IN_FLOAT64:
            if floating == "float32":
                raise
        else:
            own = instance.operator.infer(*instance.types)
            # ONNX says nothing about a transposed scalar; the runtime's shape is compared in any case.
            assert own == type_ or (not type_.known and own.rank == 0), f"ONNX infers {type_} at opset {opset}"
            return instance, actual, evaluate(instance.operator, instance.arrays, instance.types)
    raise AssertionError("unreachable")


@every_case
def test_reads_back_what_it_writes(case: Case) -> None:
    instance = example(case, "float32")
    for opset in brackets(case) if case.opsets else ():
        model = model_of(instance, opset)
        node = model.graph.node[0]
        constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        types = {input_name(k): t for k, t in enumerate(instance.types)}
        types |= {name: type_of(value) for name, value in constants.items()}
        used = [name == "y" for name in node.output]
        reading = OPERATORS[node.op_type].read(call_of(node, opset, types, constants, used))
        assert reading is not None, f"opset {opset}: {onnx.printer.to_text(node)} is opaque"
        assert reading.operator.normal(*instance.types) == instance.operator
        writing = instance.operator.write(opset, instance.types)
        assert writing is not None
        assert [writing.inputs[k] for k in reading.operands] == [Given(k) for k in range(len(instance.types))]


@every_case
def test_normal_form_is_stable_and_means_the_same(case: Case) -> None:
    instance = example(case)
    assert instance.operator.normal(*instance.types) == instance.operator
    assert case.operator.infer(*instance.types) == instance.operator.infer(*instance.types)
    np.testing.assert_array_equal(
        evaluate_meaning(case.operator, instance.arrays, instance.types),
        evaluate_meaning(instance.operator, instance.arrays, instance.types),
    )


@every_case
def test_kernel_is_the_meaning(case: Case) -> None:
    instance = example(case)
    meaning = evaluate_meaning(instance.operator, instance.arrays, instance.types)
    value = evaluate(instance.operator, instance.arrays, instance.types)
    assert (value.dtype, value.shape) == (meaning.dtype, meaning.shape)
    np.testing.assert_array_equal(value, meaning)


@every_case
def test_counts_operations_unless_it_only_moves_data(case: Case) -> None:
    instance = example(case)
    count = operations(instance.operator, instance.types)
    # A Where moves data, but looks at three elements for each that it copies.
    moves = algebra(instance.operator, instance.types) == "move" and not isinstance(instance.operator, Where)
    if not instance.types or moves:
        assert count == 0
    elif all(0 not in t.dims for t in instance.types):
        assert count > 0


@every_case
def test_symbolic_shapes_specialise_to_concrete_ones(case: Case) -> None:
    instance = example(case)
    concrete = instance.operator.infer(*instance.types)
    for size in case.symbolic_sizes:
        types = tuple(TensorType(t.dtype, tuple(_lift(d, size) for d in t.dims)) for t in instance.types)
        general = case.operator.normal(*types).infer(*types)
        assert general.dtype == concrete.dtype
        assert tuple(substitute(d, {"n": size}) for d in general.dims) == concrete.dims


def _lift(dim: Size, size: int) -> Size:
    return symbol("n") if dim == size else dim


@pytest.mark.parametrize("case", [c for c in CASES if c.operator.expand(len(c.shapes))], ids=str)
def test_expansions_mean_the_same(case: Case) -> None:
    instance = example(case)
    expected = evaluate(instance.operator, instance.arrays, instance.types)
    for expansion in instance.operator.expand(len(instance.types)):
        value, _ = _apply(expansion, instance)
        np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12)


def _apply(application: object, instance: Example) -> tuple[np.ndarray, TensorType]:
    """Value and type of an operand position or a nested (operator, arguments) pair."""
    if isinstance(application, int):
        return instance.arrays[application], instance.types[application]
    operator, arguments = application  # type: ignore[misc]
    assert isinstance(operator, Operator)
    parts = [_apply(a, instance) for a in arguments]
    types = [t for _, t in parts]
    value = evaluate(operator.normal(*types), [v for v, _ in parts], types)
    return value, operator.infer(*types)


@pytest.mark.parametrize(
    ("operator", "operands"),
    [
        (OPERATORS["Slice"](axes=(0,), starts=(0,), ends=(1,)), [TensorType("float32", ())]),
        (OPERATORS["Slice"](axes=(2,), starts=(0,), ends=(1,)), [TensorType("float32", (3, 4))]),
        (
            OPERATORS["ScatterND"](indices=(0,), indices_shape=()),
            [TensorType("float32", (3,)), TensorType("float32", ())],
        ),
    ],
    ids=["slice-of-scalar", "slice-beyond-the-rank", "places-without-axis"],
)
def test_what_does_not_fit_its_operand_is_a_typing_error(operator: Operator, operands: list[TensorType]) -> None:
    with pytest.raises(TypingError):
        operator.normal(*operands)
    with pytest.raises(TypingError):
        operator.infer(*operands)
