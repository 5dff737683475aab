"""Sound inputs, small ones, from which every mutation begins."""

from __future__ import annotations

import hashlib
import io
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

from scripts.audit.random_models import random_model
from taso_py.cost.cache import Cache
from taso_py.cost.measurement import Measurement
from taso_py.rules.location import rules_directory

WEIGHTS = "weights.bin"
"""A file of 256 bytes that lies beside every model."""

_BRANCHES = """<ir_version: 8, opset_import: ["" : 17]>
agraph (float[N, 4] x, bool c) => (float[N, 4] y) {
  t = Relu(x)
  u = If(c) <then_branch = a () => (float[N, 4] p) { p = Add(t, x) },
    else_branch = b () => (float[N, 4] q) { q = Neg(t) }>
  y = Mul(u, t) }"""
_LOOP = """<ir_version: 8, opset_import: ["" : 17]>
agraph (float[2, 4] x, int64 n, bool c) => (float[2, 4] y, float[K, 2, 4] z) {
  y, z = Loop(n, c, x) <body = b (int64 i, bool d, float[2, 4] s) => (bool e, float[2, 4] r, float[2, 4] w) {
    e = Identity(d) r = Add(s, x) w = Mul(s, s) }> }"""
_FUNCTIONS = """<ir_version: 9, opset_import: ["" : 18, "own" : 1]>
agraph (float[N, 4] x) => (float[N, 4] y, float[N, 4] z) {
  a = own.twice <alpha = 0.5>(x) y = own.gate(a, x) z = Tanh(a) }
<domain: "own", opset_import: ["" : 18]> twice <alpha> (v) => (w) { k = Elu <alpha: float = @alpha>(v) w = Add(k, k) }
<domain: "own", opset_import: ["" : 18, "own" : 1]> gate (p, q) => (r) {
  s = own.twice <alpha = 2.0>(p) r = Mul(s, q) }"""
_SHAPES = """<ir_version: 8, opset_import: ["" : 17]>
agraph (float[B, S, 8] x) => (float[B, S, 2, 4] y, float[S, B, 8] z, float o) {
  s = Shape(x) i = Constant <value = int64 {1}>() b = Gather <axis = 0>(s, i) two = Constant <value_ints = [2, 4]>()
  zero = Constant <value_ints = [0]>() o1 = Constant <value_ints = [1]>() h = Slice(s, zero, o1)
  m = Unsqueeze(b, zero) g = Identity(m) t = Concat <axis = 0>(h, g, two) y = Reshape(x, t)
  z = Transpose <perm = [1, 0, 2]>(x) k = ConstantOfShape <value = float {1}>(t) o = ReduceSum <keepdims = 0>(k) }"""
_SEQUENCES = """<ir_version: 8, opset_import: ["" : 17]>
agraph (float[2, 6] x, seq(float[N]) e) => (float[2, 6] y, seq(float[2, 3]) p, float[N] w) {
  n = Constant <value = int64 {3}>() i = Constant <value = int64 {0}>() p = SplitToSequence <axis = 1>(x, n)
  y = ConcatFromSequence <axis = 1>(p) w = SequenceAt(e, i) }"""


def models(extra: Path | None = None) -> list[bytes]:
    """Serialised models; those of a folder as well."""
    found = [random_model(seed, length=6 + seed % 8) for seed in range(12)]
    found += [onnx.parser.parse_model(text) for text in (_BRANCHES, _LOOP, _FUNCTIONS, _SHAPES, _SEQUENCES)]
    found += [_external(), _sparse(), _quantised()]
    small = (path.read_bytes() for path in sorted(extra.glob("*.onnx"))) if extra is not None else ()
    return [*(model.SerializeToString(deterministic=True) for model in found), *(d for d in small if len(d) < 20_000)]


def _network(nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto], opset: int = 17) -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 4]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _external() -> onnx.ModelProto:
    """One weight within the file beside it, and one in the model."""
    outside = TensorProto(name="w", dims=[4, 4], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", WEIGHTS), ("offset", "64"), ("length", "64")):
        outside.external_data.add(key=key, value=value)
    inside = numpy_helper.from_array(np.ones(4, np.float32), "b")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "b"], ["y"])]
    return _network(nodes, [outside, inside])


def _sparse() -> onnx.ModelProto:
    """A sparse initializer, and strings."""
    model = _network([helper.make_node("MatMul", ["x", "w"], ["y"])], [])
    values, places = np.ones(2, np.float32), np.array([1, 6], np.int64)
    sparse = (numpy_helper.from_array(values, "w"), numpy_helper.from_array(places, "w_indices"))
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(*sparse, [4, 4]))
    model.graph.initializer.append(helper.make_tensor("s", TensorProto.STRING, [2], [b"a", b"b"]))
    model.metadata_props.add(key="superopt.version", value="1")
    return model


def _quantised() -> onnx.ModelProto:
    """Integers between two conversions, and a weight in 4 bits."""
    scale = numpy_helper.from_array(np.float32(0.1), "scale")
    zero = numpy_helper.from_array(np.uint8(3), "zero")
    packed = helper.make_tensor("k", TensorProto.INT4, [4, 4], [1] * 16)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        helper.make_node("DequantizeLinear", ["k", "scale"], ["w"]),
        helper.make_node("MatMul", ["d", "w"], ["y"]),
    ]
    return _network(nodes, [scale, zero, packed], opset=21)


def rules() -> list[bytes]:
    """Rule files of a few laws each, cut out of the library."""
    found = []
    for path in sorted(rules_directory().glob("*.rules")):
        head, *laws = path.read_text(encoding="utf-8").split("\nrule ")
        promises = "".join(f"{line}\n" for line in head.splitlines() if line.startswith("# promise") and len(line) < 30)
        found += [
            promises + "".join(f"rule {law}\n" for law in laws[k : k + 2]) for k in range(0, min(len(laws), 12), 2)
        ]
    return [text.encode() for text in found]


def locks() -> list[bytes]:
    """The head of the library's record with some of its lines."""
    head, *lines = (rules_directory() / "proofs.lock").read_text(encoding="utf-8").splitlines()
    return [refitted_lock("\n".join([head, *lines[k : k + 8]]).encode()) for k in range(0, 80, 8)]


def refitted_lock(data: bytes) -> bytes:
    """The same with the digest that its lines have; unchanged where it has no head."""
    head, _, rest = data.rstrip(b"\n").partition(b"\n")
    try:
        found: dict[str, Any] = json.loads(head)
        found["digest"] = hashlib.sha256(rest).hexdigest()
    except (ValueError, TypeError, RecursionError):
        return data
    return json.dumps(found).encode() + b"\n" + rest + b"\n"


def step(data: bytes) -> bytes:
    """A step of a checkpoint that holds these bytes."""
    return hashlib.sha256(data).hexdigest().encode() + b"\n" + data


def steps() -> list[bytes]:
    """Steps of a checkpoint."""
    settings = {"set": "small", "ops": ["Add", "MatMul"], "most": 3, "steps": 10}
    values: tuple[Any, ...] = (settings, {"law": [1, "proved"]}, [[1, 2], [3, 4]])
    prints = np.arange(5, dtype=np.uint64).tobytes()
    return [*(step(json.dumps(value).encode()) for value in values), step(prints)]


def settings() -> list[bytes]:
    """Settings files with values of every kind."""
    texts = (
        'threads = 4\ncache = "build/superopt.sqlite"\n[optimize]\ntime-budget = 300\ndisable = ["conv-scaled"]\n'
        "shape = {batch = 8, x = [8, 3, 224, 224]}\nno-provenance = true\n[rules.rank]\nthreads = 1\n",
        'gate = ["min-speedup=1.05"]\n[optimize]\nworkload = ["a=1,128;b=1,128"]\nep-option = {device_id = 0}\n'
        'seed = 7\nrules = ["none"]\napply = "all"\n[check]\nrtol = 1e-3\n[cache]\n[generate]\n'
        'ops = "MatMul,Add"\nset = "small"\n',
    )
    return [text.encode() for text in texts]


def arrays() -> list[bytes]:
    """`.npy` files of several element types and ranks, and an archive."""
    found = []
    for array in (np.zeros((2, 3), np.float32), np.arange(4), np.array(True), np.array(["a", "b"]), np.zeros((0, 5))):
        buffer = io.BytesIO()
        np.save(buffer, array)
        found.append(buffer.getvalue())
    archive = io.BytesIO()
    np.savez(archive, x=np.zeros(3))
    return [*found, archive.getvalue()]


def substitutions() -> list[bytes]:
    """Files as TASO's decoded ones."""
    return [json.dumps({"rules": [one]}).encode() for one in _substitutions()]


def _substitutions() -> Iterator[dict[str, Any]]:
    def op(kind: str, *inputs: tuple[int, int], **params: object) -> dict[str, Any]:
        return {"op": kind, "inputs": [list(i) for i in inputs], "params": params}

    outputs = [{"src": [1, 0], "dst": [1, 0]}]
    yield {"id": 0, "outputs": outputs,
           "src": [op("ewadd", (-1, 0), (-2, 0)), op("ewmul", (0, 0), (-3, 0))],
           "dst": [op("ewadd", (-2, 0), (-1, 0)), op("ewmul", (-3, 0), (0, 0))]}  # fmt: skip
    yield {"id": 1, "outputs": [{"src": [0, 0], "dst": [2, 0]}, {"src": [1, 0], "dst": [2, 1]}],
           "src": [op("matmul", (-1, 0), (-2, 0), acti="none"), op("matmul", (-1, 0), (-3, 0), acti="none")],
           "dst": [op("concat", (-2, 0), (-3, 0), axis=1), op("matmul", (-1, 0), (0, 0), acti="none"),
                   op("split", (1, 0), axis=1, num_outputs=2)]}  # fmt: skip
    conv = {"stride_h": 1, "stride_w": 1, "pad": "same"}
    yield {"id": 2, "outputs": [{"src": [0, 0], "dst": [1, 0]}],
           "src": [op("conv2d", (-1, 0), (-2, 0), acti="relu", **conv)],
           "dst": [op("conv2d", (-1, 0), (-2, 0), acti="none", **conv), op("relu", (0, 0))]}  # fmt: skip


def databases(folder: Path) -> list[bytes]:
    """A cache of times with entries, and a database of other people's."""
    path, other = folder / "seed.sqlite", folder / "other.sqlite"
    with Cache(path) as cache:
        cache.put_many({f"key{k}": Measurement(1.0 + k, 0.5, 0.01, 10, "1.23.0", 1.7e9 + k) for k in range(9)})
    other.unlink(missing_ok=True)  # an earlier process has begun in the same folder
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE notes (text TEXT)")
    connection.commit()
    connection.close()
    return [path.read_bytes(), other.read_bytes()]


def exports() -> list[bytes]:
    """What `superopt cache export` writes."""
    entry = {"before": 1.0, "after": 0.5, "noise": 0.01, "samples": 10, "ort_version": "1.23.0", "created": 1.7e9}
    return [json.dumps({"key": "k"} | entry).encode()]
