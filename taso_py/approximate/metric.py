"""The user's own measure of error: a Python function, called in a process of its own."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taso_py.backend.protocol import Outputs
from taso_py.errors import SuperoptError, UsageError
from taso_py.options.spelling import spelled
from taso_py.processes.isolated import NoAnswerError, answer

MODULE = "taso_py.approximate.metric_process"
CALL_S = 60.0
"""What one call may take, the import of the file included."""


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
        if not file.is_file():
            raise UsageError(f"{spelled('metric', text)}: there is no file {file}")
        return Metric(file.absolute(), function)

    def error(self, expected: Outputs, found: Outputs) -> float:
        """What it says of one sample, never less than 0; inf where that is NaN. MetricError where it is no number."""
        given = pickle.dumps((_plain(expected), _plain(found)), protocol=5)
        try:
            said = answer(MODULE, str(self.file), self.function, given=given, seconds=CALL_S)
        except NoAnswerError as error:
            raise MetricError(f"{spelled('metric', f'{self.file}:{self.function}')}: {error}") from None
        number = float(said)
        return math.inf if math.isnan(number) else max(0.0, number)


def _plain(outputs: Outputs) -> dict[str, Any]:
    return dict(outputs)
