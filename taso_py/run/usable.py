"""Which rules of a run may rewrite."""

from __future__ import annotations

from dataclasses import dataclass, replace

from taso_py.cost.cache import proofs_path
from taso_py.errors import SuperoptError
from taso_py.options import Options
from taso_py.options.spelling import respelled, spelled_on
from taso_py.progress import Progress
from taso_py.prove.sites import SiteProofs, extended
from taso_py.report.advice import PROVE
from taso_py.rules.library import Library, load
from taso_py.rules.lock import admitted


@dataclass(frozen=True, slots=True)
class Usable:
    """The rules that may rewrite, and what is missing among those that were chosen, in words (empty: nothing)."""

    library: Library
    unproved: str = ""


def usable_rules(options: Options, progress: Progress) -> Usable:
    """The rules that may rewrite; those of the user's own files are proved now."""
    library = load(options.rules, options.only, options.disable)
    if options.rules:
        progress.phase(f"prove {len(library.search)} rules of files")
        from taso_py.prove.verify import proved

        bounded, overflow = options.allow_bounded, options.allow_overflow
        try:
            found = proved(library.search, allow_bounded=bounded, allow_overflow=overflow)
        except SuperoptError as error:
            raise type(error)(respelled(str(error))) from None
        library = replace(library, search=found)
    unproved = _unproved(library)
    if unproved:
        progress.log("warning", f"{unproved}: {PROVE} {spelled_on('update')}")
    sites = SiteProofs(proofs_path())
    fit = library.usable(options.allow_bounded, options.allow_overflow)
    return Usable(fit.map(lambda rules: extended(rules, sites)), unproved)


def _unproved(library: Library) -> str:
    """How many rules nothing is proved of for the sources as they are; one that holds up to some size has a proof."""
    rules = library.all()
    count = sum(not admitted(rule.status, allow_bounded=True) for rule in rules)
    if not count:
        return ""
    if count == 1 == len(rules):
        return "the only rule has no proof for these sources and is not used"
    verbs = ("has", "is") if count == 1 else ("have", "are")
    return f"{count} of {len(rules)} rules {verbs[0]} no proof for these sources and {verbs[1]} not used"
