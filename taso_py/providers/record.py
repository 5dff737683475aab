"""What a race of providers found, and the file that says how a model is to be run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taso_py.errors import UsageError
from taso_py.files import parse_json, read_text
from taso_py.options.providers import settled_options, short_name
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
class Placement:
    """On which provider the result runs, and what that gains; what rewriting gains there is told apart.

    Speed-ups are ratios of medians with 95 % intervals; their product is what both gain together.
    """

    ep: str
    """As ONNX Runtime names it."""
    python: str | None
    """The interpreter that it runs under; null: superopt's own."""
    options: Mapping[str, str]
    """Provider options, those that make it compute in float32 included."""
    threads: int | None
    """None: as many as ONNX Runtime takes by itself."""
    ort_level: str
    distribution: str
    ort_version: str
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
    """Of that file; external data is not part of it."""
    ep: str
    python: str | None
    library: str | None
    """A plugin library of providers."""
    options: Mapping[str, str]
    threads: int | None
    ort_level: str
    distribution: str
    ort_version: str

    def to_json(self) -> str:
        """The text of the file."""
        fields = {name: getattr(self, name) for name in _FIELDS} | {"options": dict(self.options)}
        return json.dumps({"schema": SCHEMA, **fields}, indent=2) + "\n"

    @property
    def needs_consent(self) -> str | None:
        """What of it may make ONNX Runtime load code or files that somebody else names; None where nothing does.

        Options that superopt sets by itself name no files.
        """
        if self.library is not None:
            return f"the library {self.library}"
        known = settled_options(self.ep, {}, self.threads or 0)
        further = [name for name, text in self.options.items() if known.get(name) != text and name != "num_of_threads"]
        return f"the provider options {', '.join(further)}" if further else None


_FIELDS = tuple(SessionRecord.__dataclass_fields__)


def session_file(model: Path) -> Path:
    """``OUT.session.json`` beside OUT."""
    return model.with_name(f"{model.name}{_SUFFIX}")


def record_of(placement: Placement, model: Path, target: Path) -> SessionRecord:
    """For the model in the file ``model``, which is about to be called ``target``."""
    return SessionRecord(
        superopt_version=VERSION,
        model=target.name,
        sha256=sha256_of(model),
        ep=placement.ep,
        python=placement.python,
        library=None,
        options=placement.options,
        threads=placement.threads,
        ort_level=placement.ort_level,
        distribution=placement.distribution,
        ort_version=placement.ort_version,
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
    return SessionRecord(**{name: told[name] for name in _FIELDS})


def _fault(told: Mapping[str, Any]) -> str | None:
    """The first field that is not what it should be; further ones are later versions' matter."""
    for name in _FIELDS:
        if name not in told:
            return f"it has no {name}"
        value = told[name]
        if name == "options":
            fits = isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
        elif name == "threads":
            fits = value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1)
        elif name in ("python", "library"):
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
