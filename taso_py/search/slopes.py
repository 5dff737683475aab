"""The law of PRelu with one slope for all, one for each slope that occurs: it is LeakyRelu, which convolutions absorb.

A rule cannot make an attribute of a constant's value, so it is written for the value that stands there.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from zlib import crc32

import numpy as np

from taso_py.ops.activations import PRelu
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule
from taso_py.search.here import matcher_here
from taso_py.search.matcher import Matcher
from taso_py.search.view import View

ONE_SLOPE = "prelu-of-one-slope"
"""The name of all of these laws; that of 0.25 stands for them in the library."""


def slope_sample() -> Rule:
    """The law that stands for all in the library."""
    return slope_law(0.25)


def slope_matcher(view: View, value: int) -> Matcher | None:
    """The law of the slope at a value; None where there is no PRelu, or not one slope."""
    node = view.table.nodes.get(value)
    if node is None or not isinstance(node.operator, PRelu):
        return None
    slope = node.inputs[1]
    array = view.constant(slope) if slope in view.values.constant else None
    if array is None or not array.size or not np.all(array == array.flat[0]) or not np.isfinite(array.flat[0]):
        return None
    return _matcher(float(array.flat[0]))


@lru_cache(maxsize=1024)
def _matcher(slope: float) -> Matcher:
    return matcher_here(slope_law(slope))


def slope_law(slope: float) -> Rule:
    """PRelu with this slope."""
    text = f"rule {ONE_SLOPE}: PRelu(x, {slope!r}) => LeakyRelu(x, alpha={slope!r})"
    return replace(parse_rule(text), line=crc32(text.encode()))
