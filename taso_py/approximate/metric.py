"""The user's own measure of error: a Python function, called in a process of its own."""

from __future__ import annotations

import math
import pickle
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taso_py.backend.protocol import Outputs
from taso_py.errors import SuperoptError, TooLateError, UsageError
from taso_py.options.spelling import spelled
from taso_py.paths import why_no_file
from taso_py.processes.isolated import NoAnswerError, answer

MODULE = "taso_py.approximate.metric_process"
CALL_S = 60.0
"""What one call may take, the import of the file included."""
_MOMENT_S = 0.1
"""What it may take in any case."""


class MetricError(SuperoptError):
    """The metric gave no number."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A function of (expected, found), both name -> array, whose number is the error of one sample; 0 is none."""

    file: Path
    function: str

    @staticmethod
    def of(text: str) -> Metric:
        """``file.py:function``; UsageError where there is no such file."""
        name, _, function = text.rpartition(":")
        file = Path(name)
        if (why := why_no_file(file)) is not None:
            raise UsageError(f"{spelled('metric', text)}: {file}: {why}")
        return Metric(file.absolute(), function)

    def error(self, expected: Outputs, found: Outputs, *, until: float = math.inf) -> float:
        """What it says of one sample, at least 0; inf where that is not finite. MetricError where it is no number.

        TooLateError where it has said nothing ``until`` then (time.monotonic()).
        """
        given = pickle.dumps((_plain(expected), _plain(found)), protocol=5)
        seconds = min(CALL_S, max(_MOMENT_S, until - time.monotonic()))
        try:
            said = answer(MODULE, str(self.file), self.function, given=given, seconds=seconds)
        except NoAnswerError as error:
            if time.monotonic() >= until:
                raise TooLateError("no time is left for a call of the metric") from None
            raise MetricError(f"{spelled('metric', f'{self.file}:{self.function}')}: {error}") from None
        number = float(said)
        return max(0.0, number) if math.isfinite(number) else math.inf


def _plain(outputs: Outputs) -> dict[str, Any]:
    return dict(outputs)
