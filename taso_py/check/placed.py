"""Does a provider compute what the original computes: the original against itself, as it would be deployed there."""

from __future__ import annotations

from taso_py.backend.client import Worker
from taso_py.check.check import Checker
from taso_py.check.compare import compare_outputs
from taso_py.check.tolerance import Limit, deployed_tolerance


def difference_at(checker: Checker, worker: Worker, *, timeout: float) -> str | None:
    """The first output of the original that is beyond its tolerance in this worker, in words; None where none is.

    NaN and infinities in other places than the oracle's are beyond any.  Raises ModelError or WorkerError where the
    provider cannot run the original; ``timeout`` is in seconds, for each request.
    """
    prepared, config = checker.prepare(), worker.config
    handle = worker.open(checker.original, timeout=timeout)
    try:
        for case in prepared.cases:
            outputs = worker.run(handle, case.feeds, timeout=timeout)
            for one in compare_outputs(case.expected, outputs, checker.closeness):
                narrowest = checker.facts.narrowest
                allowed = deployed_tolerance(one.dtype, config.ep, config.ep_options, narrowest=narrowest)
                limit = Limit(allowed.allow(prepared.own_error(one.output)), checker.closeness)
                random = one.output in prepared.unstable and not one.malformed
                if not random and limit.exceeded(one.relative, one.excess):
                    return f"{one.describe()}, allowed {limit} (inputs: {case.label})"
    finally:
        worker.close(handle)
    return None
