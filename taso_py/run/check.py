"""Do two models compute the same: the whole of `superopt check`."""

from __future__ import annotations

import math
import time
from dataclasses import replace

from taso_py.backend.protocol import ModelRef
from taso_py.check.facts import interface_difference, read_facts
from taso_py.check.models import check_models
from taso_py.check.oracle import OracleLimits
from taso_py.check.report import CheckReport, refused
from taso_py.check.tolerance import Closeness
from taso_py.errors import ModelError, TooLateError, WorkerTimeoutError
from taso_py.files import load_arrays
from taso_py.options import CheckOptions
from taso_py.options.spelling import spelled
from taso_py.options.text import demand
from taso_py.providers.choosing import worker_config
from taso_py.report.comparison import beyond_budget
from taso_py.run.budget import data_of, kept, notes_of, require_usable
from taso_py.run.subject import Model, reference, require_runnable

_LAST_SHARE = 0.1
"""Part of the budget in which nothing new is begun, so that what is running ends within it."""


def check(first: Model, second: Model, options: CheckOptions) -> CheckReport:
    """The second model against the first, on generated or given inputs, within the time budget."""
    begin = time.monotonic()
    until = begin + options.time_budget_s
    require_runnable(first, second)
    try:
        if options.error_budget is not None:
            found = _within_budget(reference(first), reference(second), options, until)
        else:
            found = check_models(
                reference(first),
                reference(second),
                worker_config(options),
                workloads=(options.shapes,) if options.shapes else (),
                overrides=load_arrays(options.inputs),
                seed=options.seed,
                limits=OracleLimits(deadline=until - _LAST_SHARE * options.time_budget_s, until=until),
                closeness=Closeness.of(options.rtol, options.atol),
            )
    except (ModelError, TooLateError, WorkerTimeoutError):
        if time.monotonic() < until:
            raise
        words = f"no verdict: the time budget ended before the models were compared; {_more()}"
        return replace(refused(words), stop_reason="time budget", elapsed_s=time.monotonic() - begin)
    if not found.passed or found.stop_reason == "completed":
        return found
    words = f"no verdict: the models agree on {len(found.cases)} sets of inputs, and the time budget ended before the"
    return replace(found, passed=False, reason=f"{words} others; {_more()}")


def _more() -> str:
    return f"raise {spelled('time_budget_s')}"


def _within_budget(first: ModelRef, second: ModelRef, options: CheckOptions, until: float) -> CheckReport:
    """Whether the second model keeps the budget, which takes the place of every other comparison."""
    begin = time.monotonic()
    demand(
        options.rtol is None and options.atol is None,
        f"{spelled('error_budget')} takes the place of {spelled('rtol')} and {spelled('atol')}: drop it or them",
    )
    unlike = interface_difference(read_facts(first), read_facts(second))
    if unlike is not None:
        return refused(f"the models cannot be compared: {unlike}")
    data = data_of(first, options)
    require_usable(first, data, options, until=until)
    found = kept(first, second, data, options, until=until)
    return replace(
        refused(""),
        passed=found.kept,
        reason=None if found.kept else beyond_budget(second.name, found),
        max_rel_error=math.nan,
        max_abs_error=math.nan,
        tolerance=None,
        warnings=notes_of(data),
        elapsed_s=time.monotonic() - begin,
        budget=found,
    )
