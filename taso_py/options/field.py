"""How an option is declared: one field of a dataclass, which also says how the command line spells it.

    threads: int | None = option("--threads", None, "Threads per session.", within=Range(least=1))

The type and the default are the field's own; `taso_py.cli` derives its options and their environment variables from
`flags`.  However a record of options is made, its values are brought into the declared types and ranges.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import reprlib
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import MISSING, FrozenInstanceError, dataclass
from inspect import get_annotations
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from types import MappingProxyType, NoneType, SimpleNamespace, UnionType
from typing import (
    Any,
    Literal,
    Protocol,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from taso_py.errors import UsageError

Group = Literal[
    "Model and inputs", "ONNX Runtime", "Rules", "Search", "Check", "Precision", "Measurement", "Proof", "Generation",
    "Output", "Pipeline", "General",
]  # fmt: skip
"""The headings of a command's help, in their order."""
Completion = Literal["rules", "providers"]
"""Names that only the library knows; choices and files follow from a field's type."""


class Array(Protocol):
    """What numpy can read as an array: its own arrays, and tensors of other libraries."""

    def __array__(self, *arguments: Any, **further: Any) -> Any:
        """The numpy array."""
        ...


T = TypeVar("T")
Record = TypeVar("Record", bound="OptionRecord")


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Numbers from ``least`` to ``most``, or greater than ``above``, or less than ``below``; None: no bound."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def __contains__(self, value: float) -> bool:
        return (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        bounds = (
            ("at least", self.least),
            ("at most", self.most),
            ("more than", self.above),
            ("less than", self.below),
        )
        return " and ".join(f"{words} {bound:g}" for words, bound in bounds if bound is not None)


ANY = Range()


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """How the command line spells a field."""

    spellings: tuple[str, ...]
    help: str
    metavar: str | None
    within: Range
    parse: Callable[[Iterable[str]], Any] | None
    """From the texts of an option that may be repeated to the field's value."""
    count: bool
    required: bool
    variable: bool
    per_run: bool
    group: Group | None
    completes: Completion | None

    @property
    def name(self) -> str:
        """The long spelling, as in --time-budget."""
        return max(self.spellings, key=len)

    @property
    def environment(self) -> str | None:
        """The environment variable that sets it, as in SUPEROPT_TIME_BUDGET; None: the command line alone does."""
        return f"SUPEROPT_{self.name[2:].replace('-', '_').upper()}" if self.variable else None

    @property
    def setting(self) -> bool:
        """Whether a settings file may set it."""
        return self.variable and not self.per_run


@dataclass(frozen=True, slots=True)
class Declared:
    """One option as its field declares it: type, default, spelling."""

    name: str
    hint: Any
    default: Any
    flag: Flag

    @property
    def kind(self) -> Any:
        """The type of a value that is given, without None."""
        return _present(self.hint)

    def held(self, value: object, *, called: str) -> Any:
        """The value as the field holds it; UsageError, which calls it ``called``, where it cannot be meant."""
        value = self.default if value is None else value
        try:
            found = conformed(value, self.hint)
        except (TypeError, OverflowError):
            raise UsageError(f"{called}: must be {described(self.hint)}") from None
        if isinstance(found, float) and not math.isfinite(found):
            raise UsageError(f"{called}: must be a finite number")
        if isinstance(found, int | float) and not isinstance(found, bool) and found not in self.flag.within:
            raise UsageError(f"{called}: must be {self.flag.within}")
        return found


def option(
    spellings: str,
    default: T,
    text: str,
    *,
    metavar: str | None = None,
    within: Range = ANY,
    parse: Callable[[Iterable[str]], T] | None = None,
    count: bool = False,
    required: bool = False,
    variable: bool = True,
    per_run: bool = False,
    group: Group | None = None,
    completes: Completion | None = None,
) -> T:
    """A field of a record of options: ``spellings`` separated by blanks, the default, the help text.

    ``parse`` makes the field's value of all texts of an option that may be repeated; without it the field's type says
    how one text is read.  ``count``: how often it is said.  ``required``: the command cannot do without.  ``variable``:
    whether an environment variable sets it too.  ``per_run``: it speaks of one run, so that no settings file has it.
    ``group``: under which heading of the help it stands.  ``completes``: what a shell offers as its value.
    """
    flag = Flag(
        spellings=tuple(spellings.split()),
        help=text,
        metavar=metavar,
        within=within,
        parse=parse,
        count=count,
        required=required,
        variable=variable,
        per_run=per_run,
        group=group,
        completes=completes,
    )
    return cast(T, _field(default, flag))


def _field(default: Any, flag: Flag) -> Any:
    metadata = {"flag": flag}
    if isinstance(default, Mapping):  # dataclasses take it for mutable
        return dataclasses.field(default_factory=lambda: default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def record(kind: type[T]) -> type[T]:
    """A frozen dataclass of options; it is written, compared and kept from change by `OptionRecord`.

    Methods made anew for each class would be a tenth of the time of ``superopt --help``.
    """
    return dataclass(kw_only=True, repr=False, eq=False)(kind)


@record
class OptionRecord:
    """Base of all records of options: what a field is given is brought into its type and range, or refused.

    Lists become tuples, texts paths, a single size a shape; None stands for the default.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name in vars(self):  # set by its constructor
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __repr__(self) -> str:
        fields = (f"{one.name}={getattr(self, one.name)!r}" for one in dataclasses.fields(self))
        return f"{type(self).__name__}({', '.join(fields)})"

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values())

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, one.name) for one in dataclasses.fields(self))

    def __post_init__(self) -> None:
        for one in declared(type(self)):
            given = getattr(self, one.name)
            object.__setattr__(self, one.name, one.held(given, called=f"{one.name}={shown(given)}"))


def _hints_of(kind: Any) -> Mapping[str, Any]:
    """The types of a class's fields; those of a base are read once, not again for each class that is derived from it.

    `typing.get_type_hints` reads all of them for every class, and commands would wait for that.
    """
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        found |= _hints(base) if base is not kind else _own_hints(base)
    return found


_hints: Callable[[Any], Mapping[str, Any]] = functools.cache(_hints_of)


def _own_hints(kind: type) -> dict[str, Any]:
    written = SimpleNamespace(__annotations__=get_annotations(kind))
    return get_type_hints(written, vars(sys.modules[kind.__module__]))


def declared(kind: type[OptionRecord]) -> tuple[Declared, ...]:
    """The options of a record, in the order of their fields."""
    hints = _hints(kind)
    return tuple(
        Declared(f.name, hints[f.name], _default_of(f), flag)
        for f in dataclasses.fields(kind)
        if (flag := f.metadata.get("flag")) is not None
    )


def files_named(options: OptionRecord) -> tuple[Path, ...]:
    """Every file that options name."""
    held = (getattr(options, one.name) for one in declared(type(options)))
    values = (v.values() if isinstance(v, Mapping) else v if isinstance(v, tuple) else (v,) for v in held)
    return tuple(one for several in values for one in several if isinstance(one, Path))


def reworded(kind: type[OptionRecord], name: str, text: str, *, default: Any = MISSING, variable: bool = True) -> Any:
    """The field ``name`` of another record, with a help text of its own."""
    one = next(one for one in dataclasses.fields(kind) if one.name == name)
    flag = dataclasses.replace(one.metadata["flag"], help=text, variable=variable)
    return _field(_default_of(one) if default is MISSING else default, flag)


def _default_of(one: dataclasses.Field[Any]) -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()


def chosen(kind: type[Record], options: Record | None, fields: Mapping[str, object]) -> Record:
    """The options of a call: a record, single fields, or a record and the fields that differ from it.

    UsageError for a name that no field has, and for a record of another kind.
    """
    known = [one.name for one in declared(kind)]
    for name in fields:
        if name not in known:
            import difflib  # for this line only: every command would wait for it

            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise UsageError(f"there is no option {name!r}: {hint}")
    if options is None:
        return kind(**fields)
    if not isinstance(options, kind):
        raise UsageError(f"options={shown(options)}: must be {kind.__name__} of taso_py.options, or left out")
    return dataclasses.replace(options, **fields) if fields else options


def shown(value: object) -> str:
    """A value as Python writes it, on one line that is not too long."""
    return " ".join(reprlib.repr(value).split())


def conformed(value: object, hint: Any) -> Any:
    """The value as an annotation has it; TypeError where it is nothing of that kind."""
    if value is None:
        if _present(hint) is hint:
            raise TypeError
        return None
    hint = _present(hint)
    readers: Mapping[Any, Callable[[Any, Any], Any]] = {
        tuple: _tuple,
        Mapping: _mapping,
        Literal: _choice,
        UnionType: _one_of,
    }
    origin = get_origin(hint)
    if origin in readers:
        return readers[origin](value, get_args(hint))
    if hint is Array and hasattr(type(value), "__array__"):
        return value
    for kind, accepted in _SCALARS.items():
        if hint is kind and isinstance(value, accepted) and (kind is bool or not isinstance(value, bool)):
            return kind(value)
    raise TypeError


_SCALARS: Mapping[type, Any] = {bool: bool, int: Integral, float: Real, str: str, Path: (str, PathLike)}


def _tuple(value: object, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    if arguments[0] is int and isinstance(value, Integral):
        value = (value,)  # the one size of a symbol
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise TypeError
    return tuple(conformed(one, arguments[0]) for one in value)


def _mapping(value: object, arguments: tuple[Any, ...]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError
    return MappingProxyType({conformed(k, arguments[0]): conformed(v, arguments[1]) for k, v in value.items()})


def _one_of(value: object, kinds: tuple[Any, ...]) -> Any:
    for kind in kinds:
        with suppress(TypeError):
            return conformed(value, kind)
    raise TypeError


def _choice(value: object, choices: tuple[Any, ...]) -> Any:
    if not isinstance(value, str) or value not in choices:
        raise TypeError
    return value


def described(hint: Any) -> str:
    """What a value of an annotation is, in words: ``a whole number or None``."""
    kind, arguments = _present(hint), get_args(_present(hint))
    words = {bool: "True or False", int: "a whole number", float: "a number", str: "a text", Path: "a file name"}
    words[Array] = "an array"
    match get_origin(kind):
        case None:
            found = words[kind]
        case _ if get_origin(kind) is Literal:
            found = f"one of {', '.join(map(repr, arguments))}"
        case _ if get_origin(kind) is UnionType:
            found = " or ".join(map(described, arguments))
        case _ if get_origin(kind) is tuple:
            found = "a size or a list of sizes" if arguments[0] is int else f"a list, each {described(arguments[0])}"
        case _:
            found = f"a mapping from names, each to {described(arguments[1])}"
    return found if kind is hint else f"{found}, or None"


def _present(hint: Any) -> Any:
    """An annotation without None."""
    if NoneType not in get_args(hint):
        return hint
    (kind,) = (one for one in get_args(hint) if one is not NoneType)
    return kind
