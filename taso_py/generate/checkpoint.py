"""What a run has done so far, one file per step, each with a checksum; a run that is resumed does only the rest."""

from __future__ import annotations

import hashlib
import json
import os
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from taso_py.errors import OutputError, UsageError
from taso_py.files import parse_json, write_atomically
from taso_py.folders import locked_file
from taso_py.options.spelling import spelled, spelled_on
from taso_py.paths import exists, is_file

_LOCK = ".in-use"
_SUFFIX, _SETTINGS = ".step", "settings"
"""Of the files, and the one that says which run the others belong to."""


@dataclass(slots=True, weakref_slot=True)
class Checkpoint:
    """Steps in a directory; without one nothing is kept.

    The settings are written with the first step: a run that does not begin leaves nothing that the next one meets.
    """

    folder: Path | None = None
    _settings: dict[str, Any] | None = None

    def begin(self, settings: dict[str, Any], *, resume: bool) -> None:
        """Makes the directory ready for a run with these settings, and for no other as long as this object lives.

        `UsageError` when it holds another run, or one that should not be resumed.
        """
        if self.folder is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            weakref.finalize(self, os.close, locked_file(self.folder / _LOCK))
        except BlockingIOError:
            raise UsageError(f"{spelled('checkpoint', self.folder)} is in use by another run: name another") from None
        except OSError as error:
            raise OutputError(f"{spelled('checkpoint', self.folder)}: {error.strerror or error}") from None
        settings = json.loads(json.dumps(settings))  # as they come back from a file: lists, no tuples
        known = self.get(_SETTINGS)
        if known is None and any(self.folder.glob(f"*{_SUFFIX}")):
            said = spelled("checkpoint", self.folder)
            raise UsageError(f"{said} holds steps of a run, and not which: name another directory")
        if known is not None and not resume:
            said = spelled("checkpoint", self.folder)
            raise UsageError(f"{said} holds a run already: add {spelled_on('resume')}, or name another directory")
        if known is not None and not isinstance(known, dict):
            raise self._damaged(_SETTINGS)
        if known is not None and known != settings:
            changed = ", ".join(k for k in settings if known.get(k) != settings[k])
            raise UsageError(f"{spelled('checkpoint', self.folder)} holds a run with other settings ({changed})")
        self._settings = settings

    def get(self, name: str) -> Any:
        """What was put under a name; None when nothing was. `UsageError` for a file that is damaged."""
        data = self._read(name)
        try:
            return None if data is None else parse_json(data)
        except ValueError:
            raise self._damaged(name) from None

    def put(self, name: str, value: Any) -> None:
        """Keeps a value that JSON can hold."""
        self._write(name, json.dumps(value, sort_keys=True).encode())

    def get_array(self, name: str) -> npt.NDArray[np.uint64] | None:
        """An array of fingerprints that was put under a name."""
        data = self._read(name)
        try:
            return None if data is None else np.frombuffer(data, dtype=np.uint64)
        except ValueError:  # no whole number of them
            raise self._damaged(name) from None

    def put_array(self, name: str, value: npt.NDArray[np.uint64]) -> None:
        """Keeps an array of fingerprints."""
        self._write(name, value.tobytes())

    def _read(self, name: str) -> bytes | None:
        path = None if self.folder is None else self.folder / (name + _SUFFIX)
        if path is None or not exists(path):
            return None
        if not is_file(path):  # to open a FIFO would wait for ever
            raise UsageError(f"{path} is not a regular file: name another directory with {spelled('checkpoint')}")
        try:
            digest, _, data = path.read_bytes().partition(b"\n")
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
        if hashlib.sha256(data).hexdigest().encode() != digest:
            raise self._damaged(name)
        return data

    def _damaged(self, name: str) -> UsageError:
        path = None if self.folder is None else self.folder / (name + _SUFFIX)
        remedy = "name another directory" if name == _SETTINGS else "delete it to have its step done again"
        return UsageError(f"{path} is damaged: {remedy}")

    def _write(self, name: str, data: bytes) -> None:
        if self.folder is None:
            return
        if self._settings is not None:
            settings, self._settings = self._settings, None
            self.put(_SETTINGS, settings)
        target = self.folder / (name + _SUFFIX)
        whole = hashlib.sha256(data).hexdigest().encode() + b"\n" + data
        write_atomically(target, lambda folder: _write_bytes(folder / target.name, whole), force=True)


def _write_bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)
