"""Which rules of a run may rewrite; those of the user's own files are proved within its time."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from taso_py.cost.cache import proofs_path
from taso_py.errors import RuleError, TooLateError, UsageError
from taso_py.options import Options
from taso_py.options.spelling import respelled, spelled, spelled_on
from taso_py.processes.isolated import NoAnswerError, answer
from taso_py.progress import Progress
from taso_py.prove.sites import SiteProofs, extended
from taso_py.report.advice import PROVE
from taso_py.rules.library import Library, load
from taso_py.rules.lock import admitted
from taso_py.rules.rule import Rule, RuleSet
from taso_py.run.proving import CHILD, Asked, judged


class ProofsTooLateError(TooLateError):
    """The rules of the user's files were not proved in time; `needed_s` is an estimate of what all of them take."""

    def __init__(self, words: str, needed_s: float) -> None:
        super().__init__(words)
        self.needed_s = needed_s


@dataclass(frozen=True, slots=True)
class Usable:
    """The rules that may rewrite, and what is missing among those that were chosen, in words (empty: nothing)."""

    library: Library
    unproved: str = ""


def chosen_rules(options: Options) -> Library:
    """The rules that the options name, whatever is known of them; `UsageError` for one that they also leave out.

    Moves of the library that multiply weights are none of them where the weights may not grow.
    """
    library = load(options.rules, options.only, options.disable)
    if options.rules is not None or options.max_growth is not None:
        return library
    growing = library.growing()
    named = sorted(growing & set(options.only))
    if named:
        needed = spelled("max_growth", metavar="X")
        raise UsageError(f"rule {named[0]} multiplies weights: say how large they may become with {needed}")
    return replace(library, search=library.search.without(growing))


def stated_rules(options: Options) -> Library:
    """The rules that may rewrite once the user's own ones are proved: they all are, or there is no run."""
    library = chosen_rules(options)
    fit = library.usable(options.allow_bounded, options.allow_overflow)
    return replace(fit, search=library.search) if options.rules else fit


def usable_rules(library: Library, options: Options, progress: Progress, until: float) -> Usable:
    """The rules that may rewrite; those of the user's own files are proved now.

    `RuleError` for one of these that may not, `ProofsTooLateError` where that is not known ``until`` then
    (time.monotonic()).
    """
    if options.rules:
        library = replace(library, search=_proved(library.search, options, progress, until))
    unproved = _unproved(library)
    if unproved:
        progress.log("warning", f"{unproved}: {PROVE} {spelled_on('update')}")
    sites = SiteProofs(proofs_path(options.cache))
    fit = library.usable(options.allow_bounded, options.allow_overflow)
    return Usable(fit.map(lambda rules: extended(rules, sites)), unproved)


def _proved(rules: RuleSet, options: Options, progress: Progress, until: float) -> RuleSet:
    """The rules with their status, each judged as `taso_py.prove.verify.proved` does, and the first refusal raised."""
    progress.phase(f"prove {len(rules)} rules of files", len(rules))
    begin, found, refused = time.monotonic(), list[Rule](), list[str]()
    for done, rule in enumerate(rules):
        try:
            found.append(_judged(rule, options, until))
        except RuleError as error:
            refused.append(str(error))
        except TooLateError:
            words = f"the rules of files were not proved in time ({done} of {len(rules)} were; next {rule.name})"
            spent = time.monotonic() - begin
            raise ProofsTooLateError(words, spent * len(rules) / (done + 1)) from None
        progress.update(done=done + 1)
    if refused:
        more = f"; {len(refused) - 1} more may not rewrite" if len(refused) > 1 else ""
        raise RuleError(respelled(refused[0]) + more)
    return RuleSet(tuple(found))


def _judged(rule: Rule, options: Options, until: float) -> Rule:
    """The rule with its status; `TooLateError` where the time ends first."""
    if admitted(rule.status, options.allow_bounded) and (options.allow_overflow or not rule.overflow):
        return rule
    left = until - time.monotonic()
    if left <= 0:
        raise TooLateError(rule.name)
    asked = Asked(rule, options.allow_bounded, options.allow_overflow)
    try:
        return judged(rule, answer(CHILD, given=asked.written(), seconds=left))
    except NoAnswerError as error:
        if time.monotonic() >= until:
            raise TooLateError(rule.name) from None
        raise RuleError(f"{rule.file}:{rule.line}:1: rule {rule.name} is not proved: {error}") from None


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
