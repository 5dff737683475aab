"""What a race of providers found, and the file that says how a model is to be run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from taso_py.errors import FileTakenError, SuperoptError, UsageError
from taso_py.files import parse_json, read_text
from taso_py.options.providers import bf16_options, settled_options, short_name
from taso_py.options.sessions import LEVELS
from taso_py.version import VERSION

SCHEMA = "superopt.session/1"
_SUFFIX = ".session.json"
_MOST_BYTES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class RacedProvider:
    """One provider of the race, running the original."""

    ep: str
    python: str | None
    """The interpreter that it ran under; null: superopt's own."""
    ort_version: str | None = None
    speedup: float | None = None
    """Median over rounds of the first provider's time over its own; null where it was not timed."""
    speedup_low: float | None = None
    speedup_high: float | None = None
    rounds: int = 0
    idle_share: float | None = None
    """The largest part of a CPU that it kept busy while another provider was timed."""
    failure: str | None = None
    """Why it may not run the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRun:
    """How sessions of a model are made on a provider."""

    ep: str
    """As ONNX Runtime names it."""
    python: str | None
    """The interpreter that it runs under; null: superopt's own."""
    options: Mapping[str, str]
    """Provider options, those that settle its precision included."""
    threads: int | None
    """None: as many as ONNX Runtime takes by itself."""
    ort_level: str
    distribution: str
    ort_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement(ProviderRun):
    """On which provider the result runs, and what that gains; what rewriting gains there is told apart.

    Speed-ups are ratios of medians with 95 % intervals; their product is what both gain together.
    """

    baseline: str
    """The provider that it is compared with: the first of the race."""
    placement_speedup: float
    """Of the original on this provider over the original on `baseline`; 1 where they are the same."""
    placement_low: float
    placement_high: float
    rewriting_speedup: float = 1.0
    """Of the result over the original, both on this provider; 1 for a result that is the original."""
    providers: tuple[RacedProvider, ...] = ()

    @property
    def moved(self) -> bool:
        """Whether it is another provider than the first."""
        return self.ep != self.baseline

    @property
    def total_speedup(self) -> float:
        """The product of both."""
        return self.placement_speedup * self.rewriting_speedup

    def sentence(self) -> str:
        """Both gains, told apart."""
        where = "" if self.python is None else f" of {self.python}"
        base = short_name(self.baseline)
        if not self.moved:
            moved = f"{base} is the fastest provider for the original"
        else:
            interval = f"[{self.placement_low:.3f}, {self.placement_high:.3f}]"
            moved = f"placement on {short_name(self.ep)}{where}: {self.placement_speedup:.3f} {interval} over {base}"
        return f"{moved}; rewriting there: {self.rewriting_speedup:.3f}; together: {self.total_speedup:.3f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """How a model was timed, for whoever makes a session of it; it holds for one file, by its hash."""

    superopt_version: str
    model: str
    """The name of the file beside which this one lies."""
    sha256: str
    """Of that file alone."""
    ep: str
    python: str | None
    library: str | None
    """A plugin library of providers."""
    options: Mapping[str, str]
    threads: int | None
    ort_level: str
    distribution: str
    ort_version: str
    external: Mapping[str, str] = field(default_factory=dict)
    """File -> sha256, of the files beside it that hold weights of the model."""
    approximation: str | None = None
    """What these options change in its values, and by how much; null: nothing that is known."""

    def to_json(self) -> str:
        """The text of the file."""
        maps = {name: dict(getattr(self, name)) for name in _MAPS}
        fields = {name: getattr(self, name) for name in _FIELDS} | maps
        return json.dumps({"schema": SCHEMA, **fields}, indent=2) + "\n"

    @property
    def needs_consent(self) -> str | None:
        """What of it may make ONNX Runtime load code or files that somebody else names; None where nothing does.

        Options that superopt sets by itself name no files.
        """
        if self.library is not None:
            return f"the library {self.library}"
        known = [settled_options(self.ep, {}, 0), bf16_options(self.ep, {}, 0) or {}]
        further = [
            name
            for name, text in self.options.items()
            if name != "num_of_threads" and all(own.get(name) != text for own in known)
        ]
        return f"the provider options {', '.join(further)}" if further else None


_FIELDS = tuple(SessionRecord.__dataclass_fields__)
_MAPS = ("options", "external")
_LATER = ("external", "approximation")
"""Fields that files of earlier versions do not have."""


def session_file(model: Path) -> Path:
    """``OUT.session.json`` beside OUT."""
    return model.with_name(f"{model.name}{_SUFFIX}")


def approximating_file(model: Path) -> Path | None:
    """The session file of a model, where that makes an approximation of it; None where it makes none, or is damaged."""
    file = session_file(model)
    try:
        return file if file.is_file() and read_record(file).approximation is not None else None
    except SuperoptError:
        return None


def require_no_approximation(model: Path, *, force: bool) -> Path | None:
    """The session file that would approximate what is about to be written there: FileTakenError unless ``force``."""
    stale = approximating_file(model)
    if stale is not None and not force:
        words = "exists already, and runs its model as an approximation: remove it, or replace both with --force"
        raise FileTakenError(f"{stale} {words}", stale)
    return stale


def write_session(placed: ProviderRun, folder: Path, target: Path, approximation: str | None) -> None:
    """Write into ``folder``, beside the model that is there already, what goes with it to ``target``."""
    record = record_of(placed, folder / target.name, target, approximation)
    session_file(folder / target.name).write_text(record.to_json(), encoding="utf-8")


def record_of(placed: ProviderRun, model: Path, target: Path, approximation: str | None = None) -> SessionRecord:
    """For the model in the file ``model``, which is about to be called ``target``, where weights of it may lie."""
    from taso_py.onnx_io.artifact import external_locations

    beside = {name: model.parent / name for name in sorted(external_locations(model))}
    return SessionRecord(
        superopt_version=VERSION,
        model=target.name,
        sha256=sha256_of(model),
        ep=placed.ep,
        python=placed.python,
        library=None,
        options=placed.options,
        threads=placed.threads,
        ort_level=placed.ort_level,
        distribution=placed.distribution,
        ort_version=placed.ort_version,
        external={name: sha256_of(at if at.is_file() else target.parent / name) for name, at in beside.items()},
        approximation=approximation,
    )


def read_record(file: Path) -> SessionRecord:
    """What a file says; UsageError where it is no such record."""
    wrong = f"{file} is no session file of superopt's"
    remedy = "write it again with optimize, or remove it"
    try:
        told = parse_json(read_text(file, most=_MOST_BYTES))
    except ValueError as error:
        raise UsageError(f"{wrong}: {error}; {remedy}") from None
    if not isinstance(told, dict) or told.get("schema") != SCHEMA:
        said = told.get("schema") if isinstance(told, dict) else None
        raise UsageError(f"{wrong}: its schema is {said!r}, not {SCHEMA}; {remedy}")
    fault = _fault(told)
    if fault is not None:
        raise UsageError(f"{wrong}: {fault}; {remedy}")
    return SessionRecord(**{name: told[name] for name in _FIELDS if name in told})


def _fault(told: Mapping[str, Any]) -> str | None:
    """The first field that is not what it should be; further ones are later versions' matter."""
    for name in _FIELDS:
        if name not in told and name in _LATER:
            continue
        if name not in told:
            return f"it has no {name}"
        value = told[name]
        if name in _MAPS:
            fits = isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
        elif name == "threads":
            fits = value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1)
        elif name in ("python", "library", "approximation"):
            fits = value is None or isinstance(value, str)
        elif name == "ort_level":
            fits = value in LEVELS
        else:
            fits = isinstance(value, str)
        if not fits:
            return f"{name} cannot be {value!r:.60}"
    return None


def sha256_of(path: Path) -> str:
    """Of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
