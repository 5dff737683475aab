"""A few nodes as a model of their own, and networks any part of which is written anew."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from scripts.bench.feeds import random_feeds
from scripts.bench.networks import NETWORKS
from taso_py.backend.client import Worker
from taso_py.backend.protocol import ModelRef, WorkerConfig
from taso_py.errors import TypingError
from taso_py.graph.table import Node
from taso_py.onnx_io.contract import check_contract
from taso_py.onnx_io.export import export, serialize, writable
from taso_py.onnx_io.fragment import fragment
from taso_py.onnx_io.load import load
from taso_py.onnx_io.stored import StoredWeights
from taso_py.ops.operator import Operator
from tests.helpers.onnx_io_models import half_precision, model, node, run, value, weight
from tests.helpers.onnx_io_rewrite import chain, kinds, merged, normal, same, siblings


def test_a_fragment_computes_what_the_model_does() -> None:
    before = siblings()
    r = merged()
    table = r.model()
    weights = {r[n]: r.loaded.folder.source(r[n]) for n in "ab"}
    nodes = list(table.order())
    outputs = [r["y"], r["z"]]
    part = fragment(nodes, [r["x"]], outputs, table.values, 17, sizes={"n": 2}, weights=weights, fold=True)
    assert kinds(part) == ["MatMul", "Split", "Relu", "Neg"]
    onnx.checker.check_model(part, full_check=True)
    x = normal(2, 4)
    for a, b in zip(run(before, {"x": x}), run(part, {f"v{r['x']}": x}), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-6)


def test_a_fragment_without_weights_is_random_but_runs() -> None:
    r = merged()
    table = r.model()
    inner = [(i, n) for i, n in table.order() if i in r.nodes]
    part = fragment(inner, [r["x"]], [r["p"], r["q"]], table.values, 17, sizes={"n": 3}, seed=5)
    assert part == fragment(inner, [r["x"]], [r["p"], r["q"]], table.values, 17, sizes={"n": 3}, seed=5)
    assert [t.dims for t in part.graph.initializer if t.data_type == TensorProto.FLOAT] == [[4, 8]]
    results = run(part, {f"v{r['x']}": normal(3, 4)})
    assert [np.shape(y) for y in results] == [(3, 3), (3, 5)]
    assert all(np.isfinite(y).all() for y in results)


def test_a_fragment_may_start_anywhere_and_return_anything() -> None:
    loaded = load(chain())
    nodes = [(i, loaded.table.nodes[i]) for i in (loaded.ids["b"], loaded.ids["c"])]
    part = fragment(nodes, [loaded.ids["a"]], [loaded.ids[n] for n in "abc"], loaded.values, 17)
    a = normal(3)
    for expected, found in zip((a, -a, a), run(part, {f"v{loaded.ids['a']}": a}), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_large_weights_may_lie_in_a_file() -> None:
    product = node("MatMul", "x w", "p"), node("MatMul", "p u", "y")
    shapes = {"w": (128, 256), "u": (256, 3)}
    weights = [weight(name, np.zeros(shape)) for name, shape in shapes.items()]
    loaded = load(model(product, [value("x", [2, 128])], [value("y", [2, 3])], weights))
    stored = StoredWeights()
    ends = [loaded.ids["x"]], [loaded.ids["y"]]
    part = fragment(list(loaded.table.order()), *ends, loaded.values, 17, stored=stored)
    small, large = sorted(part.graph.initializer, key=lambda t: t.data_location)
    assert (list(small.dims), list(large.dims)) == ([256, 3], [128, 256])
    assert large.data_location == TensorProto.EXTERNAL
    assert len(part.SerializeToString()) < 5_000
    with Worker(WorkerConfig()) as worker:
        handle = worker.open(ModelRef("part", part.SerializeToString(), stored.directory))
        (result,) = worker.run(handle, {f"v{loaded.ids['x']}": normal(2, 128)}).values()
    assert result.shape == (2, 3)
    assert np.isfinite(result).all()
    assert (result != 0).all()
    folded = fragment(list(loaded.table.order()), *ends, loaded.values, 17, fold=True, stored=stored)
    assert not any(t.data_location for t in folded.graph.initializer)
    directory = stored.directory
    assert directory.exists()
    del stored
    assert not directory.exists()


def test_stored_weights_of_one_model_lie_apart() -> None:
    """Weights that share memory would be read from a cache that the real ones do not fit into."""
    stored = StoredWeights()
    first, end = stored.tensor("a", (100, 100), 0)
    second, last = stored.tensor("b", (300, 1000), end)
    assert (first.offset, second.offset, end, last) == (0, 40960, 40000, 40960 + 1_200_000)
    for tensor in (first, second):
        values = tensor.numpy()
        assert abs(values.mean()) < 0.01
        assert 0.05 < values.std() < 0.08


def test_fragments_refuse_opaque_nodes_unknown_sizes_and_gaps() -> None:
    loaded = load(half_precision(onnx.TensorProto.BFLOAT16))
    nodes = list(loaded.table.order())
    x, y = loaded.ids["x"], loaded.ids["y"]
    with pytest.raises(TypingError, match="opaque: cut the fragment there"):
        fragment(nodes, [x], [y], loaded.values, 17, sizes={"n": 2})
    with pytest.raises(TypingError, match="size n has no value"):
        fragment(nodes[-1:], [loaded.ids["f"]], [y], loaded.values, 17)
    with pytest.raises(TypingError, match="neither an input nor computed"):
        fragment(nodes[-1:], [], [y], loaded.values, 17, sizes={"n": 2})


_SMALL = {
    "tiny_cnn": {},
    "tiny_mlp": {},
    "lstm": {"hidden": 8},
    "nasrnn": {"hidden": 8, "steps": 2},
    "bert_lora": {"layers": 1, "hidden": 16, "heads": 2, "sequence": 5, "vocabulary": 11, "rank": 2},
}


@pytest.mark.parametrize("share", [0.2, 0.6, 1.0])
@pytest.mark.parametrize("name", _SMALL)
def test_networks_written_anew_compute_the_same(name: str, share: float) -> None:
    before = NETWORKS[name](**_SMALL[name])
    loaded = load(before)
    random = np.random.default_rng(len(name))
    chosen = {
        i: Node(n.operator, n.inputs)
        for i, n in loaded.table.nodes.items()
        if isinstance(n.operator, Operator) and random.random() < share
    }
    assert chosen
    assert [str(n) for n in chosen.values() if not writable(n, loaded.table)] == []
    exported = export(loaded, loaded.table.rebind(chosen))
    assert check_contract(before, exported) == []
    same(before, onnx.ModelProto.FromString(serialize(exported)), random_feeds(before))


@pytest.mark.parametrize("name", _SMALL)
def test_every_node_of_a_network_alone_is_a_fragment_that_runs(name: str) -> None:
    loaded = load(NETWORKS[name](**_SMALL[name]))
    values, tried = loaded.values, 0
    for result, table_node in loaded.table.order():
        if not isinstance(table_node.operator, Operator) or result in values.constant:
            continue
        inputs = [i for i in dict.fromkeys(table_node.inputs) if i is not None and i not in values.constant]
        part = fragment([(result, table_node)], inputs, [result], values, loaded.table.opset)
        feeds = random_feeds(part)
        (found,) = run(part, feeds)
        assert np.shape(found) == values.types[result].dims
        assert np.isfinite(np.asarray(found, np.float64)).all(), str(table_node.operator)
        tried += 1
    assert tried > 10


def test_symbolic_attributes_take_the_sizes_given() -> None:
    proto = model(
        [node("Shape", "x", "s"), node("Concat", "s one", "t", axis=0), node("Reshape", "x t", "y")],
        [value("x", ["n", "m"])],
        [value("y", None)],
        [weight("one", [1], np.int64)],
    )
    loaded = load(proto)
    y = loaded.ids["y"]
    nodes = [(y, loaded.table.nodes[y])]
    part = fragment(nodes, [loaded.ids["x"]], [y], loaded.values, 17, sizes={"n": 3, "m": 4})
    (found,) = run(part, {f"v{loaded.ids['x']}": normal(3, 4)})
    assert np.shape(found) == (3, 4, 1)
