"""Why there is no approximation: what the second stage says, and what it meets."""

from __future__ import annotations

from taso_py.approximate.metric import MetricError
from taso_py.approximate.record import ApproximationReason, ReasonCode
from taso_py.errors import SuperoptError, TooLateError, WorkerTimeoutError


class DroppedError(Exception):
    """There is no approximation, and this is why."""

    def __init__(self, code: ReasonCode, words: str) -> None:
        super().__init__(words)
        self.reason = ApproximationReason(code, words)


def fault(error: Exception) -> DroppedError:
    """What stopped an approximation, whatever it is, as the reason why there is none: one line."""
    if isinstance(error, DroppedError):
        return error
    words = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, MetricError):
        return DroppedError("metric failed", words)
    if isinstance(error, TooLateError | WorkerTimeoutError):
        return DroppedError("too little time", words)
    expected = isinstance(error, SuperoptError | OSError)
    return DroppedError("did not run", words if expected else f"{type(error).__name__}: {words}")
