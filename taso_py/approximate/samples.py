"""Samples of a model's inputs, from a file or drawn, and their three disjoint parts.

A file is what `numpy.savez` writes: an array for each input, named by it, whose first axis counts the samples.  What
follows that axis is the whole input, or the input without its first axis, the batch, of 1: an input of shape
(batch, 3, 224, 224) takes arrays of shape (n, 1, 3, 224, 224) and (n, 3, 224, 224) alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from taso_py.arrays import Array
from taso_py.backend.protocol import Feeds
from taso_py.check.compare import is_floating
from taso_py.check.facts import InputSpec
from taso_py.check.inputs import checked_overrides, make_feeds, raw_as
from taso_py.check.shapes import Assignment
from taso_py.errors import UsageError
from taso_py.options.spelling import spelled
from taso_py.paths import why_no_file

LEAST = 10
"""Samples below which nothing can be said: 2 to calibrate with, 2 to select by, 6 to test."""
LEAST_TESTED = 6
_PART, _MOST_PART = 8, 100
"""One sample in so many calibrates, one selects, and at most so many each; the others test."""
_MOST_TESTED = 2000
_DRAWN, _DRAWN_BYTES = 200, 2**27
"""Random samples: so many, or what goes into so many bytes."""
_ARCHIVE = b"PK"
Numbers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Samples:
    """Inputs of a model, one feed for each sample; ``random``: nobody gave them."""

    arrays: Mapping[str, Array]
    """Name -> array whose first axis counts the samples; each sample is fed as ``arrays[name][number]``."""
    fixed: Mapping[str, Any]
    """Inputs that are the same in every sample."""
    count: int
    random: bool

    def feeds(self, number: int) -> Feeds:
        """The inputs of one sample."""
        return {name: np.ascontiguousarray(array[number]) for name, array in self.arrays.items()} | dict(self.fixed)

    def distinct(self) -> Numbers:
        """Numbers of samples without those that are equal to one before: what was seen once is no unseen sample later.

        Of random samples all, which are independent draws even where they are equal.
        """
        if self.random:
            return tuple(range(self.count))
        first: dict[bytes, int] = {}
        for number in range(self.count):
            first.setdefault(self._digest(number), number)
        return tuple(first.values())

    def _digest(self, number: int) -> bytes:
        found = hashlib.sha256()
        for array in self.arrays.values():
            sample = array[number]
            found.update(repr(sample.tolist()).encode() if array.dtype.hasobject else sample.tobytes())
        return found.digest()

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The sizes of each input in a sample."""
        return {name: tuple(array.shape[1:]) for name, array in self.arrays.items()}


@dataclass(frozen=True, slots=True)
class Parts:
    """Numbers of samples, no two parts have one in common."""

    calibration: Numbers
    """From which the ranges of values are taken."""
    selection: Numbers
    """By which layers are chosen."""
    test: Numbers
    """Used for nothing else than the error that is reported."""


def parts_of(numbers: Sequence[int], seed: int, file: Path | None = None) -> Parts:
    """The same parts of these samples for the same seed; UsageError, which names the file, for too few."""
    count = len(numbers)
    if count < LEAST:
        named = spelled("calibration", file)
        found = f"{count} different {'sample' if count == 1 else 'samples'}"
        raise UsageError(f"{named} has {found}: {LEAST} is the least, to calibrate, select and test on others")
    order = tuple(numbers[k] for k in np.random.default_rng([seed, count]).permutation(count))
    size = max(2, min(_MOST_PART, count // _PART))
    return Parts(order[:size], order[size : 2 * size], order[2 * size : 2 * size + _MOST_TESTED])


def drawn(inputs: Sequence[InputSpec], sizes: Assignment, seed: int, overrides: Mapping[str, Any]) -> Samples:
    """Random samples, normal where that is a number; for want of real ones."""
    first = make_feeds(inputs, sizes, seed=seed, overrides=overrides)
    free = [spec.name for spec in inputs if spec.name not in overrides and isinstance(first[spec.name], np.ndarray)]
    size = sum(first[name].nbytes for name in free)
    count = int(max(LEAST, min(_DRAWN, _DRAWN_BYTES // max(1, size))))
    feeds = [make_feeds(inputs, sizes, seed=seed + 1 + k, overrides=overrides) for k in range(count)]
    arrays = {name: np.stack([one[name] for one in feeds]) for name in free}
    return Samples(arrays, {k: v for k, v in first.items() if k not in arrays}, count, random=True)


def read_samples(path: Path, inputs: Sequence[InputSpec], overrides: Mapping[str, Any]) -> Samples:
    """The samples of a file; UsageError with what is wrong where they are not the model's inputs."""
    overrides = checked_overrides(inputs, overrides)
    named = spelled("calibration", path)
    found = _arrays(path, named)
    wanted = {spec.name: spec for spec in inputs if spec.name not in overrides}
    lacking, unknown = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
    if lacking:
        raise UsageError(f"{named} has no array '{lacking[0]}': each input of the model needs one")
    if unknown:
        known = ", ".join(wanted) or "none"
        raise UsageError(f"{named} has an array '{unknown[0]}' that is no input to be given: they are {known}")
    if not wanted:
        raise UsageError(f"{named}: no input is left for it, as {spelled('inputs')} gives them all: drop one of both")
    arrays = {name: _fitted(found[name], spec, f"{named}: '{name}'") for name, spec in wanted.items()}
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise UsageError(f"{named}: the inputs have different numbers of samples: {told}")
    _require_one_size(arrays, wanted, named)
    return Samples(arrays, dict(overrides), next(iter(counts.values())), random=False)


def _arrays(path: Path, named: str) -> dict[str, Array]:
    if (why := why_no_file(path)) is not None:
        raise UsageError(f"{named}: {why}")
    try:
        with path.open("rb") as opened:  # numpy leaves open what is no archive
            if opened.read(len(_ARCHIVE)) != _ARCHIVE:  # numpy would take it for an array, or for a pickle
                raise TypeError("it is no archive of arrays")
            opened.seek(0)
            file = np.load(opened, allow_pickle=False)
            return {name: file[name] for name in file.files}
    except Exception as error:  # a header is read by Python's own parser, which raises what it likes
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise UsageError(f"{named}: {why}; give a .npz file that numpy.savez wrote") from error


def _fitted(array: Array, spec: InputSpec, named: str) -> Array:
    """The array with each sample in the input's own shape and element type."""
    if spec.kind != "tensor":
        raise UsageError(f"{named}: the input is a {spec.kind}, of which a file has no samples")
    array = _typed(array, spec, named)
    if array.ndim == 0 or array.shape[0] == 0:
        raise UsageError(f"{named} has no samples: its first axis counts them")
    dims = spec.dims
    if dims is None:
        pass  # what the input takes is not known: each sample is taken for all of it
    elif array.ndim == len(dims) and dims[:1] and (dims[0] == 1 or isinstance(dims[0], str)):
        array = array[:, np.newaxis]
    elif array.ndim == len(dims) and dims:
        raise UsageError(f"{named}: the input takes {dims[0]} at once: give arrays of shape {_said(('n', *dims))}")
    shape = array.shape[1:]
    fits = dims is None or (
        len(shape) == len(dims) and all(isinstance(d, str) or d == n for d, n in zip(dims, shape, strict=True))
    )
    if not fits:
        words = f"the samples have shape {_said(array.shape[1:])}, the input takes {_said(dims or ())}"
        raise UsageError(f"{named}: {words}: the first axis counts samples, the input or the rest of it follows")
    _require_finite(array, named)
    return array


def _require_finite(array: Array, named: str) -> None:
    if not is_floating(array.dtype):
        return
    for number, sample in enumerate(array):  # one after the other: a wide copy of all might not fit into memory
        if not np.isfinite(sample.astype(np.complex128)).all():
            raise UsageError(f"{named}: sample {number} has NaN or Inf: leave it out")


def _typed(array: Array, spec: InputSpec, named: str) -> Array:
    import onnx

    if spec.element == onnx.TensorProto.STRING:
        wanted = np.dtype(object)
    else:
        try:
            wanted = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(spec.element))
        except KeyError:
            raise UsageError(f"{named}: the input has the unknown element type {spec.element}") from None
    if array.dtype == wanted:
        return array
    if wanted.kind == "O" and array.dtype.kind in "US":
        return array.astype(object)
    if (extension := raw_as(array, wanted)) is not None:
        return extension
    raise UsageError(f"{named} is {array.dtype}, the model expects {wanted}: convert it")


def _require_one_size(arrays: Mapping[str, Array], wanted: Mapping[str, InputSpec], named: str) -> None:
    """UsageError where a symbol would have two sizes."""
    sizes: dict[str, tuple[int, str]] = {}
    for name, array in arrays.items():
        for dim, size in zip(wanted[name].dims or (), array.shape[1:], strict=False):
            if isinstance(dim, str):
                known, where = sizes.setdefault(dim, (int(size), name))
                if known != size:
                    raise UsageError(f"{named}: '{dim}' is {known} in '{where}' and {size} in '{name}'")


def _said(shape: Sequence[int | str]) -> str:
    return f"({', '.join(map(str, shape))})"
