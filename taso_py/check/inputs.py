"""Seeded inputs that show differences: signed, large, tiny, zero, and integers that are legal indices."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from taso_py.arrays import Array
from taso_py.backend.protocol import Feeds
from taso_py.check.facts import InputSpec
from taso_py.check.roles import Resolve, Role, legal_array
from taso_py.check.shapes import ArrayShape, Assignment, Shape, dim_size, item_bytes
from taso_py.errors import UnfedInputError, UsageError
from taso_py.options.spelling import spelled
from taso_py.processes.isolated import memory_bytes

Fill = Literal["normal", "negative", "large", "tiny", "uniform", "zeros"]

# normal n ~ N(0,1); negative -|n|; large 10 n; tiny 0.001 n; uniform in [0,1). Time is spent in this order.
FILLS: tuple[Fill, ...] = get_args(Fill)
# Without a float or complex input these are three different draws.
_DISCRETE_FILLS: tuple[Fill, ...] = ("normal", "uniform", "zeros")
_COPIES = 4
"""Inputs, outputs and what is compared are in memory at the same time, in more than one process."""
_REGISTERED = 2
"""numpy's word for an element type that another package has added."""
_WORDS = ("", "a", "superopt", "Ünïcode", "two words", "0")


def fills_for(inputs: Sequence[InputSpec], overrides: Mapping[str, Any]) -> tuple[Fill, ...]:
    """The fills that give different feeds for these inputs."""
    free = [spec for spec in inputs if spec.name not in overrides and spec.role is None]
    if not free:
        return ("normal",)
    return FILLS if any(_is_continuous(spec) for spec in free) else _DISCRETE_FILLS


def make_feeds(
    inputs: Sequence[InputSpec],
    assignment: Assignment,
    fill: Fill = "normal",
    *,
    seed: int = 0,
    overrides: Mapping[str, Any] | None = None,
) -> Feeds:
    """One value per input; the same arguments give the same values. ``overrides`` replace generated ones."""
    given = checked_overrides(inputs, overrides or {})
    return {
        spec.name: given[spec.name] if spec.name in given else _value(spec, assignment, fill, seed) for spec in inputs
    }


def checked_overrides(inputs: Sequence[InputSpec], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The values given for inputs, as the model takes them; UsageError for one that it does not have or take."""
    specs = {spec.name: spec for spec in inputs}
    unknown = sorted(overrides.keys() - specs.keys())
    if unknown:
        raise UsageError(
            f"{spelled('inputs', key=unknown[0])}: the model has no such input: use one of {', '.join(specs)}"
        )
    return {name: _checked(specs[name], value) for name, value in overrides.items()}


def override_shapes(overrides: Mapping[str, Any]) -> dict[str, ArrayShape]:
    """The shapes that given arrays fix, as options for `resolve_shapes`."""
    arrays = {name: value for name, value in overrides.items() if isinstance(value, (np.ndarray, np.generic))}
    return {name: ArrayShape(np.shape(value)) for name, value in arrays.items()}


def with_arrays(shapes: Mapping[str, Shape], overrides: Mapping[str, Any]) -> dict[str, Shape]:
    """Shapes and those of given arrays, as options for `resolve_shapes`; UsageError where both speak of one input."""
    fixed = override_shapes(overrides)
    for name in shapes.keys() & fixed.keys():
        if tuple(shapes[name]) != tuple(fixed[name]):
            said, array = (",".join(map(str, one[name])) for one in (shapes, fixed))
            words = f"the array that is given for it has shape {array}: drop one of both"
            raise UsageError(f"{spelled('shapes', said, key=name)}: {words}")
    return {**shapes, **fixed}


def raw_as(array: Array, wanted: np.dtype[Any]) -> Array | None:
    """An array of an extension type that a file holds as raw bytes of the same width; None for anything else."""
    raw = array.dtype.kind == "V" and array.dtype.fields is None and array.dtype.itemsize == wanted.itemsize
    return array.view(wanted) if raw and wanted.isbuiltin == _REGISTERED else None


def _value(spec: InputSpec, assignment: Assignment, fill: Fill, seed: int) -> Any:
    shape = assignment.shapes[spec.name]
    _require_memory(spec, shape)
    legal = _legal(spec, shape, assignment)
    if legal is not None:
        return legal
    key = [seed, zlib.crc32(spec.name.encode()), FILLS.index(fill), *shape]
    generator = np.random.default_rng(key)
    bounds = [dim_size(bound, assignment.sizes) for bound in spec.bounds if _is_known(bound, assignment)]
    bound = max(1, min(bounds)) if bounds else 2
    count = 3 if "sequence" in spec.kind else 1
    if spec.words:
        known = np.array(spec.words, _dtype(spec))
        arrays = [known[generator.integers(0, len(known), shape)] for _ in range(count)]
    else:
        arrays = [_array(_dtype(spec), shape, fill, bound, generator) for _ in range(count)]
    return arrays if "sequence" in spec.kind else arrays[0]


def _legal(spec: InputSpec, shape: tuple[int, ...], assignment: Assignment) -> Array | None:
    """The value of an input that some node takes for sizes, axes, counts or the like."""
    if spec.role is None or spec.kind != "tensor" or _dtype(spec).kind not in "iufb":
        return None
    return legal_array(spec.role, shape, _dtype(spec), _sizes_at(assignment))


def operand_shape(role: Role, assignment: Assignment) -> tuple[int, ...] | None:
    """The shape of what is read beside an input, where it is known."""
    return role.operand(_sizes_at(assignment))


def _sizes_at(assignment: Assignment) -> Resolve:
    def resolve(dim: int | str) -> int | None:
        try:
            return dim_size(dim, assignment.sizes)
        except (KeyError, SyntaxError, UsageError, ArithmeticError):
            return None

    return resolve


def advice(inputs: Sequence[InputSpec], assignment: Assignment, overrides: Mapping[str, Any]) -> str:
    """What to try when a model refuses generated inputs, naming the one that most likely is the reason."""
    drawn = [spec for spec in inputs if spec.name not in overrides]
    doubtful = [spec for spec in drawn if spec.role is not None or not _is_continuous(spec)]
    name = next((spec.name for spec in (*doubtful, *drawn)), None)
    if name is None:
        return f"check the arrays given as {spelled('inputs')}"
    array = spelled("inputs", key=name, metavar="FILE.npy")
    return f"at {assignment.describe()}: give values that it takes with {array}, or sizes with {spelled('shapes')}"


def _gibibytes(size: int) -> str:
    return f"{size / 2**30:.1f}" if size < 2**1000 else str(size // 2**30)


def _require_memory(spec: InputSpec, shape: tuple[int, ...]) -> None:
    """UsageError for an input that memory does not hold several times over; UnfedInputError if its sizes are fixed."""
    needed = math.prod(shape) * max(8, item_bytes(spec))  # drawn as float64
    if needed <= memory_bytes() / _COPIES:
        return
    size = ",".join(map(str, shape))
    told = f"input '{spec.name}' of shape {size} takes {_gibibytes(needed)} GiB to fill"
    if all(isinstance(dim, int) for dim in spec.dims or ("?",)):
        raise UnfedInputError(f"{told}: give an array with {spelled('inputs', key=spec.name, metavar='FILE.npy')}")
    raise UsageError(f"{told}: choose smaller sizes with {spelled('shapes', key=spec.name, metavar='...')}")


def _array(
    dtype: np.dtype[Any], shape: tuple[int, ...], fill: Fill, bound: int, generator: np.random.Generator
) -> Array:
    if dtype.kind == "O":
        return np.resize(np.array(_WORDS, dtype=object), shape)
    if dtype.kind == "b":
        return np.zeros(shape, dtype) if fill == "zeros" else generator.integers(0, 2, shape).astype(dtype)
    if _is_integer(dtype):
        return np.zeros(shape, dtype) if fill == "zeros" else generator.integers(0, bound, shape).astype(dtype)
    values = _floats(shape, fill, generator)
    if dtype.kind == "c":
        return (values + 1j * _floats(shape, fill, generator)).astype(dtype)
    return values.astype(dtype)


def _floats(shape: tuple[int, ...], fill: Fill, generator: np.random.Generator) -> Array:
    match fill:
        case "normal":
            return generator.standard_normal(shape)
        case "negative":
            return -np.abs(generator.standard_normal(shape))
        case "large":
            return 10 * generator.standard_normal(shape)
        case "tiny":
            return 1e-3 * generator.standard_normal(shape)
        case "uniform":
            return generator.random(shape)
        case "zeros":
            return np.zeros(shape)


def _dtype(spec: InputSpec) -> np.dtype[Any]:
    import onnx

    if spec.element == onnx.TensorProto.STRING:
        return np.dtype(object)
    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(spec.element))
    except KeyError:
        raise UsageError(f"input '{spec.name}' has the unknown element type {spec.element}") from None


def _is_integer(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iu" or dtype.name in ("int4", "uint4", "int2", "uint2")


def _is_continuous(spec: InputSpec) -> bool:
    return not is_discrete(spec) and _dtype(spec).kind != "O"


def is_discrete(spec: InputSpec) -> bool:
    """Whether the values of an input are integers or truth values."""
    dtype = _dtype(spec)
    return dtype.kind == "b" or _is_integer(dtype)


def _is_known(bound: int | str, assignment: Assignment) -> bool:
    return isinstance(bound, int) or bound in assignment.sizes


def _checked(spec: InputSpec, value: Any) -> Any:
    """The user's array in the input's element type; UsageError when that would change its values."""
    if isinstance(value, list) or value is None:
        return value
    value = np.asarray(value)
    wanted = _dtype(spec)
    if value.dtype == wanted or (wanted.kind == "O" and value.dtype.kind in "US"):
        return value
    if (extension := raw_as(value, wanted)) is not None:
        return extension
    raise UsageError(
        f"{spelled('inputs', key=spec.name)}: the array is {value.dtype}, the model expects {wanted}: convert it"
    )
