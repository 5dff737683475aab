"""Running one session inside the worker, for every element type that ONNX Runtime knows.

ONNX Runtime's numpy interface lacks bfloat16, float8 and the packed small integers; those travel as
``OrtValue`` and are read from memory as the types of ``ml_dtypes``.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import onnxruntime as ort

from taso_py.backend.accelerators import HOST, Memory
from taso_py.backend.protocol import Feeds, Outputs
from taso_py.errors import ModelError

# ONNX Runtime's name -> (name in ml_dtypes, which other environments need not have, TensorProto number, bits per
# element)
_UNUSUAL: dict[str, tuple[str, int, int]] = {
    "bfloat16": ("bfloat16", 16, 16),
    "float8e4m3fn": ("float8_e4m3fn", 17, 8),
    "float8e4m3fnuz": ("float8_e4m3fnuz", 18, 8),
    "float8e5m2": ("float8_e5m2", 19, 8),
    "float8e5m2fnuz": ("float8_e5m2fnuz", 20, 8),
    "uint4": ("uint4", 21, 4),
    "int4": ("int4", 22, 4),
    "float4e2m1": ("float4_e2m1fn", 23, 4),
    "uint2": ("uint2", 25, 2),
    "int2": ("int2", 26, 2),
}
_TENSOR = re.compile(r"(?:optional\()?tensor\((\w+)\)\)?")


def run(session: ort.InferenceSession, feeds: Feeds, names: tuple[str, ...] | None) -> Outputs:
    """Outputs by name; ``names`` None means all of them."""
    types = {arg.name: arg.type for arg in session.get_outputs()}
    wanted = list(types) if names is None else list(names)
    if not any(_element(types.get(name, "")) in _UNUSUAL for name in wanted):
        return dict(zip(wanted, map(_dense, session.run(wanted, _fed(session, feeds))), strict=True))
    # Sequences and strings can be had as numpy's arrays only, the unusual types as values only: two runs give both.
    by_value = [name for name in wanted if _element(types.get(name, "")) not in ("", "string")]
    others = [name for name in wanted if name not in by_value]
    values = session.run_with_ort_values(by_value, _as_ort_values(session, feeds))
    found = dict(zip(by_value, map(_as_array, values), strict=True))
    found |= zip(others, map(_dense, session.run(others, _fed(session, feeds)) if others else ()), strict=True)
    return {name: found[name] for name in wanted}


def _dense(value: Any) -> Any:
    """What a session returns; a sparse tensor, which no process can hand to another, as the array that it stands for.

    ModelError for blocks, whose sizes ONNX Runtime does not tell.
    """
    if not isinstance(value, ort.capi.onnxruntime_pybind11_state.SparseTensor):
        return value
    shape, values = tuple(value.dense_shape()), np.asarray(value.values())
    whole = np.zeros(math.prod(shape), values.dtype)
    if "COO" in str(value.format):
        places = np.asarray(value.get_coo_data().indices())
        whole[places if places.ndim == 1 else np.ravel_multi_index(tuple(places.T), shape)] = values
    elif "CSR" in str(value.format):
        columns, rows = (np.asarray(value.get_csrc_data().inner()), np.asarray(value.get_csrc_data().outer()))
        whole[np.repeat(np.arange(len(rows) - 1), np.diff(rows)) * shape[1] + columns] = values
    else:
        raise ModelError(f"an output is a sparse tensor of format {value.format}: only COO and CSR can be compared")
    return whole.reshape(shape)


def runner(session: ort.InferenceSession, feeds: Feeds, memory: Memory) -> Callable[[], object]:
    """A call that runs the session once; on a device, with inputs and outputs already bound there."""
    bindable = all(isinstance(value, np.ndarray) and value.dtype != object for value in feeds.values())
    unusual = any(_element(arg.type) in _UNUSUAL for arg in session.get_outputs())
    if bindable and (unusual or not memory.is_host):  # strings and sequences cannot be bound
        binding = bind(session, feeds, memory)

        def call() -> None:
            session.run_with_iobinding(binding)
            binding.synchronize_outputs()

        return call
    fed = _fed(session, feeds)
    return lambda: session.run(None, fed)


def _fed(session: ort.InferenceSession, feeds: Feeds) -> dict[str, Any]:
    """Feeds as a session takes them: values for the elements that numpy's interface lacks, else what they are."""
    types = {arg.name: _element(arg.type) for arg in session.get_inputs()}
    unusual = {name for name, element in types.items() if element in _UNUSUAL}
    return {
        name: _as_ort_value(np.asarray(value), types[name], HOST) if name in unusual else value
        for name, value in feeds.items()
    }


def bind(session: ort.InferenceSession, feeds: Feeds, memory: Memory) -> ort.IOBinding:
    """Inputs copied to a device once, outputs left there."""
    binding = session.io_binding()
    for name, value in _as_ort_values(session, feeds, memory).items():
        binding.bind_ortvalue_input(name, value)
    for arg in session.get_outputs():
        binding.bind_output(arg.name, memory.kind, memory.device)
    return binding


def _element(type_name: str) -> str:
    found = _TENSOR.fullmatch(type_name)
    return found.group(1) if found else ""


def _as_ort_values(session: ort.InferenceSession, feeds: Feeds, memory: Memory = HOST) -> dict[str, ort.OrtValue]:
    """`ModelError` for sequences, absent optionals and strings: of these ONNX Runtime's Python interface makes none."""
    for name, value in feeds.items():
        if isinstance(value, list) or np.asarray(value).dtype == object:
            outputs = sorted({e for arg in session.get_outputs() if (e := _element(arg.type)) in _UNUSUAL})
            words = f"outputs of {' and '.join(outputs)} cannot be read where an input is no tensor of numbers"
            raise ModelError(f"{words}, as {name!r} is, by ONNX Runtime's Python interface")
    types = {arg.name: _element(arg.type) for arg in session.get_inputs()}
    return {name: _as_ort_value(np.asarray(value), types.get(name, ""), memory) for name, value in feeds.items()}


def _as_ort_value(array: np.ndarray[Any, np.dtype[Any]], element: str, memory: Memory) -> ort.OrtValue:
    if element not in _UNUSUAL:
        return ort.OrtValue.ortvalue_from_numpy(np.asarray(array, order="C"), *memory)
    _, number, bits = _UNUSUAL[element]
    raw = np.asarray(array, order="C").tobytes()
    if bits < 8:
        raw = _pack(np.frombuffer(raw, np.uint8), bits).tobytes()
    value = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), number)
    ctypes.memmove(value.data_ptr(), raw, len(raw))
    return value


def _as_array(value: ort.OrtValue) -> Any:
    if not value.has_value():
        return None
    element = _element(value.data_type())
    if element not in _UNUSUAL:
        return value.numpy()
    name, _, bits = _UNUSUAL[element]
    dtype = np.dtype(getattr(import_module("ml_dtypes"), name))
    raw = np.frombuffer(ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()), dtype=np.uint8)
    if bits < 8:
        raw = _unpack(raw, bits, int(np.prod(value.shape(), dtype=np.int64)))
        if name.startswith("int"):  # sign-extend
            raw = ((raw.astype(np.int8) << (8 - bits)) >> (8 - bits)).view(np.uint8)
    return raw.view(dtype).reshape(value.shape())


def _unpack(raw: np.ndarray[Any, np.dtype[np.uint8]], bits: int, count: int) -> Any:
    """One byte per element; the first element sits in the lowest bits (ONNX's packing)."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((raw[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[:count].astype(np.uint8)


def _pack(elements: np.ndarray[Any, np.dtype[np.uint8]], bits: int) -> Any:
    """The inverse of `_unpack`; the last byte is filled with zeros."""
    per_byte = 8 // bits
    padded = np.zeros((-(-elements.size // per_byte), per_byte), np.uint8)
    padded.reshape(-1)[: elements.size] = elements & ((1 << bits) - 1)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return np.bitwise_or.reduce(padded << shifts, axis=1).astype(np.uint8)
