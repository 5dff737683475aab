"""The parent's side of quantisation: what may go wrong there costs one candidate."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from taso_py.backend.protocol import Feeds
from taso_py.errors import SuperoptError
from taso_py.processes.isolated import NoAnswerError, answer

MODULE = "taso_py.approximate.quantiser"
Calibrator = Literal["MinMax", "Entropy", "Percentile"]
CALIBRATORS: tuple[Calibrator, ...] = get_args(Calibrator)
_LEAST_S = 1.0


class QuantiseError(SuperoptError):
    """onnxruntime.quantization failed, died or took too long; the message says why, as a clause."""


@dataclass(slots=True)
class Quantiser:
    """Makes 8-bit models of one model, a file in ``folder``; each answer is waited for until ``until`` at most.

    ``until`` is a time.monotonic() value; ``reduced``: weights of 7 bits, for CPUs whose 8-bit sums saturate.
    """

    model: Path
    folder: Path
    until: float
    reduced: bool
    made: int = field(default=0, init=False)

    @property
    def prepared(self) -> Path:
        """The model as it is quantised, once `prepare` has made it."""
        return self.folder / "prepared.onnx"

    @property
    def _data(self) -> Path:
        return self.folder / "calibration.pickle"

    def prepare(self, samples: Sequence[Feeds]) -> None:
        """Readies the model, and the samples from which ranges are taken."""
        with self._data.open("wb") as file:
            pickle.dump([dict(feeds) for feeds in samples], file, protocol=5)
        self._ask("prepare", model=str(self.model), prepared=str(self.prepared))

    def static(self, method: Calibrator, layers: Sequence[str] | None = None) -> Path:
        """8-bit with ranges from the samples; of these layers, or wherever the quantiser can."""
        target = self._target()
        names = None if layers is None else list(layers)
        self._ask(
            "static", prepared=str(self.prepared), data=str(self._data), method=method, made=str(target),
            layers=names, reduced=self.reduced,
        )  # fmt: skip
        return target

    def dynamic(self, kinds: Sequence[str]) -> Path:
        """8-bit with ranges that every run finds anew; all layers of these operators."""
        target = self._target()
        prepared, made = str(self.prepared), str(target)
        self._ask("dynamic", prepared=prepared, made=made, kinds=list(kinds), reduced=self.reduced)
        return target

    def _target(self) -> Path:
        self.made += 1
        return self.folder / f"quantised-{self.made}.onnx"

    def _ask(self, work: str, **words: Any) -> None:
        asked = json.dumps({"work": work, **words})
        try:
            answer(MODULE, asked, given=b"", seconds=max(_LEAST_S, self.until - time.monotonic()))
        except NoAnswerError as error:
            raise QuantiseError(f"ONNX Runtime's quantiser: {error}") from None
