"""Which metadata of a model are ours: those of our own keys whose texts have the form that we write.

Whatever else stands there, also under our prefix, is somebody's own and stays as it is, even in the place of what we
would say there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import onnx

PROVENANCE = "superopt."
"""Prefix of the metadata keys that are ours."""


class Key(StrEnum):
    """The keys of the metadata."""

    VERSION = f"{PROVENANCE}version"
    RULES = f"{PROVENANCE}rules"
    OPTIONS = f"{PROVENANCE}options"
    ORIGINAL = f"{PROVENANCE}original"
    DATA = f"{PROVENANCE}original-data"
    SHAPES = f"{PROVENANCE}shapes"
    INTERRUPTED = f"{PROVENANCE}interrupted"
    APPROXIMATE = f"{PROVENANCE}approximate"
    APPLIED = f"{PROVENANCE}applied"
    RUNTIME = f"{PROVENANCE}onnxruntime"
    CPU = f"{PROVENANCE}cpu"
    GPU = f"{PROVENANCE}gpu"
    PROVIDER = f"{PROVENANCE}provider"
    THREADS = f"{PROVENANCE}threads"


KEYS = frozenset(map(str, Key))
_VERSION, _DIGEST, _OBJECT = r"\d{1,9}\.\d\S{0,60}", "[0-9a-f]{16}", r"\{.*\}"
_FORMS: Mapping[str, str] = MappingProxyType(
    {
        Key.VERSION: _VERSION,
        Key.RULES: _DIGEST,
        Key.OPTIONS: _OBJECT,
        Key.ORIGINAL: "[0-9a-f]{64}",
        Key.DATA: _DIGEST,
        Key.SHAPES: r".+=[\d,]*",
        Key.INTERRUPTED: "yes",
        Key.APPROXIMATE: _OBJECT,
        Key.APPLIED: "untimed",
        Key.RUNTIME: _VERSION,
        Key.CPU: ".+",
        Key.GPU: ".+",
        Key.PROVIDER: r"\S+",
        Key.THREADS: r"\d+",
    }
)


def is_ours(key: str, text: str) -> bool:
    """Whether superopt writes entries like this one."""
    return key in KEYS and re.fullmatch(_FORMS[key], text, re.DOTALL) is not None


def metadata_of(model: onnx.ModelProto) -> dict[str, str]:
    """The metadata of a model, by key."""
    return {entry.key: entry.value for entry in model.metadata_props}


def free_keys(metadata: Mapping[str, str]) -> frozenset[str]:
    """Our keys, without those under which a model has something of somebody else's."""
    return KEYS - {key for key, text in metadata.items() if not is_ours(key, text)}
