"""Count where the library's rules match on networks, and where `--apply all` applies them; compare two counts.

    python -m scripts.audit.sites count a.onnx b.onnx --out after.json
    PYTHONPATH=OLDER python -m scripts.audit.sites count a.onnx b.onnx --out before.json
    python -m scripts.audit.sites compare before.json after.json

Every directed rule of the library is tried at every value of the graph as it is, seen through its composite operators.
For each rule: the sites and the matches (sites with their free choices) there, the sites at which `superopt optimize
--apply all` applies it, and the matches that only lack a proof, with the reason that a proof at the site gives.  The
package that PYTHONPATH names is the one that is counted with; code from before proofs at sites has no such matches.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from taso_py.cost.roofline import Roofline
from taso_py.onnx_io.load import Loaded
from taso_py.onnx_io.load import load as load_model
from taso_py.rules.library import Library
from taso_py.rules.library import load as load_rules
from taso_py.rules.rule import Rule
from taso_py.search.canonical import Canonicalizer
from taso_py.search.exhaustive import Exhaustive
from taso_py.search.matcher import Match
from taso_py.search.moves import Rewriter
from taso_py.search.view import View

_SITES = "taso_py.prove.sites"
site_proofs: Any = importlib.import_module(_SITES) if importlib.util.find_spec(_SITES) else None
"""Proofs at sites; None for code from before them."""


@dataclass(slots=True, eq=False)
class Asked:
    """One typing of a rule that no proof on record covers: how often was asked for it, and what a proof there says.

    A matcher that remembers asks once for alike matches.
    """

    rule: Rule
    typing: Any
    binding: Any
    matches: int = 0
    seconds: float = 0.0
    proved: bool = False

    def why(self) -> str:
        """Why there is no proof; empty where there is one."""
        return "" if self.proved else unproved(self.rule, self.typing, self.binding)


@dataclass(slots=True, eq=False)
class Recorder:
    """Proves rules at sites and remembers what it was asked, by rule, law and signature."""

    prover: Any
    asked: dict[tuple[str, str, str], Asked] = field(default_factory=dict)

    def __call__(self, rule: Rule, typing: Any, binding: Any) -> bool:
        """Whether the rule is proved for a typing."""
        entry = self.asked.setdefault((rule.name, rule.id, typing.signature()), Asked(rule, typing, binding))
        began = time.process_time()
        entry.proved = self.prover(rule, typing, binding)
        entry.seconds += time.process_time() - began
        entry.matches += 1
        return entry.proved

    @property
    def seconds(self) -> float:
        """CPU time of all proofs, s."""
        return sum(a.seconds for a in self.asked.values())


def unproved(rule: Rule, typing: Any, binding: Any) -> str:
    """The prover's reason for not proving a rule at a site."""
    from taso_py.prove.prover import prove_at
    from taso_py.prove.verdict import Unknown
    from taso_py.rules.alpha import normal_law

    site = site_proofs.site_of(rule, typing, binding)
    if site is None:
        return "numbers of several element types"
    verdict = prove_at(normal_law(rule), site, site_proofs.STEPS)
    if isinstance(verdict, Unknown):
        return verdict.why
    return f"proved, but for other typings: {'; '.join(verdict.patterns[:3])}"


def usable_library() -> Library:
    """The rules that may rewrite."""
    return load_rules().usable(False)


def with_prover(library: Library, prover: Recorder) -> Library:
    """The library whose proved rules may be proved again where they match."""
    return library if site_proofs is None else library.map(lambda rules: site_proofs.extended(rules, prover))


def matches_in(loaded: Loaded, library: Library) -> list[Match]:
    """Every match of every directed rule on the graph as it is."""
    canonical = Canonicalizer.of(library.canonical, library.cleanup)
    view = View.of(loaded.table, canonical.expand, loaded.folder.value)
    found = Rewriter.of(library.all(), canonical).all_matches(view)
    return [match for matches in found.values() for match in matches]


def applied_in(loaded: Loaded, library: Library) -> dict[str, int]:
    """For each rule the sites at which it is applied when every search rule has its turn; tidying counts as well."""
    canonical = Canonicalizer.of(library.canonical, library.cleanup)
    view = View.of(loaded.table, canonical.expand, loaded.folder.value)
    search = Exhaustive(Rewriter.of(library.search, canonical), Roofline({}))
    found = search.run(view, 0.0, lambda: False, lambda built, cost: None)
    steps = [step for state in found.states for step in state.trace]
    number = Counter(site.rule for step in steps for site in (*step.sites, *step.tidied))
    return dict(sorted(number.items()))


def counted(matches: Iterable[Match]) -> dict[str, dict[str, int]]:
    """For each rule its sites (tuples of outputs) and matches."""
    number: Counter[str] = Counter()
    sites: dict[str, set[tuple[int, ...]]] = {}
    for match in matches:
        number[match.rule.name] += 1
        sites.setdefault(match.rule.name, set()).add(match.outputs)
    return {name: {"sites": len(sites[name]), "matches": number[name]} for name in sorted(number)}


def survey(path: Path, library: Library) -> dict[str, Any]:
    """What is counted of one model: with proofs at sites made anew, then remembered."""
    loaded = load_model(path)
    found: dict[str, Any] = {"nodes": len(loaded.table.nodes)}
    with tempfile.TemporaryDirectory() as folder:
        for turn in ("cold", "warm"):
            prover = Recorder(None if site_proofs is None else site_proofs.SiteProofs(Path(folder) / "sites.db"))
            began = time.process_time()
            matches = matches_in(loaded, with_prover(library, prover))
            found[f"{turn}_s"] = round(time.process_time() - began, 3)
            found[f"{turn}_proofs_s"] = round(prover.seconds, 3)
            if turn == "cold":
                found["rules"] = counted(matches)
                found["applied"] = applied_in(loaded, with_prover(library, prover))
                found["asked"] = [_told(name, signature, a) for (name, _, signature), a in sorted(prover.asked.items())]
    return found


def _told(name: str, signature: str, asked: Asked) -> dict[str, Any]:
    return {
        "rule": name,
        "signature": signature,
        "matches": asked.matches,
        "seconds": round(asked.seconds, 3),
        "proved": asked.proved,
        "why": asked.why(),
    }


# ---- comparing -------------------------------------------------------------------------------------------------------

WHAT = ("sites", "matches", "applied")
SECONDS = ("cold_s", "warm_s", "cold_proofs_s", "warm_proofs_s")


def numbers(model: Mapping[str, Any], what: str) -> Counter[str]:
    """Sites, matches or applied sites of one model by rule."""
    if what == "applied":
        return Counter(model["applied"])
    return Counter({name: rule[what] for name, rule in model["rules"].items()})


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The rules whose counts differ on some model that both have, and why proofs at sites failed.

    Lost and gained are summed over the models, so that a gain on one hides no loss on another.
    """
    common = sorted(before.keys() & after.keys())
    asked = [a for name in common for a in after[name]["asked"]]
    rules: dict[str, dict[str, Any]] = {}
    totals = {}
    for what in WHAT:
        pairs = [(numbers(before[name], what), numbers(after[name], what)) for name in common]
        lost, gained = Counter[str](), Counter[str]()
        for old, new in pairs:
            lost.update(old - new)
            gained.update(new - old)
        for name in lost.keys() | gained.keys():
            counts = [sum(old[name] for old, _ in pairs), sum(new[name] for _, new in pairs)]
            entry = {"counts": counts, "lost": lost[name], "gained": gained[name]}
            rules.setdefault(name, _refused(name, asked))[what] = entry
        totals[what] = [sum(old.total() for old, _ in pairs), sum(new.total() for _, new in pairs)]
    return {
        "models": len(common),
        "only_in_one": sorted(before.keys() ^ after.keys()),
        **totals,
        "asked": sum(a["matches"] for a in asked),
        "asked_proved": sum(a["matches"] for a in asked if a["proved"]),
        "seconds": {k: [_sum(c, common, k) for c in (before, after)] for k in SECONDS},
        "rules": dict(sorted(rules.items())),
    }


def _refused(name: str, asked: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    reasons: Counter[str] = Counter()
    for a in asked:
        if a["rule"] == name and not a["proved"]:
            reasons[a["why"]] += a["matches"]
    return {"refused": dict(reasons.most_common())}


def _sum(counts: Mapping[str, Any], models: Iterable[str], key: str) -> float:
    return round(sum(float(counts[name][key]) for name in models), 2)


@click.group(help=__doc__)
def main() -> None:
    """The two commands."""


@main.command()
@click.argument("models", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="A file that exists grows.")
def count(models: tuple[Path, ...], out: Path) -> None:
    """Count matches on MODELS; the file is written after each, so that an interrupted count goes on."""
    found: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    library = usable_library()
    for path in models:
        if path.stem not in found:
            found[path.stem] = survey(path, library)
            out.write_text(json.dumps(found, indent=1))
        sites = sum(rule["sites"] for rule in found[path.stem]["rules"].values())
        click.echo(f"{path.stem}: {sites} sites, {found[path.stem]['cold_s']} s")


@main.command()
@click.argument("before", type=click.Path(exists=True, path_type=Path))
@click.argument("after", type=click.Path(exists=True, path_type=Path))
def compare(before: Path, after: Path) -> None:
    """Print the rules that differ between two counts, and why."""
    click.echo(json.dumps(differences(json.loads(before.read_text()), json.loads(after.read_text())), indent=1))


if __name__ == "__main__":
    main()
