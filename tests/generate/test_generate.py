"""The generator: fingerprints, enumeration, and pairs of equal values."""

from __future__ import annotations

import itertools
import resource
import tempfile
from pathlib import Path

import numpy as np
import pytest

from taso_py.errors import OutputError
from taso_py.generate.tasks import Space, Start, grown
from taso_py.generate.terms.enumeration import Enumeration
from taso_py.generate.terms.field import P, draw, fingerprints, kernel
from taso_py.generate.terms.last_level import last_collisions, last_parts
from taso_py.generate.terms.stacks import Stacks
from taso_py.graph.types import TensorType
from taso_py.ops import OPERATORS
from tests.helpers.generator_terms import TASO


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
    table = Enumeration(TASO.only(["ewadd", "transpose"]))
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
    monkeypatch.setattr("taso_py.generate.terms.stacks._SMALL", 1)
    tables = [Enumeration(TASO.only(["ewadd", "transpose", "matmul"]), Stacks(on_disk)) for on_disk in (False, True)]
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
    monkeypatch.setattr("taso_py.generate.terms.stacks._SMALL", 1)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, before[1]))
    try:
        with pytest.raises(OutputError, match=r"no room for .* GB of values .* TMPDIR"):
            Enumeration(TASO, Stacks(on_disk=True)).grow(1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_operands_that_share_operators_are_all_found() -> None:
    table = Enumeration(TASO.only(["transpose", "relu", "matmul"]))
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
    monkeypatch.setattr("taso_py.generate.terms.last_level._PIECE", 20)
    in_pieces = last_collisions(table, parts, prints)
    assert (list(in_pieces[0]), in_pieces[1]) == (list(whole[0]), whole[1])


def stack_of(table: Enumeration, number: int) -> bytes:
    value = table.values[number]
    return bytes(table.stacks.take(value.type, np.array([value.row])).tobytes())
