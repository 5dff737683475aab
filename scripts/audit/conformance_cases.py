"""Models for the conformance run: ONNX's own test cases, the same with constant operands or older opsets, and rules.

A *frozen* case has all inputs but the first as initializers, as exported networks have them: operators that want
constants (Reshape's shape, Clip's bounds) are then understood, and weights can be folded.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test.loader as loader
from onnx import numpy_helper, version_converter

from taso_py.errors import TypingError
from taso_py.graph.table import Values
from taso_py.onnx_io.fragment import fragment
from taso_py.onnx_io.read import DEFAULT_DOMAINS, default_opset
from taso_py.rules.instances import Instance, draw
from taso_py.rules.library import load
from taso_py.rules.rule import Rule

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
CONVERTED_OPSETS = (9, 11, 13, 17)
CONVERTED = 320  # some of which ONNX Runtime does not load
NEWEST_OPSET, NEWEST_IR = 26, 13  # that ONNX Runtime 1.31 loads; newer ones are stamped back where that is honest
RULE_OPSETS = (23, 17, 13)  # the newest first: every right side can be written there
DRAWS = 8


@dataclass(frozen=True, slots=True)
class Case:
    """One model, with the inputs and outputs that its test stores (none: anything will do)."""

    name: str
    kind: str
    content: bytes = field(repr=False)
    _: KW_ONLY
    inputs: dict[str, Any] = field(default_factory=dict, repr=False)
    outputs: dict[str, Any] = field(default_factory=dict, repr=False)
    rtol: float = 1e-3
    atol: float = 1e-7
    rule: str | None = None
    """The rule whose left side the model is."""

    @property
    def model(self) -> onnx.ModelProto:
        """The parsed model."""
        return onnx.ModelProto.FromString(self.content)


def backend_cases() -> list[Case]:
    """Every node, simple and pytorch case of the installed onnx."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ONNX computes its cases at load time, overflows included
        tests = [test for kind in KINDS for test in loader.load_model_tests(kind=kind)]
        return [_backend_case(test) for test in tests]


def _backend_case(test: loader.TestCase) -> Case:
    model = test.model if test.model is not None else onnx.load(Path(test.model_dir) / "model.onnx")
    if test.data_sets:
        inputs, outputs = test.data_sets[0]
    else:
        inputs = _stored(test.model_dir, "input", model.graph.input)
        outputs = _stored(test.model_dir, "output", model.graph.output)
    fixed = {t.name for t in model.graph.initializer}
    names = [v.name for v in model.graph.input if v.name not in fixed]
    return Case(
        test.name,
        test.kind,
        _restamped(model).SerializeToString(),
        inputs=dict(zip(names, map(_plain, inputs), strict=False)),
        outputs=dict(zip((v.name for v in model.graph.output), map(_plain, outputs), strict=False)),
        rtol=test.rtol,
        atol=test.atol,
    )


def _restamped(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model at an opset and IR version that ONNX Runtime loads, where that changes no operator."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    result.ir_version = min(model.ir_version, NEWEST_IR)
    for entry in result.opset_import:
        nodes = [*result.graph.node, *(n for f in result.functions for n in f.node)]
        standard = [n.op_type for n in nodes if n.domain in DEFAULT_DOMAINS]
        if entry.domain in DEFAULT_DOMAINS and entry.version > NEWEST_OPSET and _unchanged(standard, entry.version):
            entry.version = NEWEST_OPSET
            for function in result.functions:
                for own in function.opset_import:
                    own.version = min(own.version, NEWEST_OPSET) if own.domain in DEFAULT_DOMAINS else own.version
    return result


def _unchanged(op_types: Iterable[str], opset: int) -> bool:
    """Whether these operators are at ``opset`` what they were at the newest that ONNX Runtime loads."""
    try:
        return all(onnx.defs.get_schema(t, opset).since_version <= NEWEST_OPSET for t in op_types)
    except onnx.defs.SchemaError:
        return False


def _plain(value: Any) -> Any:
    """A stored value as ONNX Runtime takes it."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def _stored(folder: str, kind: str, infos: Sequence[onnx.ValueInfoProto]) -> list[Any]:
    files = [Path(folder) / "test_data_set_0" / f"{kind}_{k}.pb" for k in range(len(infos))]
    return [_value(f.read_bytes(), info) for f, info in zip(files, infos, strict=True) if f.is_file()]


def _value(content: bytes, info: onnx.ValueInfoProto) -> Any:
    match info.type.WhichOneof("value"):
        case "sequence_type":
            return numpy_helper.to_list(onnx.SequenceProto.FromString(content))
        case "optional_type":
            return numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
        case _:
            return numpy_helper.to_array(onnx.TensorProto.FromString(content))


def frozen(case: Case) -> Case | None:
    """The case with all inputs but the first as initializers; None when that changes nothing or cannot be said."""
    model = case.model
    names = [v.name for v in model.graph.input if v.name in case.inputs][1:]
    values = {name: case.inputs[name] for name in names}
    if not values or not all(isinstance(v, np.ndarray) and v.dtype != object for v in values.values()):
        return None
    if model.ir_version < 4:
        return None
    kept = [v for v in model.graph.input if v.name not in values]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(numpy_helper.from_array(v, name) for name, v in values.items())
    inputs = {name: v for name, v in case.inputs.items() if name not in values}
    return replace(case, name=f"{case.name}@frozen", kind="frozen", content=model.SerializeToString(), inputs=inputs)


def converted(cases: Sequence[Case], count: int = CONVERTED) -> list[Case]:
    """``count`` cases converted to older (or newer) opsets: the first of a seeded shuffle that can be converted."""
    found: list[Case] = []
    for opset in CONVERTED_OPSETS:
        order = np.random.default_rng(opset).permutation(len(cases))
        able = (c for k in order if (c := _converted(cases[k], opset)) is not None)
        found += islice(able, count // len(CONVERTED_OPSETS))
    return found


def _converted(case: Case, opset: int) -> Case | None:
    model = case.model
    if default_opset(model) in (None, opset) or len(model.opset_import) > 1 or model.functions:
        return None
    try:
        other = version_converter.convert_version(model, opset)
        onnx.checker.check_model(other)
    except Exception:  # noqa: BLE001 - the converter raises whatever it likes where it knows no way
        return None
    other.ir_version = max(4, min(model.ir_version, 10))
    name = f"{case.name}@opset{opset}"
    return replace(case, name=name, kind="converted", content=other.SerializeToString())


def rule_cases(instances: int, rules: Iterable[Rule] | None = None) -> Iterator[Case]:
    """Left sides of rules, of all of them if none are given, at drawn sizes, as models of their own."""
    for rule in load().all() if rules is None else rules:
        for directed in rule.directions():
            yield from _instances(directed, instances)


def _instances(rule: Rule, count: int) -> Iterator[Case]:
    random, values = np.random.default_rng(zlib.crc32(rule.name.encode()) + 1), Values()
    for number in range(count):
        instance = _unfolded(rule, random, values)
        if instance is None:
            return
        opsets = [RULE_OPSETS[(number + k) % len(RULE_OPSETS)] for k in range(len(RULE_OPSETS))]
        content = next((c for opset in opsets if (c := _left_side(instance, opset)) is not None), None)
        if content is not None:
            yield Case(f"{rule.name}#{number}", "rule", content, rule=rule.name)


def _unfolded(rule: Rule, random: np.random.Generator, values: Values) -> Instance | None:
    """An instance no node of which computes a constant, if a few draws give one: such a node would be folded away."""
    instance = None
    for _ in range(DRAWS):
        instance = draw(rule, random, values) or instance
        if instance is None or not values.constant & instance.model(instance.left, RULE_OPSETS[0]).nodes.keys():
            break
    return instance


def _left_side(instance: Instance, opset: int) -> bytes | None:
    """The model of an instance's left side; None when it cannot be written at the opset."""
    table = instance.model(instance.left, opset)
    live = table.reachable()
    inputs = [v for v in instance.feeds if v in live]
    weights = {v: np.asarray(a) for v, a in instance.weights.items()}
    nodes = list(table.order())
    try:
        model = fragment(nodes, inputs, instance.left, instance.values, opset, weights=weights, fold=True)
    except TypingError:
        return None
    content: bytes = model.SerializeToString()
    return content


def all_cases(cases: Iterable[Case] | None = None, instances: int = len(RULE_OPSETS)) -> list[Case]:
    """Backend cases, their frozen and converted forms, and the rules' left sides."""
    plain = list(backend_cases() if cases is None else cases)
    constant = [c for case in plain if (c := frozen(case)) is not None]
    return [*plain, *constant, *converted([*plain, *constant]), *rule_cases(instances)]
