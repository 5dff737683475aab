"""Writing files so that a reader never sees half of one: stage beside the target, flush, replace.

Everything is first written under its final name into a hidden directory next to the target. Only complete,
flushed files are moved out of it, companions (external data) first and the target last; whatever goes wrong
before that leaves the target's directory as it was.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taso_py.errors import FileTakenError, ModelError, OutputError, UsageError
from taso_py.folders import RunFolder, alone
from taso_py.options.field import Array
from taso_py.options.spelling import spelled, spelled_on
from taso_py.paths import exists, is_file, is_folder, is_text, real, reason_of

if TYPE_CHECKING:
    import numpy as np

MODEL_BYTES = 2**31 - 1
"""The most that protobuf reads, and with it ONNX Runtime: what is larger keeps its weights in files beside it."""
DEEPEST = 100
"""Levels of lists and objects in JSON: what this package writes has about ten."""
_SHOWN = 40
"""Characters of a number in a message."""
TOO_DEEP = "it is nested too deeply"
_HINTS = {
    errno.ENOENT: "create its directory first",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOTDIR: "name a file in an existing directory",
    errno.ENOSPC: "free some space or choose another disk",
    errno.EDQUOT: "free some space or choose another disk",
    errno.EFBIG: "raise the file-size limit, ulimit -f",
    errno.EACCES: "choose a directory that you may write to",
    errno.EPERM: "choose a directory that you may write to",
    errno.EROFS: "choose a directory that you may write to",
}


def check_target(target: Path, *, sources: Iterable[Path] = (), force: bool = False) -> None:
    """Raise OutputError unless `target` can be written without harming `sources` or another existing file."""
    _require_harmless(target, tuple(sources), force)
    with _staging(target):
        pass


def write_text(target: Path, text: str, *, sources: Iterable[Path] = (), force: bool = False) -> None:
    """Write `text` to `target` atomically, as UTF-8; of names of files that are not, the bytes are spelled."""
    write_atomically(target, lambda folder: _write_text(folder / target.name, text), sources=sources, force=force)


def append_text(target: Path, text: str, *, sources: Iterable[Path] = ()) -> None:
    """Append `text` to a file that others write to as well, in one write; OutputError unless that is harmless."""
    check_appendable(target, sources=sources)
    try:
        with target.open("ab", buffering=0) as file:
            file.write(_encoded(text))
    except OSError as error:
        raise OutputError(f"cannot write {target}: {_reason(error)}") from error
    except ValueError as error:
        raise OutputError(f"cannot write {str(target)!r}: {error}") from None


def check_appendable(target: Path, *, sources: Iterable[Path] = ()) -> None:
    """Raise OutputError unless `target` is a writable regular file and none of `sources`, or can be made."""
    if any(same_file(target, source) for source in sources):
        raise OutputError(f"{target} is a model, which nothing can be appended to: choose another name")
    try:
        if exists(target) and not is_file(target):  # to open a FIFO would wait for a reader
            raise OutputError(f"{target} is not a regular file: choose another name")
        parent, there = target.parent, exists(target)
        writable = os.access(target if there else parent, os.W_OK) and (there or is_folder(parent))
    except OSError as error:
        raise OutputError(f"cannot write {target}: {_reason(error)}") from error
    if not writable:
        raise OutputError(f"cannot write {target}: it, or its directory, is missing or not writable")


def write_atomically(
    target: Path, write: Callable[[Path], None], *, sources: Iterable[Path] = (), force: bool = False
) -> None:
    """Publish the files that ``write(folder)`` leaves in `folder`; one of them is called `target.name`.

    `sources` are files that must survive: the model being optimised and its external data. Any exception, an
    interrupt included, removes what was staged. Raises OutputError with the operating system's reason.
    """
    protected = tuple(sources)
    _require_harmless(target, protected, force)
    with _staging(target) as folder:
        write(folder)
        staged = [path for path in sorted(folder.rglob("*")) if is_file(path)]
        companions = [path for path in staged if path != folder / target.name]
        for path in staged:
            _flush(path)
        # Of two runs with one target each publishes all its files at once: weights of one belong to no other's graph.
        with alone(target.parent):
            _require_harmless(target, protected, force)
            for path in companions:
                _require_harmless(target.parent / path.relative_to(folder), protected, force, owner=target)
            for path in [*companions, folder / target.name]:
                final = target.parent / path.relative_to(folder)
                final.parent.mkdir(parents=True, exist_ok=True)
                path.replace(final)
        # The files are in place: a filesystem that cannot flush directories does not make them unwritten.
        with suppress(OSError):
            _flush(target.parent)


def _write_text(path: Path, text: str) -> None:
    path.write_bytes(_encoded(text))


def _encoded(text: str) -> bytes:
    return text.encode(errors="backslashreplace")


def _require_harmless(target: Path, sources: tuple[Path, ...], force: bool, owner: Path | None = None) -> None:
    part = "goes with" if target.suffix == ".json" else "holds the weights of"
    name = str(target) if owner is None else f"{target}, which {part} {owner},"
    if any(same_file(target, source) for source in sources):
        raise OutputError(f"{name} would overwrite a file that is read: choose another output name")
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return
    except ValueError:
        raise OutputError(f"cannot write {str(target)!r}: it holds a NUL, which no name of a file does") from None
    except OSError as error:
        raise OutputError(f"cannot write {target}: {_reason(error)}") from error
    if stat.S_ISLNK(mode):  # to replace the link would break what it is for: /dev/stdout is one
        raise OutputError(f"{name} is a symbolic link: name the file that it points to")
    if stat.S_ISDIR(mode):
        raise OutputError(f"{name} is a directory: name a file in it")
    if not stat.S_ISREG(mode):
        raise OutputError(f"{name} is not a regular file: choose another output name")
    if not force:
        words = f"exists already: use {spelled_on('force')} to overwrite it, or choose another name"
        raise FileTakenError(f"{name} {words}", target)


def same_file(one: Path, other: Path) -> bool:
    """Whether two names are those of one file."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # one of them is not there yet
        return real(one) == real(other)


@contextmanager
def _staging(target: Path) -> Iterator[Path]:
    try:
        with RunFolder(target.parent, prefix=f".{target.name[:40]}.", suffix=".tmp") as folder:
            yield folder.path
    except OSError as error:
        raise OutputError(f"cannot write {target}: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    """Why something cannot be written, and what to do."""
    hint = _HINTS.get(error.errno or 0)
    return reason_of(error) + (f" ({hint})" if hint else "")


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def require_model_file(path: Path) -> None:
    """Raise ModelError unless `path`, links followed, is a regular file, readable, not empty and not too large."""
    try:
        mode, size = path.stat().st_mode, path.stat().st_size
        if stat.S_ISDIR(mode):
            raise ModelError(f"{path} is a directory: name the .onnx file in it")
        if not stat.S_ISREG(mode):  # to open a FIFO would wait for ever, and a device has no end
            raise ModelError(f"{path} is not a regular file: copy the model into one")
        if size > MODEL_BYTES:
            raise ModelError(
                f"{path} has {size / 2**30:.1f} GiB, and no .onnx file may have 2: "
                "save it with its weights as external data (onnx.save, save_as_external_data=True)"
            )
        with path.open("rb") as file:
            if not file.read(1):
                raise ModelError(f"{path} is empty: it is not an ONNX model")
    except FileNotFoundError:
        raise ModelError(f"{path} does not exist: check the path") from None
    except ValueError:
        raise ModelError(f"{str(path)!r} holds a NUL: no file has such a name") from None
    except OSError as error:
        raise ModelError(f"cannot read {path}: {reason_of(error)}") from error


def require_text_name(path: Path) -> None:
    """`ModelError` for a name or a folder that is not UTF-8: Python's ONNX Runtime and onnx take texts alone."""
    if not is_text(path.absolute()):
        words = "its name, or that of its folder, is not UTF-8, and ONNX Runtime opens no such file from Python"
        raise ModelError(f"{path}: {words}: rename it")


def read_text(path: Path, *, most: int) -> str:
    """The text of a regular file of at most so many bytes, links followed; UsageError for any other.

    ValueError where it is no UTF-8.
    """
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):  # to open a FIFO would wait for ever, and a device has no end
            raise UsageError(f"{path} is not a regular file: name one")
        if about.st_size > most:
            raise UsageError(f"{path} is too long: {about.st_size} bytes, and {most} are the most that are read")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {reason_of(error)}") from error


def parse_json(text: str | bytes, *, object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """What JSON says; ValueError for whatever is none, which has no NaN, and for what is nested too deeply.

    A number beyond the floats is an error as well: it would be read as infinity.
    """
    try:
        found = json.loads(
            text, object_pairs_hook=object_pairs_hook, parse_constant=_no_such_number, parse_float=_finite
        )
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    _require_shallow(found)
    _require_text(text, found)
    return found


def _require_shallow(value: Any) -> None:
    """ValueError for more than `DEEPEST` levels: whoever reads the value may then walk through it by recursion."""
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for one in level if isinstance(one, dict | list) for inner in _entries(one)]
        if not level:
            return
    raise ValueError(TOO_DEEP)


def _require_text(text: str | bytes, found: Any) -> None:
    """ValueError for half of a character, which JSON can spell, and no file, message or model can hold."""
    spelled = b"\\ud" in text.lower() if isinstance(text, bytes) else "\\ud" in text.lower()
    if spelled:
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("it spells half of a character") from None


def _entries(collection: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return collection.values() if isinstance(collection, dict) else collection


def _no_such_number(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:_SHOWN]} is beyond what a float holds")
    return value


def load_arrays(given: Mapping[str, Path | Array]) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    """Arrays by input name, read from ``.npy`` files where files are given.

    UsageError for files without an array, and for what numpy cannot read as one; pickles are refused.
    """
    return {name: _array(name, value) for name, value in given.items()}


def _array(name: str, given: Path | Array) -> np.ndarray[Any, np.dtype[Any]]:
    import numpy as np

    if not isinstance(given, Path):
        try:
            return np.asarray(given)
        except (TypeError, ValueError, RuntimeError) as error:
            raise UsageError(f"{spelled('inputs', key=name)}: no array can be made of it: {error}") from None
    try:
        with given.open("rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except Exception as error:  # a header is read by Python's own parser, which raises what it likes
        said, why = spelled("inputs", given, key=name), str(error) or type(error).__name__
        raise UsageError(f"{said}: {why}; give a .npy file that numpy.save wrote") from error
