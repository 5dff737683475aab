"""Small models, what `optimize` makes of them, and their certificates."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

import taso_py
from scripts.bench.networks import mobileone_s0, nasrnn
from taso_py.certificate.digest import digest
from taso_py.certificate.document import SCHEMA
from taso_py.errors import ModelError

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """An original, a model that is said to follow from it, the certificate for that, and what the caller assumes."""

    name: str
    original: onnx.ModelProto
    optimised: onnx.ModelProto
    document: Document
    freeze_initializers: bool = False

    def written(self, folder: Path, *, as_it_is: bool = False) -> tuple[Path, Path, Path]:
        """The three files. Digests fit, as a forger makes them fit; ``as_it_is`` leaves the certificate alone."""
        files = folder / "original.onnx", folder / "optimised.onnx", folder / "certificate.json"
        files[0].write_bytes(self.original.SerializeToString(deterministic=True))
        files[1].write_bytes(self.optimised.SerializeToString(deterministic=True))
        document = self.document if as_it_is else fitted(self.document, files[0], files[1])
        files[2].write_text(json.dumps(document), encoding="utf-8")
        return files


def fitted(document: Document, original: Path, optimised: Path) -> Document:
    """The document with digests of these files, and of itself; of a model whose weights lie nowhere, what it says."""
    made = dict(document)
    for part, path in (("original", original), ("optimised", optimised)):
        with suppress(ModelError):
            made[part] = asdict(digest(path))
    return made | {"sha256": own_digest(made)}


def fitted_to_nothing(rules: list[Document], steps: list[Document]) -> Document:
    """A certificate with these rules and steps, and no digests yet."""
    digests: Document = {"sha256": "", "external": {}}
    head = {"schema": SCHEMA, "original": digests, "optimised": digests, "freeze_initializers": False}
    return head | {"metadata": {}, "rules": rules, "steps": steps, "weights": {}, "sha256": ""}


def own_digest(document: Document) -> str:
    """The digest that a certificate has of itself."""
    content = {name: value for name, value in document.items() if name not in ("schema", "sha256")}
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def model(text: str, opset: int = 17, **weights: tuple[int, ...] | np.ndarray[Any, Any]) -> onnx.ModelProto:
    """A graph with initializers: arrays, or shapes of random ones."""
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>' + text)
    random = np.random.default_rng(0)
    for name, given in weights.items():
        array = given if isinstance(given, np.ndarray) else random.standard_normal(given).astype(np.float32)
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    for number, node in enumerate(proto.graph.node):
        node.name = f"node_{number}"
    onnx.checker.check_model(proto)
    return proto


_CONVNET = """agraph (float[1,3,8,8] x, float[1,4,8,8] k) => (float[1,4,8,8] y, float[1,4,8,8] z) {
  c = Conv<pads = [1, 1, 1, 1]>(x, w) b = BatchNormalization(c, scale, bias, mean, var) y = Relu(b)
  d = Sub(k, y) e = Mul(d, kept) z = Tanh(e)}"""
_SIBLINGS = """agraph (float[N,8] x) => (float[N,4] p, float[N,6] q, float[N,2] r) {
  p = MatMul(x, A) q = Gemm(x, B, b) t = MatMul(x, C) r = Relu(t)}"""
_LORA = """agraph (float[2,16] x) => (float[2,16] y) {
  base = MatMul(x, W) down = MatMul(x, A) up = MatMul(down, B) s = Mul(up, scale) y = Add(base, s)}"""
_LAYOUT = """agraph (float[2,3,4,5] x) => (float[2,5,4,3] y, float[2,4,15] z) {
  a = Transpose<perm = [0, 2, 3, 1]>(x) r = Relu(a) b = Transpose<perm = [0, 2, 1, 3]>(r) y = Identity(b)
  t = Transpose<perm = [0, 2, 1, 3]>(x) u = Reshape(t, shape) z = Neg(u)}"""
_TWINS = """agraph (float[2,6] x, float[2,6] v) => (float[2,12] y, float[2,6] z) {
  a = Relu(x) b = Relu(v) y = Concat<axis = 1>(a, b) m = Mul(x, two) n = Mul(m, two) z = Sub(n, v)}"""


def convnet() -> onnx.ModelProto:
    """Conv and BatchNormalization, whose weights are computed anew, and nodes that stay."""
    positive = np.abs(np.random.default_rng(1).standard_normal(4)).astype(np.float32) + np.float32(0.1)
    return model(
        _CONVNET, w=(4, 3, 3, 3), scale=(4,), bias=(4,), mean=(4,), var=positive, kept=(4, 1, 1)
    )  # fmt: skip


def overridable() -> onnx.ModelProto:
    """`convnet` with a weight that a caller may override."""
    proto = convnet()
    proto.graph.input.append(onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [4, 3, 3, 3]))
    return proto


MODELS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "convnet": convnet,
    "siblings": lambda: model(_SIBLINGS, A=(8, 4), B=(8, 6), C=(8, 2), b=(6,)),
    "lora": lambda: model(_LORA, W=(16, 16), A=(16, 2), B=(2, 16), scale=(1,)),
    "layout": lambda: model(_LAYOUT, shape=np.array([2, 4, 15])),
    "twins": lambda: model(_TWINS, two=np.full((1,), 2, np.float32)),
    "nasrnn": lambda: nasrnn(steps=2, hidden=8),
    "mobileone": lambda: mobileone_s0(width=0.25, image=32, blocks=(1, 1, 1, 1)),
    "overridable": overridable,
}
_FROZEN = frozenset({"overridable"})


@dataclass(frozen=True, slots=True)
class Honest:
    """How a certificate comes about that must be accepted."""

    model: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The model, and what `optimize` was told."""
        return " ".join([self.model, *(f"{k}={v}" for k, v in self.options.items())])

    def case(self, folder: Path) -> Case:
        """The model, optimised without timing."""
        frozen = self.model in _FROZEN
        original = folder / "model.onnx"
        original.write_bytes(MODELS[self.model]().SerializeToString(deterministic=True))
        result = taso_py.optimize(
            original, race=False, cache=folder / "cache.sqlite", freeze_initializers=frozen, **self.options
        ).save(folder / "result.onnx", force=True)
        result.save_certificate(folder / "result.json", force=True)
        document = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        assert document["schema"] == SCHEMA
        made = onnx.load(folder / "result.onnx")
        case = Case(self.name, onnx.load(original), made, document, frozen)
        _, _, certificate = case.written(folder)
        return replace(case, document=json.loads(certificate.read_text(encoding="utf-8")))


HONEST = (
    *(Honest(name, {"apply": apply}) for name in MODELS for apply in ("best", "all")),
    *(Honest(name, {"provenance": False}) for name in ("convnet", "siblings")),
    *(Honest(name, {"rules": ()}) for name in ("convnet", "lora")),
)


def edited(case: Case, name: str, change: Callable[[Case], Any]) -> Case:
    """A copy of a case, altered."""
    copies = [onnx.ModelProto(), onnx.ModelProto()]
    for copy, source in zip(copies, (case.original, case.optimised), strict=True):
        copy.CopyFrom(source)
    document = json.loads(json.dumps(case.document))
    copy = replace(case, name=f"{case.name}: {name}", original=copies[0], optimised=copies[1], document=document)
    changed = change(copy)
    return changed if isinstance(changed, Case) else copy
