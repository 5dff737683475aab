"""Samples of a file: what fits the model, what does not, and their parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from taso_py.approximate.samples import LEAST, drawn, parts_of, read_samples
from taso_py.check.facts import InputSpec
from taso_py.check.shapes import resolve_shapes
from taso_py.errors import UsageError
from tests.helpers.precision import samples, saved

IMAGE = InputSpec("x", "tensor", TensorProto.FLOAT, ("batch", 3, 4, 4))
MASK = InputSpec("mask", "tensor", TensorProto.INT64, ("batch", "length"))
IDS = InputSpec("ids", "tensor", TensorProto.INT64, (1, "length"))
FOUR = InputSpec("x", "tensor", TensorProto.FLOAT, (4, 3))


def read(path: Path, *inputs: InputSpec, overrides: Any = None, **arrays: Any) -> Any:
    return read_samples(saved(path / "d.npz", **arrays), inputs, overrides or {})


def test_the_batch_axis_may_be_there_or_not(tmp_path: Path) -> None:
    bare, full = samples(12, 3, 4, 4), samples(12, 1, 3, 4, 4)
    assert read(tmp_path, IMAGE, x=bare).feeds(5)["x"].shape == (1, 3, 4, 4)
    assert np.array_equal(read(tmp_path, IMAGE, x=full).feeds(5)["x"], full[5])
    assert np.array_equal(read(tmp_path, IMAGE, x=bare).feeds(5)["x"][0], bare[5])
    assert read(tmp_path, IMAGE, x=samples(12, 7, 3, 4, 4)).feeds(0)["x"].shape == (7, 3, 4, 4)


def test_a_sample_of_an_input_of_unknown_rank_is_all_of_it(tmp_path: Path) -> None:
    unknown = InputSpec("x", "tensor", TensorProto.FLOAT, None)
    assert read(tmp_path, unknown, x=samples(12, 5, 3)).feeds(0)["x"].shape == (5, 3)


def test_a_fixed_batch_takes_whole_inputs_alone(tmp_path: Path) -> None:
    assert read(tmp_path, FOUR, x=samples(12, 4, 3)).feeds(0)["x"].shape == (4, 3)
    with pytest.raises(UsageError, match=r"takes 4 at once: give arrays of shape \(n, 4, 3\)"):
        read(tmp_path, FOUR, x=samples(12, 3))


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"y": samples(12, 3, 4, 4)}, "no array 'x'"),
        ({"x": samples(12, 3, 4, 4), "z": samples(12, 3)}, "an array 'z' that is no input"),
        ({"x": samples(12, 3, 4, 5)}, r"shape \(1, 3, 4, 5\), the input takes \(batch, 3, 4, 4\)"),
        ({"x": samples(12, 4)}, r"shape \(4\)"),
        ({"x": samples(12, 3, 4, 4, dtype=np.float64)}, "is float64, the model expects float32: convert it"),
        ({"x": np.zeros((0, 3, 4, 4), np.float32)}, "has no samples"),
        ({"x": np.float32(1)}, "has no samples"),
        (
            {"x": np.zeros((12, 3, 4, 4), [("a", "<i2"), ("b", "<i2")])},
            "the model expects float32: convert it",
        ),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(tmp_path: Path, arrays: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        read(tmp_path, IMAGE, **arrays)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_sample_that_is_not_finite_is_named(tmp_path: Path, bad: float) -> None:
    values = samples(12, 3, 4, 4)
    values[7, 0, 0, 0] = bad
    with pytest.raises(UsageError, match="sample 7 has NaN or Inf"):
        read(tmp_path, IMAGE, x=values)


def test_inputs_have_one_number_of_samples_and_one_size_for_a_symbol(tmp_path: Path) -> None:
    ids, mask = np.zeros((12, 9), np.int64), np.ones((12, 9), np.int64)
    assert set(read(tmp_path, IDS, MASK, ids=ids, mask=mask).feeds(0)) == {"ids", "mask"}
    with pytest.raises(UsageError, match="different numbers of samples: ids 12, mask 11"):
        read(tmp_path, IDS, MASK, ids=ids, mask=mask[:11])
    with pytest.raises(UsageError, match="'length' is 9 in 'ids' and 8 in 'mask'"):
        read(tmp_path, IDS, MASK, ids=ids, mask=mask[:, :8])


def test_an_input_given_as_an_array_needs_no_samples(tmp_path: Path) -> None:
    fixed = {"mask": np.ones((1, 9), np.int64)}
    found = read(tmp_path, IDS, MASK, overrides=fixed, ids=np.zeros((12, 9), np.int64))
    assert np.array_equal(found.feeds(3)["mask"], fixed["mask"])
    with pytest.raises(UsageError, match="the model has no such input: use one of ids, mask"):
        read(tmp_path, IDS, MASK, overrides={"wrong": fixed["mask"]}, ids=np.zeros((12, 9), np.int64))
    with pytest.raises(UsageError, match=r"mask.*: the array is float32, the model expects int64"):
        read(tmp_path, IDS, MASK, overrides={"mask": np.ones((1, 9), np.float32)}, ids=np.zeros((12, 9), np.int64))
    with pytest.raises(UsageError, match="no input is left"):
        read_samples(saved(tmp_path / "e.npz"), (MASK,), fixed)


@pytest.mark.parametrize("text", [b"", b"PK\x03\x04 no archive", b"\x93NUMPY", b"text"])
def test_a_file_that_is_no_archive_is_one_line(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "d.npz").write_bytes(text)
    with pytest.raises(UsageError, match=r"give a \.npz file that numpy\.savez wrote"):
        read_samples(tmp_path / "d.npz", (IMAGE,), {})


def test_pickles_are_refused_and_so_is_what_is_not_there(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.array([{}], dtype=object))
    with pytest.raises(UsageError, match="numpy"):
        read_samples(tmp_path / "d.npz", (IMAGE,), {})
    with pytest.raises(UsageError, match="no such file"):
        read_samples(tmp_path / "absent.npz", (IMAGE,), {})


def test_a_single_array_is_no_archive(tmp_path: Path) -> None:
    np.save(tmp_path / "d.npy", samples(12, 3, 4, 4))
    with pytest.raises(UsageError, match=r"\.npz"):
        read_samples(tmp_path / "d.npy", (IMAGE,), {})


@pytest.mark.parametrize("count", [10, 15, 16, 400, 5000])
def test_parts_are_disjoint_and_the_same_for_a_seed(count: int) -> None:
    found = parts_of(range(count), 5)
    everything = [*found.calibration, *found.selection, *found.test]
    assert len(set(everything)) == len(everything) <= count
    assert all(0 <= k < count for k in everything)
    assert parts_of(range(count), 5) == found != parts_of(range(count), 6)
    assert min(map(len, (found.calibration, found.selection))) >= 2


def test_400_samples_leave_299_to_test_and_9_are_too_few() -> None:
    assert len(parts_of(range(400), 0).test) >= 299
    with pytest.raises(UsageError, match=f"has 9 different samples: {LEAST} is the least"):
        parts_of(range(9), 0)


def test_equal_samples_count_once(tmp_path: Path) -> None:
    ids, mask = np.repeat(np.arange(24).reshape(12, 2), 3, axis=0), np.ones((36, 2), np.int64)
    mask[1, 0] = 0
    found = read(tmp_path, IDS, MASK, ids=ids, mask=mask)
    assert found.distinct() == (0, 1, *range(3, 36, 3))
    parts = parts_of(found.distinct(), 0)
    assert {*parts.calibration, *parts.selection, *parts.test} == {*found.distinct()}
    copies = read(tmp_path, IDS, ids=np.zeros((400, 9), np.int64))
    with pytest.raises(UsageError, match="has 1 different sample: "):
        parts_of(copies.distinct(), 0)
    text = InputSpec("t", "tensor", TensorProto.STRING, (1,))
    assert read(tmp_path, text, t=np.array([["a"], ["b"], ["a"]])).distinct() == (0, 1)


def test_random_samples_are_the_same_for_a_seed() -> None:
    sizes = resolve_shapes((IMAGE, IDS), {"length": (9,)})
    one, two = (drawn((IMAGE, IDS), sizes, 1, {}) for _ in range(2))
    other = drawn((IMAGE, IDS), sizes, 2, {})
    assert one.random
    assert np.array_equal(one.feeds(4)["x"], two.feeds(4)["x"])
    assert not np.array_equal(one.feeds(4)["x"], one.feeds(5)["x"])
    assert not np.array_equal(one.feeds(4)["x"], other.feeds(0)["x"])
