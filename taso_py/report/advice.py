"""What to do next: one line for each way in which an optimisation can end."""

from __future__ import annotations

import shlex
from pathlib import Path

from taso_py.approximate.record import Approximation
from taso_py.gate import NOISY_WIDTH
from taso_py.options.spelling import spelled, spelled_on
from taso_py.providers.record import Placement
from taso_py.report.approximation import NEW_SAMPLES, budget_flags
from taso_py.report.content import profile_sentence
from taso_py.report.deployment import session_call
from taso_py.result import Result
from taso_py.search.state import StopReason

_QUIET = "repeat it on a quieter machine"
PROVE = "superopt verify"
"""What proves the rules of the library that nothing is on record of."""


def reason_words(result: Result) -> str | None:
    """Why the model stayed as it was, without what `next_step` says of it."""
    if result.reason is None:
        return None
    known = [f": raise {spelled('time_budget_s')}", f", or raise {spelled('time_budget_s')}"]
    known += [] if result.profile is None else [f"; {profile_sentence(result.profile)}"]
    words = result.reason.words
    for told in known:
        words = words.removesuffix(told)
    return words


def next_step(result: Result, certificate: Path | None = None) -> str:
    """The one thing to do; ``certificate`` is the file that was written for the result, if one was."""
    if result.approximation is not None and result.approximation.applied:
        return _after_approximation(result, result.approximation)
    return _after_exact(result, certificate)


def _after_exact(result: Result, certificate: Path | None) -> str:
    if result.unproved and not _reproductions(result):
        return f"{PROVE} {spelled_on('update')}: {result.unproved}"
    if result.reason is not None or result.improved is False:
        return _after_nothing(result)
    if not result.rules:
        return _nothing_to_do(result)
    if result.output is None:
        return "write it: so far it is in no file"
    if result.improved is None:
        return f"{_command('bench', result)}: nothing was timed"
    if _is_noisy(result):
        return f"{_QUIET}: the interval is wide"
    if certificate is not None:
        return _command("certify", result, certificate)
    if result.stop_reason == StopReason.INTERRUPTED.value:
        return "let it run to its end, if more is wanted"
    if result.stop_reason == StopReason.TIME.value:
        return f"{_more_time(result)}: the search had not come to its end"
    timed = f"{_command('bench', result)}, where the model will run: the speed-up holds for this machine"
    return _session_of(result) or timed


def _after_approximation(result: Result, told: Approximation) -> str:
    if told.random_data:
        return f"give samples of real inputs with {spelled('calibration')}: the budget was kept on random data alone"
    if result.output is None:
        return "write it: so far it is in no file"
    return (
        _session_of(result)
        or f"{_command('check', result)}{budget_flags(told)}, where {NEW_SAMPLES} has further samples"
    )


def _session_of(result: Result) -> str:
    """How a model is run whose session is not the default one; empty where it is."""
    ran = result.ran
    if ran is None or (isinstance(ran, Placement) and not ran.moved) or result.output is None:
        return ""
    where = "" if ran.python is None else f", under {ran.python}"
    return f"run it by {session_call(ran, str(result.output))}{where}"


def _after_nothing(result: Result) -> str:
    code = "" if result.reason is None else result.reason.code
    reproductions = _reproductions(result)
    if reproductions:
        return f"report the rule that changed values, with {reproductions[0]}"
    if code == "too noisy":
        return _QUIET
    if StopReason.INTERRUPTED.value in (code, result.stop_reason):
        return "let it run to its end"
    if code == "too little time":
        return _more_time(result)
    if code not in ("unsupported", "nothing matched") and result.stop_reason == StopReason.TIME.value:
        return f"{_more_time(result)}: the search had not come to its end"
    return _nothing_to_do(result)


def _reproductions(result: Result) -> list[Path]:
    return [one.reproduction for one in result.rejected if one.reproduction is not None]


def _nothing_to_do(result: Result) -> str:
    if placed := _session_of(result):
        return placed
    return f"nothing to do{'' if result.profile is None else f'; {profile_sentence(result.profile)}'}"


def _more_time(result: Result) -> str:
    budget = result.suggested_budget_s
    if budget is None:
        return f"raise {spelled('time_budget_s')}"
    return f"raise {spelled('time_budget_s')} to {budget:g}"


def _command(name: str, result: Result, *further: Path) -> str:
    files = [result.input or "MODEL", result.output or "OUT", *further]
    return " ".join(["superopt", name, *(shlex.quote(str(file)) for file in files)])


def _is_noisy(result: Result) -> bool:
    middle, low, high = result.speedup, result.speedup_low, result.speedup_high
    return bool(middle) and low is not None and high is not None and (high - low) / (middle or 1) > NOISY_WIDTH
