"""Pixels that are repeated by copies, however that is spelled, are an image enlarged, and convolutions of it small."""

from __future__ import annotations

import pytest

from tests.helpers.bundles import after
from tests.helpers.graphs import model, running

KERAS = """a = Unsqueeze(x, three) b = Tile(a, rows) c = Transpose<perm = [0,2,3,4,1]>(b) d = Reshape(c, tall)
  e = Unsqueeze(d, three) f = Tile(e, rows) g = Reshape(f, large) r = Transpose<perm = [0,3,1,2]>(g)"""
CHANNELS_LAST = """t = Transpose<perm = [0,2,3,1]>(x) a = Unsqueeze(t, two) b = Tile(a, across) c = Reshape(b, tall)
  e = Unsqueeze(c, three) f = Tile(e, rows) g = Reshape(f, large) r = Transpose<perm = [0,3,1,2]>(g)"""
INTERLEAVED = """a = Unsqueeze(x, three) b = Tile(a, rows) c = Reshape(b, high) d = Unsqueeze(c, four)
  e = Tile(d, columns) r = Reshape(e, whole)"""
EXPANDED = "a = Reshape(x, apart) b = Expand(a, twice) r = Reshape(b, whole)"
EXPANDED_TWICE = """a = Unsqueeze(x, three) b = Expand(a, wide) c = Reshape(b, high) d = Unsqueeze(c, four)
  e = Expand(d, deep) r = Reshape(e, whole)"""
VECTORS = {
    "two": [2], "three": [3], "four": [4],
    "rows": [1, 1, 1, 2, 1], "across": [1, 1, 2, 1, 1], "columns": [1, 1, 1, 1, 2],
    "tall": [1, 12, 5, 4], "large": [1, 12, 10, 4], "high": [1, 4, 12, 5], "whole": [1, 4, 12, 10],
    "apart": [1, 4, 6, 1, 5, 1], "twice": [1, 4, 6, 2, 5, 2], "wide": [1, 4, 6, 2, 5], "deep": [1, 4, 12, 5, 2],
}  # fmt: skip
SPELLINGS = [KERAS, CHANNELS_LAST, INTERLEAVED, EXPANDED, EXPANDED_TWICE]
NAMES = ["keras", "channels last", "interleaved", "expanded", "expanded twice"]


def enlarged(spelling: str, rest: str, out: str) -> str:
    constants = " ".join(f"{name} = Constant<value_ints = {value}>()" for name, value in VECTORS.items())
    return f"agraph (float[1,4,6,5] x, float[1,3,12,10] z) => (float[{out}] y) {{ {constants} {spelling} {rest} }}"


@pytest.mark.parametrize("spelling", SPELLINGS, ids=NAMES)
def test_copies_are_an_image_enlarged(spelling: str) -> None:
    found = running(after(model(enlarged(spelling, "y = Relu(r)", "1,4,12,10")), "pixels repeated by copies"))
    assert found == {"Resize": 1, "Relu": 1}


@pytest.mark.parametrize("spelling", SPELLINGS, ids=NAMES)
def test_a_convolution_of_copies_beside_another_image_is_four_of_the_pixels(spelling: str) -> None:
    rest = "j = Concat<axis = 1>(r, z) y = Conv<pads = [1,1,1,1]>(j, w, bias)"
    proto = model(enlarged(spelling, rest, "1,8,12,10"), w=(8, 7, 3, 3), bias=(8,))
    found = running(after(proto, "pixels repeated by copies behind convolutions"))
    assert (found["Tile"], found["Expand"], found["Resize"]) == (0, 0, 0)
    assert (found["Conv"], found["DepthToSpace"]) == (5, 1)
