"""Optimised models with their certificates, for the tests of these."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

import taso_py
from taso_py.certificate.certify import Certified
from taso_py.prove.verdict import Proved, Unknown, Verdict
from taso_py.rules.coverage import DEFINED
from taso_py.rules.library import load as load_library
from taso_py.rules.rule import Rule
from tests.helpers.graphs import model
from tests.helpers.schemas import require_valid

LIBRARY = {rule.id for rule in load_library().all()}
ARITY = ("-variadic", "split-slices", "concat-of-cuts")
FOLDING = ["batchnorm-into-conv"]
"""The rule of `convnet`, so that its certificate does not depend on which of several ways is found."""

CONVNET = """agraph (float[1,3,8,8] x, float[1,4,8,8] k) => (float[1,4,8,8] y, float[1,4,8,8] z) {
  c = Conv<pads = [1, 1, 1, 1]>(x, w) b = BatchNormalization(c, scale, bias, mean, var) y = Relu(b)
  d = Sub(k, y) e = Mul(d, kept) z = Tanh(e)}"""


def convnet() -> onnx.ModelProto:
    """Its Conv has computed weights afterwards; Sub, Mul and Tanh, and the weight `kept`, stay as they are."""
    shapes = {"w": (4, 3, 3, 3), "scale": (4,), "bias": (4,), "mean": (4,), "var": (4,), "kept": (4, 1, 1)}
    proto = model(CONVNET, **shapes)
    var = weight(proto, "var")
    var.CopyFrom(numpy_helper.from_array(np.abs(numpy_helper.to_array(var)) + np.float32(0.1), "var"))
    for node in proto.graph.node:
        node.name = f"{node.output[0]}_node"
    return proto


def overridable() -> onnx.ModelProto:
    """`convnet` with a weight that a caller may override."""
    proto = convnet()
    proto.graph.input.append(onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [4, 3, 3, 3]))
    return proto


def weight(proto: onnx.ModelProto, name: str) -> onnx.TensorProto:
    """An initializer."""
    return next(t for t in proto.graph.initializer if t.name == name)


def trusting(rule: Rule) -> Verdict:
    """A prover that knows the library by heart."""
    known = rule.id in LIBRARY or rule.name.endswith(ARITY)
    return Proved(patterns=DEFINED) if known else Unknown("it is not in the library")


@dataclass(frozen=True)
class Case:
    """A model, what was made of it, and the certificate."""

    original: Path
    optimised: Path
    certificate: Path

    def certify(self, **options: Any) -> Certified:
        """What `taso_py.certify` says, rules of the library taken for proved."""
        return taso_py.certify(self.original, self.optimised, self.certificate, **{"prover": trusting} | options)

    def document(self) -> dict[str, Any]:
        """The certificate as plain values."""
        return json.loads(self.certificate.read_text())

    def arguments(self) -> list[str]:
        """What follows `superopt certify`."""
        return [str(self.original), str(self.optimised), str(self.certificate)]


def optimised(folder: Path, proto: onnx.ModelProto, **options: Any) -> Case:
    """The model optimised without timing, in this folder."""
    case = Case(folder / "original.onnx", folder / "optimised.onnx", folder / "certificate.json")
    onnx.save(proto, case.original)
    cache = folder / "regions.sqlite"
    result = taso_py.optimize(case.original, race=False, cache=cache, **options).save(case.optimised)
    result.save_certificate(case.certificate)
    require_valid(case.document())
    return case


def every_use(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Steps and looks: all that names a rule."""
    return [use for step in document["steps"] for use in (step, *step["looks"])]
