"""What `superopt rules derive` has found, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from taso_py.errors import UnprovedError
from taso_py.report.verification import some

SCHEMA = "superopt.derivation/1"


@dataclass(frozen=True, slots=True)
class Derivation:
    """Which laws follow from other rules by rewriting; False: none was found with so many states."""

    derived: Mapping[str, bool]
    """By the name of the law, in the order of the files."""

    @property
    def missing(self) -> tuple[str, ...]:
        """The laws that were not derived."""
        return tuple(name for name, derived in self.derived.items() if not derived)

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps({"schema": SCHEMA, "derived": dict(self.derived)}, indent=2)

    def text(self) -> str:
        """One line for each law, and the count."""
        lines = [f"{'follows' if derived else 'open':<8} {name}" for name, derived in self.derived.items()]
        count = len(self.derived)
        return "\n".join([*lines, f"{count - len(self.missing)} of {count} laws follow"])

    def require_all(self) -> None:
        """UnprovedError where a law does not follow."""
        if self.missing:
            count = f"{len(self.missing)} of {len(self.derived)}"
            raise UnprovedError(f"{count} laws were not derived: {some(self.missing)}")
