"""Do two models compute the same: the whole of `superopt check`."""

from __future__ import annotations

import math
import time
from dataclasses import replace

from taso_py.backend.protocol import ModelRef
from taso_py.check.check import check_models
from taso_py.check.facts import interface_difference, read_facts
from taso_py.check.report import CheckReport, refused
from taso_py.check.tolerance import Closeness
from taso_py.files import load_arrays
from taso_py.options import CheckOptions
from taso_py.options.spelling import spelled
from taso_py.options.text import demand
from taso_py.providers.choosing import worker_config
from taso_py.report.comparison import beyond_budget
from taso_py.run.budget import data_of, kept, notes_of, require_usable
from taso_py.run.subject import Model, reference, require_runnable


def check(first: Model, second: Model, options: CheckOptions) -> CheckReport:
    """The second model against the first, on generated or given inputs."""
    require_runnable(first, second)
    if options.error_budget is not None:
        return _within_budget(reference(first), reference(second), options)
    return check_models(
        reference(first),
        reference(second),
        worker_config(options),
        workloads=(options.shapes,) if options.shapes else (),
        overrides=load_arrays(options.inputs),
        seed=options.seed,
        closeness=Closeness.of(options.rtol, options.atol),
    )


def _within_budget(first: ModelRef, second: ModelRef, options: CheckOptions) -> CheckReport:
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
    require_usable(first, data, options)
    found = kept(first, second, data, options)
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
