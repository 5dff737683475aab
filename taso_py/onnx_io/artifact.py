"""A finished model before it is a file: readable as a proto, writable with its weights, made on demand."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from taso_py.errors import ModelError, OutputError
from taso_py.files import same_file
from taso_py.paths import exists, is_text, real

if TYPE_CHECKING:
    import onnx
    import onnx_ir

# protobuf cannot serialise 2 GiB; the rest of the graph needs some room too.
INLINE_LIMIT_BYTES = 2**31 - 2**26


Stamp: TypeAlias = tuple[int, int, int]
"""Of a file: which one it is, its size, and when it was changed."""


def stamps_of(files: Iterable[Path]) -> dict[Path, Stamp]:
    """How files look now; one that cannot be looked at is left out."""
    found: dict[Path, Stamp] = {}
    for path in files:
        with suppress(OSError, ValueError):  # ValueError: a name with a NUL
            about = path.stat()
            found[path] = (about.st_ino, about.st_size, about.st_mtime_ns)
    return found


def require_unchanged(stamps: Mapping[Path, Stamp]) -> None:
    """`ModelError` where a file of a model was replaced: what is made of the old and the new ones is nobody's model."""
    changed = next((path for path, stamp in stamps.items() if stamps_of([path]).get(path) != stamp), None)
    if changed is not None:
        what = "changed" if exists(changed) else "removed"
        raise ModelError(f"{changed} was {what} while the model was read: run it again once it stays")


class Artifact(Protocol):
    """A finished model; `write` fills `folder` with `target.name` and its external data."""

    def proto(self) -> onnx.ModelProto:
        """The model as one proto."""
        ...

    def write(self, folder: Path, target: Path) -> None:
        """Write the files that belong at `target` and beside it into `folder`."""
        ...


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """MODEL itself, byte for byte."""

    path: Path
    stamps: Mapping[Path, Stamp] = field(default_factory=dict)
    """How it and its external data looked when they were read."""

    def proto(self) -> onnx.ModelProto:
        """The model, with its external data loaded."""
        import onnx

        return onnx.load(self.path, format="protobuf")

    def write(self, folder: Path, target: Path) -> None:
        """Copy the file; its external data too, unless `target` lies where those references already hold."""
        require_unchanged(self.stamps)
        shutil.copyfile(self.path, folder / target.name)
        _copy_external(_lacking(self.path, target, external_locations(self.path)), self.path.parent, folder)
        require_unchanged(self.stamps)


@dataclass(frozen=True, slots=True)
class GivenProto:
    """A model that the caller passed as a proto, returned as it came."""

    model: onnx.ModelProto

    def proto(self) -> onnx.ModelProto:
        """The caller's own object."""
        return self.model

    def write(self, folder: Path, target: Path) -> None:
        """Serialise it as it is."""
        (folder / target.name).write_bytes(self.model.SerializeToString())


@dataclass(frozen=True, slots=True)
class RewrittenModel:
    """A rewritten model whose weights may still be mapped from the original's files.

    Weights go to one ``<name>.data`` if the original kept them outside, or if one file could not hold them.
    """

    model: onnx_ir.Model
    source: Path | None = None
    external: bool = False
    locations: frozenset[str] = frozenset()
    """The external data files of the original."""
    stamps: Mapping[Path, Stamp] = field(default_factory=dict)
    """How these looked when the original was read."""

    def proto(self) -> onnx.ModelProto:
        """The model as one proto, all weights inside."""
        from onnx.external_data_helper import load_external_data_for_model

        from taso_py.onnx_io.returned import whole_proto

        proto = whole_proto(self.model)
        if self.source is not None:
            load_external_data_for_model(proto, str(self.source.parent))
        return proto

    def write(self, folder: Path, target: Path) -> None:
        """Write the proto and, if weights stay outside, ``<target.name>.data``."""
        from taso_py.onnx_io.save import save, save_beside

        large = sum(tensor.nbytes for tensor in self._weights()) > INLINE_LIMIT_BYTES
        data = data_file(target).name if self.external or large else None
        if data in self._of_attributes():
            raise OutputError(f"{data} is also what weights of the model are called: choose another name for OUT")
        if data is None:
            save(self.model, folder / target.name)
        else:
            require_text(target)
            save_beside(self.model, folder / target.name, data)
        if self.locations and self.source is not None:
            # Tensors inside node attributes are not moved into OUT.data: their files must come along.
            others = external_locations(folder / target.name) - {data, ""}
            _copy_external(_lacking(self.source, target, others), self.source.parent, folder)
        require_unchanged(self.stamps)

    def inline_bytes(self) -> int:
        """Bytes of the weights that lie in no file yet, or in the model's own."""
        import onnx_ir

        return sum(tensor.nbytes for tensor in self._weights() if not isinstance(tensor, onnx_ir.ExternalTensor))

    def _of_attributes(self) -> frozenset[str]:
        """The files of tensors inside node attributes."""
        import onnx_ir

        nodes = (node for graph in (*self.model.graphs(), *self.model.functions.values()) for node in graph)
        held = (a.value for node in nodes for a in node.attributes.values() if not a.is_ref())
        tensors = (one for value in held for one in (value if isinstance(value, list | tuple) else (value,)))
        return frozenset(str(one.location) for one in tensors if isinstance(one, onnx_ir.ExternalTensor))

    def _weights(self) -> Iterator[onnx_ir.TensorProtocol]:
        values = (value.const_value for graph in self.model.graphs() for value in graph.initializers.values())
        return (value for value in values if value is not None)


def data_file(target: Path) -> Path:
    """``OUT.data`` beside OUT, where its weights lie unless they lie in it."""
    return target.parent / f"{target.name}.data"


def require_text(target: Path) -> None:
    """OutputError for a name that is not UTF-8: a model cannot name the file beside it that holds its weights."""
    if not is_text(target.name):
        raise OutputError(f"{target} goes with a file of weights, and its name is not UTF-8: choose another name")


def external_locations(model: Path | onnx.ModelProto) -> frozenset[str]:
    """The external data files of a model, as they are written in it: relative to the model's folder.

    `ModelError` for one whose name is not UTF-8: protobuf gives bytes for it.
    """
    if isinstance(model, Path):
        return _locations_in_file(model, stamps_of([model]).get(model))
    import onnx

    found: frozenset[str | bytes] = frozenset(
        entry.value
        for tensor in _tensors(model)
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    )
    if strange := [name for name in found if isinstance(name, bytes)]:
        raise ModelError(f"external data has the name {strange[0][:60]!r}, which is not UTF-8: export the model again")
    return frozenset(name for name in found if isinstance(name, str))


@lru_cache(maxsize=16)
def _locations_in_file(path: Path, _stamp: Stamp | None) -> frozenset[str]:
    """Of a file as it looked: a run asks four times, and to parse half a gigabyte takes a second."""
    from taso_py.onnx_io.read import parsed

    return external_locations(parsed(path))


def model_files(model: Path) -> tuple[Path, ...]:
    """A model's file and those of its external data; itself alone where it cannot be read."""
    try:
        return (model, *(model.parent / location for location in sorted(external_locations(model))))
    except (OSError, ValueError, ModelError):
        return (model,)


def files_beside(model: Path, target: Path, *, copied: bool) -> tuple[Path, ...]:
    """The files that may be written beside a result at ``target``, as far as they follow from the files of ``model``.

    ``copied``: the result may be a copy of the model.  OutputError where they cannot have their names.
    """
    locations = sorted(external_locations(model))
    if not locations:
        return ()
    require_text(target)
    lacking = _lacking(model, target, locations)
    moved = [target.parent / one for one in lacking]
    if not copied:  # a rewritten model has a file of its own, also beside a link; only a copy would replace the links
        moved = [file for file, one in zip(moved, lacking, strict=True) if not same_file(file, model.parent / one)]
    if any(real(file) == real(target) for file in moved):
        raise OutputError(f"{target} is also what weights of {model} are called: choose another name")
    return (data_file(target), *moved)


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor of a model: initializers, attributes and sparse parts, in every graph and function."""
    nodes = [node for function in model.functions for node in function.node]
    graphs = [model.graph]
    for info in model.training_info:
        graphs.extend((info.initialization, info.algorithm))
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield from (sparse.values, sparse.indices)
            nodes.extend(graph.node)
            continue
        for attribute in nodes.pop().attribute:
            yield from (attribute.t, *attribute.tensors)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
            graphs.extend((attribute.g, *attribute.graphs))


def _copy_external(locations: Iterable[str], source: Path, folder: Path) -> None:
    for location in sorted(locations):
        if Path(location).is_absolute() or ".." in Path(location).parts:
            raise OutputError(f"external data '{location}' lies outside {source}: write OUT beside MODEL")
        if exists(folder / location):
            raise OutputError(f"{location} is also what weights of the model are called: choose another name for OUT")
        (folder / location).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / location, folder / location)


def _lacking(model: Path, target: Path, locations: Iterable[str]) -> list[str]:
    """The files of weights that must be copied for ``target`` to find them, as ONNX Runtime looks for them.

    A model that is a link, as in caches of model hubs, has them beside the link; a link that leads out of the folder of
    a model that is none is not followed.
    """
    there, here = model.parent, target.parent
    same = real(model).parent == real(here)

    def is_found(one: str) -> bool:
        return same_file(here / one, there / one) and (same or real(here / one).is_relative_to(real(here)))

    return [one for one in locations if not is_found(one)]
