"""The whole exception tree: every error a caller can meet, with its exit code.

A message is one line and names the thing, the value, and what to do.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


LONGEST_MESSAGE = 1500
"""Characters: of a longer message the middle is left out, as its end says what to do."""


class SuperoptError(Exception):
    """Base of every error raised on purpose.

    ``exit_code`` is what the command line returns, ``code`` the same as a word, which ``--json`` has.
    """

    exit_code = 70
    code = "internal"

    def __init__(self, message: str = "") -> None:
        # What it quotes from a file may have any number of lines, and be of any length.
        super().__init__(_one_line(str(message)))


class MismatchError(SuperoptError):
    """Two models that should compute the same function do not."""

    exit_code = 1
    code = "mismatch"


class UnprovedError(SuperoptError):
    """A rule that should be proved is not, or a law that should be refuted is not."""

    exit_code = 1
    code = "unproved"


class DisagreementError(SuperoptError):
    """A proof and an instance contradict each other: a bug of ours; the rule is refused."""

    code = "disagreement"


class CertificateError(SuperoptError):
    """A certificate does not lead from the original to the optimised model."""

    exit_code = 1
    code = "certificate"


class DecisionsError(SuperoptError):
    """Decisions do not hold for a model, or use a rule that may not rewrite."""

    exit_code = 1
    code = "decisions"


class ConformanceError(SuperoptError):
    """An execution provider does not keep what superopt relies on."""

    exit_code = 1
    code = "conformance"


class UsageError(SuperoptError):
    """An option, argument or input file of the user's contradicts itself or the model."""

    exit_code = 2
    code = "usage"


class NotLosslessError(UsageError):
    """The execution provider, with the options it is given, does not compute in float32."""

    code = "not lossless"


class RuleError(UsageError):
    """A rule file cannot be read; the message starts with ``file:line:column``."""

    code = "rule"


class TooLateError(SuperoptError):
    """Something takes longer than the time that is left for it; it was not begun."""

    code = "too late"


class ModelError(SuperoptError):
    """MODEL is missing, unreadable, not an ONNX model, or ONNX Runtime cannot run it."""

    exit_code = 3
    code = "model"


class UnfedInputError(ModelError):
    """MODEL may run, but nobody can make up what one of its inputs takes."""


class OutputError(SuperoptError):
    """An output file cannot be written."""

    exit_code = 4
    code = "output"


class FileTakenError(OutputError):
    """An output file, `path`, exists already."""

    def __init__(self, message: str, path: Path) -> None:
        super().__init__(message)
        self.path = path


class RuntimeMissingError(SuperoptError):
    """ONNX Runtime, the execution provider asked for, or a package that superopt needs is not installed."""

    exit_code = 5
    code = "runtime missing"

    @classmethod
    def of_import(cls, error: ImportError) -> RuntimeMissingError | None:
        """What an import failed for, if it is another's package that is absent, or does not fit its neighbours."""
        package = (error.name or "").partition(".")[0]
        if not package or package == "taso_py" or package in sys.stdlib_module_names:
            return None
        return cls(
            f"the package {package} cannot be imported here ({error}): run `{sys.executable} -m pip install "
            "'superopt[cpu]'` (or 'superopt[gpu]', 'superopt[openvino]'), which brings what is needed"
        )


class GateError(SuperoptError):
    """The result is written, but misses a condition of the gate."""

    exit_code = 6
    code = "gate missed"


class SpeedupNotReachedError(GateError):
    """The condition that is missed is the speed-up."""


class TooNoisyError(GateError):
    """The result is written and misses nothing, but its speed-up is too uncertain to be judged."""

    exit_code = 7
    code = "too noisy"


class UndecidedError(GateError):
    """The result is written and misses nothing, but a condition of the gate was not measured to the end."""

    exit_code = 8
    code = "not decided"


class TimeBudgetError(SuperoptError):
    """The time budget ended before there was a verdict; it is no error of the models."""

    exit_code = 8
    code = "not decided"


class ApproximateError(SuperoptError):
    """The exact part of a model is certified; the rest is an approximation, of which nothing is proved.

    ``certified`` is what was found of the exact part, ``nodes`` names what computes with fewer bits.
    """

    exit_code = 9
    code = "approximate"

    def __init__(self, message: str = "", certified: object = None, nodes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.certified = certified
        self.nodes = nodes


class ContractError(SuperoptError):
    """A rewritten model that does not keep what its original promises to callers: a fault of this program."""


class TypingError(SuperoptError):
    """An operator cannot be applied to these operands and attributes."""


class RankError(TypingError):
    """An operator is given numbers of axes, or lengths of lists, that it refuses whatever the sizes are."""


class WorkerError(SuperoptError):
    """A worker process died, hung or could not be started: what it was running cannot be run here."""

    exit_code = 3
    code = "model"


class WorkerTimeoutError(WorkerError):
    """A worker process did not answer in time and was stopped."""


def _one_line(message: str) -> str:
    line = " ".join(part.strip() for part in message.splitlines())
    if len(line) <= LONGEST_MESSAGE:
        return line
    return f"{line[: LONGEST_MESSAGE - 300]} [...] {line[-290:]}"
