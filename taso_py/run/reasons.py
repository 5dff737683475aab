"""Why a model stays as it was: a code, and words with the figures."""

from __future__ import annotations

from collections.abc import Sequence

from taso_py.backend.race import NO_TIME, RaceResult
from taso_py.backend.timing import FEW_ROUNDS, MIN_CONFIRM_ROUNDS, Confirmation, Unconfirmed
from taso_py.options.spelling import spelled
from taso_py.report.content import profile_sentence
from taso_py.result import ReasonCode, Rejection
from taso_py.run.run import Run
from taso_py.search.state import Found, StopReason


def no_candidate(job: Run, found: Found, rejected: Sequence[Rejection]) -> tuple[ReasonCode, str]:
    """There is nothing to race."""
    if rejected:
        return (
            "all rejected",
            f"every rewrite that promised a gain was rejected; first {rejected[0].name}: {rejected[0].reason}",
        )
    if found.reason is StopReason.INTERRUPTED:
        return "interrupted", "interrupted before a rewrite was found"
    if job.setting.loaded.folder.refused:
        words = f"{job.setting.loaded.folder.refused} could not be computed in time"
        return "too little time", f"{words}: raise {spelled('time_budget_s')}"
    if found.states and job.clock.left() <= 0:
        return "too little time", f"no time was left to check a rewrite: raise {spelled('time_budget_s')}"
    if found.explored:
        least = spelled("min_gain", f"{job.options.min_gain:g}")
        words = f"none of {found.explored:,} rewrites was priced faster than the original"
        words += f" by half of what {least} asks for" if found.states else ""
        return "nothing faster", words + _kept(found) + bound(job)
    if found.reason is StopReason.TIME:
        done = "no rewrite was priced" if job.options.race else "the search without timing did not end"
        return "too little time", f"{done} in {job.clock.elapsed():.0f} s: raise {spelled('time_budget_s')}"
    if not job.library.search:
        return "nothing matched", "there is no rule to search with: none was chosen that is proved for this version"
    return "nothing matched", "no rule matches anywhere" + _kept(found)


def _kept(found: Found) -> str:
    """What was left alone for the sake of whole numbers, as a clause; nothing where nothing was."""
    if not found.kept:
        return ""
    return f"; values left as they are, since they are rounded to whole numbers further on: {found.kept}"


def bound(job: Run) -> str:
    """What could be gained at most, as a clause; nothing where that is not known."""
    return "" if job.profile is None else f"; {profile_sentence(job.profile)}"


def lost(job: Run, standings: RaceResult) -> tuple[ReasonCode, str]:
    """No candidate won the race."""
    timed = [s.speedup for s in standings.standings[1:] if s.speedup is not None]
    failure = standings.standings[1].failure
    if not timed and failure == NO_TIME:
        return "too little time", f"no time was left for the race: raise {spelled('time_budget_s')}"
    if not timed:
        return "race ended early", f"no candidate ran in the race ({failure})"
    best = f"the best of {len(timed)} candidates ran at {max(timed):.3f} times the original's speed"
    return "lost the race", f"{best}, which is no gain that can be told from chance{bound(job)}"


def not_confirmed(job: Run, confirmation: Confirmation | Unconfirmed) -> tuple[ReasonCode, str]:
    """A fresh measurement does not say that the winner is faster."""
    rounds = 0 if isinstance(confirmation, Unconfirmed) else confirmation.rounds
    if rounds < MIN_CONFIRM_ROUNDS and confirmation.delayed:
        words = f"other processes had the CPUs in {confirmation.delayed} of {rounds + confirmation.delayed} rounds"
        return (
            "too noisy",
            f"{words} of the confirmation: run on a quieter machine, or raise {spelled('time_budget_s')}",
        )
    if isinstance(confirmation, Unconfirmed):
        return "too little time", f"no time was left to confirm the winner: raise {spelled('time_budget_s')}"
    interval = f"{confirmation.speedup:.3f} [{confirmation.low:.3f}, {confirmation.high:.3f}]"
    if confirmation.rounds < MIN_CONFIRM_ROUNDS:
        words = f"{confirmation.rounds} of the {FEW_ROUNDS} to {MIN_CONFIRM_ROUNDS} rounds of a confirmation"
        return "too little time", f"time sufficed for {words}: raise {spelled('time_budget_s')}"
    if confirmation.low <= 1 < confirmation.high and confirmation.speedup >= 1 + job.options.min_gain:
        return "too noisy", f"a fresh measurement gave {interval}, too wide to say: run on a quieter machine"
    if confirmation.low > 1 and min(speeds := confirmation.by_speed(), default=1.0) < 1:
        words = ", ".join(f"{speed:.3f}" for speed in speeds)
        return "not confirmed", f"a fresh measurement gave {interval}, but not at every speed of this machine: {words}"
    if confirmation.low > 1 and confirmation.speedup < 1 + job.options.min_gain:
        asked = spelled("min_gain", f"{job.options.min_gain:g}")
        return "not confirmed", f"a fresh measurement gave {interval}, less than {asked} asks for{bound(job)}"
    return "not confirmed", f"a fresh measurement gave {interval}{bound(job)}"
