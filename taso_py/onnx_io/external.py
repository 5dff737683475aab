"""Tensors whose data lie in files beside the model."""

from __future__ import annotations

import pathlib
import weakref
from typing import Self

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from taso_py.arrays import Array

_PIECE = 2**26
"""Bytes that are read at a time."""


class ReadTensor(ir.ExternalTensor):
    """External data, read whenever somebody looks at it and kept as long as somebody does.

    It is not mapped: were the file cut short meanwhile, a mapping would end the process (SIGBUS), where a read says so.
    Links are followed as ONNX Runtime follows them, because caches of model hubs consist of links; locations that leave
    the model's folder by their name are refused when the model is loaded.
    """

    __slots__ = ("_seen",)

    @classmethod
    def of(cls, tensor: ir.ExternalTensor) -> Self:
        """The same tensor."""
        made = cls(
            tensor.location,
            tensor.offset,
            tensor.length,
            tensor.dtype,
            shape=ir.Shape(tensor.shape.numpy()),
            name=tensor.name or "",
            doc_string=tensor.doc_string,
            metadata_props=tensor.metadata_props,
            base_dir=tensor.base_dir,
        )
        made._seen = None
        return made

    _seen: weakref.ref[Array] | None

    def _check_path_containment(self) -> None:
        pass

    def numpy(self) -> Array:
        """The values; ValueError where the file no longer holds all of them, OSError where it cannot be read."""
        found = None if self._seen is None else self._seen()
        if found is None:
            found = self._values()
            found.flags.writeable = False
            self._seen = weakref.ref(found)
        return found

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        found = self.numpy()
        return found if dtype is None else found.astype(dtype)

    def tobytes(self) -> bytes:
        """The stored bytes; errors as of `numpy`."""
        return self._bytes(self.length or self.nbytes).tobytes()

    def _values(self) -> Array:
        shape = self.shape.numpy()
        if self.size == 0:
            return np.empty(shape, self.dtype.numpy())
        stored = self._bytes(self.nbytes)
        if self.dtype.bitwidth < 8:
            packed = onnx.TensorProto(dims=shape, data_type=int(self.dtype), raw_data=stored.tobytes())
            return ir.TensorProtoTensor(packed).numpy().copy()
        return stored.view(np.dtype(self.dtype.numpy()).newbyteorder("<")).reshape(shape)

    def _bytes(self, count: int) -> Array:
        found, done = np.empty(count, np.uint8), 0
        with pathlib.Path(self.path).open("rb", buffering=0) as file:
            file.seek(self.offset or 0)
            while done < count:
                more = file.readinto(found[done : done + _PIECE].data)
                if not more:
                    raise ValueError(f"{self.path} ends before its byte {(self.offset or 0) + count}")
                done += more
        return found
