"""What `superopt generate` has found, as a rule file, as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from taso_py.files import write_text
from taso_py.generate.job import HEAD, Figures, Settings, text_of
from taso_py.paths import is_file
from taso_py.result import plain
from taso_py.rules.rule import Rule

SCHEMA = "superopt.generation/1"


def is_generated(path: Path) -> bool:
    """Whether a file begins as those do that `Generated.save` writes."""
    try:
        return is_file(path) and path.open("rb").read(len(HEAD)) == HEAD.encode()
    except OSError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """Proved rules from which all other laws that were found follow."""

    settings: Settings
    rules: tuple[Rule, ...]
    """In canonical order, the same for any number of workers."""
    figures: Figures
    undecided: tuple[tuple[str, str], ...]
    """Laws that are neither proved nor refuted, and why."""
    seconds: float
    output: Path | None = None

    def rules_text(self) -> str:
        """The text of the rule file."""
        return text_of(self.settings, self.figures, self.rules)

    def save(self, path: str | Path, *, force: bool = False) -> Generated:
        """Write the rule file atomically; self with `output` filled. OutputError, for a file that exists too."""
        target = Path(path)
        write_text(target, self.rules_text(), force=force)
        return replace(self, output=target)

    def to_json(self) -> str:
        """One JSON object."""
        found = {
            "schema": SCHEMA,
            "output": plain(self.output),
            "rules": len(self.rules),
            **asdict(self.figures),
            "seconds": round(self.seconds, 1),
            "undecided": [{"law": law, "why": why} for law, why in self.undecided],
        }
        return json.dumps(found, indent=2)

    def text(self, *, undecided: bool = False) -> str:
        """What was found, in three lines; before them, if asked for, the laws that are undecided."""
        f = self.figures
        lines = [f"{law}  # {why}\n" for law, why in self.undecided] if undecided else []
        lines += [
            f"{f.applications:,} applications, {f.values:,} values, {f.pairs:,} equal pairs, {f.laws:,} laws",
            f"{f.candidates:,} candidates: {f.proved:,} proved, {f.refuted:,} refuted, {f.unknown:,} undecided, "
            f"{f.derivable:,} follow from simpler ones",
            f"{self.output or 'not written'}: {len(self.rules):,} rules, all proved for all sizes; "
            f"{f.minimised:,} more follow from them ({self.seconds:.0f} s)",
        ]
        return "\n".join(lines)
