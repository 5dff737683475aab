"""Whole models of states, open in the worker for as long as they may be timed again."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self

from taso_py.backend.protocol import ModelRef
from taso_py.errors import ContractError, ModelError, SuperoptError
from taso_py.run.candidates import Workshop, discard
from taso_py.run.run import Run
from taso_py.search.state import State

_OPEN, _OPEN_IF_LARGE = 4, 2
"""Sessions alive at a time."""


class _Opened(NamedTuple):
    handle: int
    made: ModelRef | None
    """The candidate, to be discarded with the session; None for the original."""
    state: State | None
    """Kept alive: sessions are found by its identity."""


class OpenModels:
    """Sessions of states' models and of the original; those that were not used for longest are closed.

    A context manager.  Raises ModelError or WorkerError where a model cannot be opened.
    """

    def __init__(self, job: Run, workshop: Workshop) -> None:
        self.job, self.workshop = job, workshop
        self._most = _OPEN_IF_LARGE if job.setting.large else _OPEN
        self._opened: OrderedDict[int, _Opened] = OrderedDict()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._opened:
            with suppress(SuperoptError):
                self._close_oldest()

    def allows(self, state: State) -> bool:
        """Whether no rule of the state turned out wrong."""
        return not any(step.rule in self.workshop.barred for step in state.trace)

    def handle(self, state: State | None) -> int:
        """The session of a state's model, or of the original (None)."""
        key = id(state)
        if key not in self._opened:
            while len(self._opened) >= self._most:
                self._close_oldest()
            self._opened[key] = self._open(state)
        self._opened.move_to_end(key)
        return self._opened[key].handle

    def _open(self, state: State | None) -> _Opened:
        worker = self.job.worker
        if state is None:
            return _Opened(worker.open(self.job.setting.reference), None, None)
        try:
            built = self.workshop.build(state.table)
        except ContractError as error:
            self.workshop.disown(state, error)
            raise ModelError(str(error)) from error
        made = self.workshop.reference(built)
        try:
            return _Opened(worker.open(made), made, state)
        except BaseException:
            discard(made)
            raise

    def _close_oldest(self) -> None:
        _, (handle, made, _) = self._opened.popitem(last=False)
        if made is not None:
            discard(made)
        self.job.worker.close(handle)
