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
from taso_py.options.providers import bf16_options, less_precision, settled_options, short_name
from taso_py.options.sessions import LEVELS, MOST_THREADS
from taso_py.paths import is_file
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
    """None: as many as ONNX Runtime takes by itself; superopt's own records have those that were timed."""
    ort_level: str
    distribution: str
    ort_version: str
    library: str | None = None
    """A plugin library of providers."""

    @property
    def needs_consent(self) -> str | None:
        """What of it a session has to be allowed to load; None where nothing is."""
        return needing_consent(self.ep, self.library, self.options)


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
        return needing_consent(self.ep, self.library, self.options)


def needing_consent(ep: str, library: str | None, options: Mapping[str, str]) -> str | None:
    """What of a session's library and provider options may lead to code or files that somebody else names, in words."""
    if library is not None:
        return f"the library {library}"
    known = [settled_options(ep, {}, 0), bf16_options(ep, {}, 0) or {}]
    further = [
        name
        for name, text in options.items()
        if not (name == "num_of_threads" and text.isdecimal()) and all(own.get(name) != text for own in known)
    ]
    return f"the provider options {', '.join(further)}" if further else None


_FIELDS = tuple(SessionRecord.__dataclass_fields__)
_MAPS = ("options", "external")
_LATER = ("external", "approximation")
"""Fields that files of earlier versions do not have."""


def session_file(model: Path) -> Path:
    """``OUT.session.json`` beside OUT."""
    return model.parent / f"{model.name}{_SUFFIX}"


def standing_record(model: Path) -> SessionRecord | None:
    """What stands in the session file beside a model; None where there is none, or one that is damaged."""
    file = session_file(model)
    try:
        return read_record(file) if is_file(file) else None
    except (SuperoptError, OSError):
        return None


def approximation_of(model: Path) -> str | None:
    """What the session file of a model, if it is for that file, says of the approximation that it makes of it."""
    record = standing_record(model)
    return record.approximation if record is not None and record.sha256 == sha256_of(model) else None


def require_no_record(model: Path, *, force: bool) -> None:
    """FileTakenError, unless ``force``, where a session file is that of another model than is about to be written."""
    known, file = standing_record(model), session_file(model)
    if known is not None and not force:
        runs = "runs its model as an approximation" if known.approximation is not None else "is for an earlier model"
        raise FileTakenError(f"{file} exists already, and {runs}: remove it, or replace both with --force", file)


def remove_stale_record(model: Path, sha256: str | None) -> None:
    """Remove the session file beside a model that was just written without one, unless it speaks of the same bytes."""
    known = standing_record(model)
    if known is not None and (known.approximation is not None or known.sha256 != sha256):
        session_file(model).unlink(missing_ok=True)


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
        library=placed.library,
        options=placed.options,
        threads=placed.threads,
        ort_level=placed.ort_level,
        distribution=placed.distribution,
        ort_version=placed.ort_version,
        external={name: sha256_of(at if is_file(at) else target.parent / name) for name, at in beside.items()},
        approximation=approximation or _unmeasured(placed),
    )


def _unmeasured(placed: ProviderRun) -> str | None:
    """What a session file says where a provider is asked for less than float32 and computed in float32 all the same."""
    asked = less_precision(placed.ep, placed.options)
    return None if asked is None else f"{asked}, where the provider follows its options: here it computed in float32"


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
            is_number = isinstance(value, int) and not isinstance(value, bool)
            fits = value is None or (is_number and 1 <= value <= MOST_THREADS)
        elif name in ("python", "library", "approximation"):
            fits = value is None or isinstance(value, str)
        elif name == "ort_level":
            fits = value in LEVELS
        else:
            fits = isinstance(value, str)
        if not fits:
            return f"{name} cannot be {value!r:.60}"
    asked = less_precision(told["ep"], told["options"])
    if asked is not None and told.get("approximation") is None:
        return f"its options ask {told['ep']} for {asked}, and it says of no approximation"
    return None


def sha256_of(path: Path) -> str:
    """Of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
