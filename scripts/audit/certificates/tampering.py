"""Alterations of honest cases: each kind of field of the certificate and of both models, in each way there is."""

from __future__ import annotations

import itertools
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import Message
from onnx import numpy_helper

from scripts.audit.certificates.subjects import Case, Document, edited

Edit = Callable[[Case], Any]
_AREAS = ("certificate", "optimised", "original")
_NOT_SAID = frozenset({"producer_name", "producer_version"})


def tamperings(case: Case, count: int, seed: int = 0) -> list[tuple[str, Case, bool]]:
    """At most ``count`` altered cases, each kind of alteration at least once if that suffices.

    Each with its kind and whether the certificate's digests are left as they were.
    """
    chance = random.Random(seed)
    kinds: dict[str, list[tuple[str, Edit, bool]]] = defaultdict(list)
    for kind, edit, as_it_is in (*_of_document(case.document), *_of_models(case)):
        kinds[re.sub(r"\d+", "*", kind)].append((kind, edit, as_it_is))
    for entries in kinds.values():
        chance.shuffle(entries)
    turns = [_shuffled([k for k in sorted(kinds) if k.startswith(area)], chance) for area in _AREAS]
    order = [kind for turn in itertools.zip_longest(*turns) for kind in turn if kind is not None]
    chosen = [kinds[kind].pop() for _ in range(max(map(len, kinds.values()))) for kind in order if kinds[kind]]
    return [(kind.split(":")[0], edited(case, kind, edit), as_it_is) for kind, edit, as_it_is in chosen[:count]]


def _shuffled(entries: list[str], chance: random.Random) -> list[str]:
    chance.shuffle(entries)
    return entries


# ---- the certificate --------------------------------------------------------------------------------------------


def _of_document(document: Document) -> Iterator[tuple[str, Edit, bool]]:
    for path, value in _walk(document):
        if path[:1] in (("schema",), ("sha256",)):
            continue
        for word, change in _changes(value):
            yield f"certificate: {'.'.join(map(str, path))} {word}", _setting(path, change), False
    yield "certificate: sha256 altered", _setting(("sha256",), lambda text: text[::-1]), True
    yield "certificate: schema altered", _setting(("schema",), lambda text: text + "0"), True
    for part in ("original", "optimised"):
        yield f"certificate: {part} digest altered", _setting((part, "sha256"), lambda text: text[::-1]), True


def _walk(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if at:
        yield at, value
    if isinstance(value, dict):
        for name, entry in value.items():
            if at or name not in ("original", "optimised"):
                yield from _walk(entry, (*at, name))
    elif isinstance(value, list):
        for k, entry in enumerate(value):
            yield from _walk(entry, (*at, k))


def _changes(value: Any) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    match value:
        case bool():
            yield "turned", lambda b: not b
            yield "as a number", int
        case int():
            yield "increased", lambda n: n + 1
            yield "as a float", float
        case float():
            yield "increased", lambda x: x + 1e-9
        case str():
            yield "with a letter more", lambda s: s + "x"
            yield "empty", lambda s: ""
        case list() | dict():
            yield from _collection_changes(value)
    yield "as null", lambda _: None


def _collection_changes(value: list[Any] | dict[str, Any]) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    if isinstance(value, dict):
        yield "with a field more", lambda d: d | {"more": "more"}
        if value:
            yield "with a field less", lambda d: dict(list(d.items())[1:])
            yield "with a field renamed", lambda d: {k + "x" if n == 0 else k: v for n, (k, v) in enumerate(d.items())}
        return
    yield "with an entry more", lambda entries: [*entries, *entries[-1:]] if entries else ["more"]
    if value:
        yield "with an entry less", lambda entries: entries[1:]
    if len(value) > 1 and value != value[::-1]:
        yield "reversed", lambda entries: entries[::-1]


def _setting(path: tuple[Any, ...], change: Callable[[Any], Any]) -> Edit:
    def edit(case: Case) -> None:
        place: Any = case.document
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = change(place[path[-1]])

    return edit


# ---- the models -------------------------------------------------------------------------------------------------


def _of_models(case: Case) -> Iterator[tuple[str, Edit, bool]]:
    for part in ("original", "optimised"):
        for number, kind in enumerate(_kinds_of(getattr(case, part))):
            yield f"{part}: {number} {kind}", _message_edit(part, number), part == "original"
        for number, tensor in enumerate(getattr(case, part).graph.initializer):
            if numpy_helper.to_array(tensor).size:
                yield f"{part}: {number} an element of a weight", _element(part, number), part == "original"


def _kinds_of(proto: onnx.ModelProto) -> list[str]:
    return [f"{type(message).DESCRIPTOR.name}.{field}" for message, field in _fields(proto)]


def _fields(message: Message) -> Iterator[tuple[Message, str]]:
    """Every set field that is no message, but for the data of tensors."""
    for field, value in message.ListFields():
        inner = [value] if isinstance(value, Message) else list(value) if _repeated_messages(value) else None
        if inner is not None:
            for entry in inner:
                yield from _fields(entry)
        elif field.name != "raw_data" and field.name not in _NOT_SAID:
            yield message, field.name


def _repeated_messages(value: Any) -> bool:
    return hasattr(value, "add") and hasattr(value, "extend")


def _message_edit(part: str, number: int) -> Edit:
    def edit(case: Case) -> None:
        message, field = list(_fields(getattr(case, part)))[number]
        value = getattr(message, field)
        if hasattr(value, "extend"):
            value.extend([_other(value[-1])])
        else:
            setattr(message, field, _other(value))

    return edit


def _other(value: Any) -> Any:
    match value:
        case str():
            return value + "x"
        case bytes():
            return value + b"x"
        case float():
            return value + 1
        case _:
            return value + 1


def _element(part: str, number: int) -> Edit:
    def edit(case: Case) -> None:
        tensor = getattr(case, part).graph.initializer[number]
        array = numpy_helper.to_array(tensor).copy()
        array.reshape(-1)[0] = array.reshape(-1)[0] * 2 + np.ones((), array.dtype)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))

    return edit
