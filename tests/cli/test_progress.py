"""Progress: what a terminal of any width, a file and a function are told, and what Ctrl-C then does."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import struct
import sys
import termios
import time
from pathlib import Path

import onnx
import pytest
from rich.console import Console

import taso_py
from scripts.bench.networks import nasrnn
from taso_py.progress import Figures, ProgressReport
from taso_py.report.progress import LiveProgress, PlainProgress
from taso_py.run.run import whole_budget
from tests.cli.test_signals import heeded
from tests.conftest import cli_environment, tiny_network


def test_plain_progress_prints_lines_by_verbosity() -> None:
    for verbosity, shown in (
        (-1, ["bad"]),
        (0, ["note", "bad"]),
        (1, ["search", "note", "bad"]),
        (2, ["search", "5 candidates", "note", "fine", "bad"]),
    ):
        stream = io.StringIO()
        with PlainProgress(stream, verbosity=verbosity, interval_s=1e9) as progress:
            progress.phase("search", 3)
            progress.update(done=1, candidates=5, best=1.5, remaining_s=9.0)
            progress.log("info", "note\nmore")
            progress.log("debug", "fine")
            progress.log("warning", "bad")
        lines = stream.getvalue().splitlines()
        assert len(lines) == len(shown)
        assert all(word in line for word, line in zip(shown, lines, strict=True))


def test_plain_progress_shows_the_figures_and_says_which_are_measured() -> None:
    stream = io.StringIO()
    progress = PlainProgress(stream, interval_s=0)
    progress.phase("search", 3)
    progress.update(done=1, candidates=5, best=1.5, remaining_s=9.4)
    progress.update(measured=1.25)
    progress.update(measured=0.98)
    assert [re.sub(r"\d+ s, \d+ s left", "TIMES", line) for line in stream.getvalue().splitlines()[1:]] == [
        "superopt: search 1/3 · 5 candidates · 1.50 times faster (predicted) · TIMES",
        "superopt: search 1/3 · 5 candidates · 1.25 times faster (measured) · TIMES",
        "superopt: search 1/3 · 5 candidates · nothing faster yet · TIMES",
    ]


ESCAPE = re.compile(r"\x1b\[[\d?;]*[a-zA-Z]")


def bar(width: int, *, measured: float | None, name: str = "search", stopped: bool = False) -> str:
    """The last line of a display in so many columns, 42 of 120 seconds into a run."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=width, color_system=None)
    with LiveProgress(console, stop=[1] if stopped else None) as progress:
        progress._figures.begin = time.monotonic() - 42.5
        progress.phase(name, 12)
        progress.update(done=4, best=2.5, measured=measured, remaining_s=78.5)
    return next(line for line in reversed(ESCAPE.sub("", stream.getvalue()).splitlines()) if line.strip())


@pytest.mark.parametrize(
    ("width", "behind"),
    [
        (140, " · 0:42, 1:18 left · 1.52 times faster (measured) · Ctrl-C: finish with this"),
        (80, " · 0:42, 1:18 left · 1.52x measured · Ctrl-C: finish with this"),
        (60, " · 0:42, 1:18 left · 1.52x · ^C: finish"),
        (40, " 0:42 -1:18 1.52x ^C: finish"),
        (30, " 0:42 -1:18"),
        (8, ""),
    ],
)
def test_one_line_has_what_its_width_allows(width: int, behind: str) -> None:
    shown = bar(width, measured=1.524)
    assert len(shown) < width
    assert shown.endswith(behind)
    assert shown.startswith("search 4/12"[: width - 2])
    assert ("━" in shown) == (width in (60, 140))


def test_without_a_measurement_the_ratio_is_said_to_be_predicted_and_nothing_can_be_finished() -> None:
    assert "2.50 times faster (predicted)" in bar(100, measured=None)
    assert "2.50x predicted" in bar(48, measured=None)
    assert "Ctrl-C" not in bar(140, measured=None) + bar(140, measured=1.0)
    assert "nothing faster yet" in bar(100, measured=1.0)
    assert bar(100, measured=1.5, stopped=True).endswith("finishing, Ctrl-C: quit now")


@pytest.mark.parametrize("width", [1, 2, 3, 12, 40])
def test_a_long_or_wide_name_never_fills_more_than_the_line(width: int) -> None:
    from rich.cells import cell_len

    for name in ("prove 1234567890 rules of files", "検査" * 20, "[bold]x"):
        assert cell_len(bar(width, measured=1.5, name=name)) <= width


def test_log_lines_are_not_read_as_markup() -> None:
    stream = io.StringIO()
    with LiveProgress(Console(file=stream, force_terminal=True, width=120)) as progress:
        progress.log("warning", "[red]careful[/red]")
    assert "[red]careful[/red]" in stream.getvalue()


# ---- a function ------------------------------------------------------------------------------------------------------


def test_a_function_is_told_of_phases_times_and_ratios(tmp_path: Path) -> None:
    told: list[ProgressReport] = []
    network = nasrnn(steps=2, hidden=16)
    taso_py.optimize(network, time_budget_s=20, cache=tmp_path / "cache", progress=told.append)
    phases = list(dict.fromkeys(report.phase for report in told))
    assert phases[:2] == ["load", "search"]
    assert {"check", "race"} <= set(phases)
    assert [one.elapsed_s for one in told] == sorted(one.elapsed_s for one in told)
    left = [one.left_s for one in told if one.left_s is not None]
    assert left
    assert max(left) <= 20
    assert any(one.best_measured is not None for one in told)
    assert all(one.best_measured is None for one in told if one.phase == "load")


def test_what_the_function_raises_ends_the_call() -> None:
    def stop(report: ProgressReport) -> None:
        raise KeyError(report.phase)

    with pytest.raises(KeyError, match="load"):
        taso_py.optimize(tiny_network(), progress=stop)


def test_figures_without_a_budget_leave_the_time_open() -> None:
    figures = Figures()
    assert (figures.report().left_s, figures.report().best_measured) == (None, None)
    figures.update(remaining_s=-3.0)
    assert figures.report().left_s == 0


@pytest.mark.parametrize(("seconds", "budget"), [(0.3, 1), (9.2, 10), (10.1, 11), (123, 130), (240, 240), (1201, 1300)])
def test_a_suggested_budget_is_round_and_no_less(seconds: float, budget: float) -> None:
    assert whole_budget(seconds) == budget


# ---- a terminal ------------------------------------------------------------------------------------------------------


def begun_on_a_terminal(folder: Path, columns: int, out: Path | None, *further: str) -> tuple[int, int]:
    """Process and terminal of a run whose stdout is a file, or the terminal of so many columns as its stderr is."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    command = ["-m", "taso_py", "optimize", "model.onnx", "--time-budget", "60", *further]
    if not (process := os.fork()):  # pragma: no cover - becomes the program
        heeded()
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        os.dup2(slave, 0)
        os.dup2(slave if out is None else os.open(out, os.O_WRONLY | os.O_CREAT), 1)
        os.dup2(slave, 2)
        os.chdir(folder)
        cache = {"SUPEROPT_CACHE": str(folder / "cache.sqlite"), "TERM": "xterm"}
        environment = {k: v for k, v in cli_environment(cache).items() if k not in ("COLUMNS", "LINES")}
        os.execve(sys.executable, [sys.executable, *command], environment)
    os.close(slave)
    return process, master


def on_a_terminal(folder: Path, columns: int, interrupt_at: bytes | None = None) -> tuple[int, bytes, bytes]:
    """Exit code, stdout and what a terminal of so many columns got, of a run whose stderr alone is the terminal."""
    out = folder / "stdout"
    process, master = begun_on_a_terminal(folder, columns, out, "--json")
    seen = b""
    while piece := read(master):
        seen += piece
        if interrupt_at is not None and interrupt_at in seen:
            os.write(master, b"\x03")
            interrupt_at = None
    os.close(master)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), out.read_bytes(), seen


@pytest.mark.parametrize("stdout_too", [False, True])
def test_a_terminal_that_goes_away_is_a_hangup_and_no_error(tmp_path: Path, stdout_too: bool) -> None:
    onnx.save(nasrnn(steps=4, hidden=64), tmp_path / "model.onnx")
    out = tmp_path / "stdout"
    process, master = begun_on_a_terminal(tmp_path, 80, None if stdout_too else out, "-vv")
    seen = b""
    while b"search" not in seen:
        seen += os.read(master, 2**16)
    os.close(master)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 129
    assert (tmp_path / "model.superopt.onnx").read_bytes() == (tmp_path / "model.onnx").read_bytes()
    assert stdout_too or "model.onnx: not improved" in out.read_text()


def read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 2**16)
    except OSError:  # Linux says so when the last process that had the terminal is gone
        return b""


@pytest.mark.slow
def test_ctrl_c_finishes_with_what_was_measured_and_the_bar_keeps_to_its_line(tmp_path: Path) -> None:
    onnx.save(nasrnn(steps=4, hidden=64), tmp_path / "model.onnx")
    code, out, seen = on_a_terminal(tmp_path, 40, interrupt_at=b"x ^C: finish")
    assert code == 0, seen
    assert b"SIGINT: finishing with what was found" in seen
    assert b"^C: quit" in seen
    result = json.loads(out)
    assert result["stop_reason"] in ("interrupted", "no further gain", "time budget")
    assert result["improved"] or result["reason"]["code"] == "interrupted"
    assert (tmp_path / "model.superopt.onnx").exists()
    drawn = ESCAPE.sub("", seen.decode()).split("\r")
    assert max(len(line) for line in drawn if line.startswith("search")) < 40
