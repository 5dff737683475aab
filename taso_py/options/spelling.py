"""How a message names an option: as the command line spells it there, and as the field of its record from Python.

    raise UsageError(f"{spelled('shapes', key='x')}: the model has no such input")     --shape x / shapes['x']

The spelling is the one that the field declares, so that no message is written twice.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import MappingProxyType

from taso_py.options.field import Flag, OptionRecord


class _Caller:
    """Whether the command line is what calls; one process has one at a time."""

    is_command_line = False


@contextmanager
def spelling_as_command_line() -> Iterator[None]:
    """Within the block messages name options as the command line spells them."""
    before, _Caller.is_command_line = _Caller.is_command_line, True
    try:
        yield
    finally:
        _Caller.is_command_line = before


def spelled(field: str, value: object = None, *, key: str | None = None, metavar: str = "") -> str:
    """A field of a record of options, with one name of a mapping and with a value if they are given.

    ``--time-budget 60`` or ``time_budget_s=60``; ``--shape x=1,3`` or ``shapes['x']=1,3``.  ``metavar`` stands for a
    value on the command line, ``--input x=FILE.npy``, where Python needs none, ``inputs['x']``.
    """
    said = "" if value is None else str(value)
    if metavar and _Caller.is_command_line:
        said = metavar
    if _Caller.is_command_line:
        named = f"{_flags()[field].name}{'' if key is None else f' {key}'}"
        return f"{named}{'=' if key is not None else ' '}{said}" if said else named
    named = field if key is None else f"{field}[{key!r}]"
    return f"{named}={said}" if said else named


def spelled_on(field: str) -> str:
    """A field that is True or False, as whoever wants it says it: ``--force`` or ``force=True``."""
    return spelled(field) if _Caller.is_command_line else f"{field}=True"


def respelled(text: str) -> str:
    """A message that names switches of the command line, as the caller spells them."""
    if _Caller.is_command_line:
        return text
    fields = {flag.name: field for field, flag in _flags().items()}

    def of_python(found: re.Match[str]) -> str:
        return spelled_on(fields[found[0]]) if found[0] in fields else found[0]

    return re.sub(r"--[a-z][a-z-]*", of_python, text)


@cache
def _flags() -> Mapping[str, Flag]:
    """The spelling of each field; where two records have a field of one name, that of the first."""
    found: dict[str, Flag] = {}
    waiting: list[type[OptionRecord]] = [OptionRecord]
    while waiting:
        kind = waiting.pop(0)
        waiting += kind.__subclasses__()
        if dataclasses.is_dataclass(kind):
            for one in dataclasses.fields(kind):
                if "flag" in one.metadata:
                    found.setdefault(one.name, one.metadata["flag"])
    return MappingProxyType(found)
