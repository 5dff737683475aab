"""From whatever a command ends with to one exit code and at most one line on stderr."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

from taso_py.cli import speech
from taso_py.errors import OutputError, RuntimeMissingError, SuperoptError, UsageError
from taso_py.options.spelling import spelling_as_command_line
from taso_py.stop import Ended
from taso_py.streams import blocking, discard, say, steady, strict_json
from taso_py.version import VERSION

SCHEMA = "superopt.error/1"

INTERNAL = SuperoptError.exit_code
COMPLETION = "_SUPEROPT_COMPLETE"
"""The variable with which a shell asks for completions, as click's scripts set it."""
CLOSED_PIPE = 141
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""What a write meets that nothing else foresaw: a full disk or stream."""

# \b keeps click from rewrapping the table.
EXIT_CODES = """\b
Exit codes:
  0    done, improved or not
  1    mismatch (check, certify, apply, --strict), or an error budget that is not kept (check, bench),
       or a rule that is not as its file promises (verify) or not proved (rules show
       --obligations), or a law that does not follow (rules derive), or a provider that fails a
       check (eps --test)
  2    usage, or a provider that does not compute in float32 (optimize)
  3    MODEL missing, unreadable or not runnable
  4    output cannot be written
  5    ONNX Runtime, an execution provider or a package missing
  6    a condition of --gate or --min-speedup missed (the model is still written, as with 7 and 8)
  7    the measurement is too noisy to say whether the speed-up is reached
  8    the speed-up was not measured to the end: too little time, interrupted, or the race ended early;
       or the time budget ended before there was a verdict (check, bench)
  9    the exact part is certified, and the rest is an approximation, which is not proved (certify)
  70   internal error, or a proof that an instance contradicts (verify)
  129  SIGHUP: what was confirmed is written, else a copy of MODEL
  130  Ctrl-C (optimize: the second one; the first ends with 0, and a faster model that was found
       is confirmed before, and then written)
  141  stdout was closed by its reader
  143  SIGTERM: as SIGHUP
  152  SIGXCPU, the soft limit of processor time: as SIGHUP
"""


def exit_code_of(command: click.Group, arguments: list[str] | None) -> int:
    """Run `command`; the exit code of the table above."""
    steady()
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    speech.begin(arguments)
    answer = Answer(as_json=_json_asked(arguments))
    failure = _run(command, arguments, answer)
    if failure.kind is not None and answer.as_json and not answer.given:
        _emit_failure(failure)
    return failure.exit_code


@dataclass(slots=True)
class Answer:
    """What a command has put on stdout so far, and whether it should be JSON."""

    as_json: bool
    given: bool = False


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended; ``kind`` is the class of the error, None where it has said all that it has to say."""

    exit_code: int
    kind: str | None = None
    code: str = ""
    line: str = ""


def _run(command: click.Group, arguments: list[str], answer: Answer) -> Ending:
    if not sys.warnoptions:  # a library's deprecation warning is not the user's business
        warnings.simplefilter("ignore")
    try:
        _invoke(command, arguments, answer)
        return Ending(0)
    except click.exceptions.Exit as request:
        return Ending(request.exit_code)
    except click.exceptions.NoArgsIsHelpError as request:
        say(request.format_message())
        return Ending(UsageError.exit_code)
    except click.ClickException as error:
        return _fail(UsageError(error.format_message()))
    except SuperoptError as error:
        internal = type(error).exit_code == INTERNAL
        return _crash(error) if internal else _fail(error)
    except (KeyboardInterrupt, click.Abort) as request:
        number = request.number if isinstance(request, Ended) else signal.SIGINT
        return _failed(str(request) or "interrupted", 128 + number, "interrupted", "KeyboardInterrupt")
    except BrokenPipeError:
        _discard_stdout()
        return Ending(CLOSED_PIPE)
    except ImportError as error:
        missing = RuntimeMissingError.of_import(error)
        return _crash(error) if missing is None else _fail(missing)
    except Exception as error:  # noqa: BLE001 - the promise of one line holds for our own bugs too
        return _crash(error)


def _invoke(command: click.Group, arguments: list[str], answer: Answer) -> None:
    if instruction := os.environ.get(COMPLETION):
        from click.shell_completion import shell_complete

        try:
            unknown = shell_complete(command, {}, "superopt", COMPLETION, instruction)
        except (KeyError, ValueError):  # what the shell's script says of the line
            unknown = 1
        if unknown:
            raise UsageError(f"{COMPLETION}={instruction} is no request of a shell's completion: unset {COMPLETION}")
        return
    with spelling_as_command_line(), command.make_context("superopt", list(arguments), obj=answer) as context:
        command.invoke(context)


def _json_asked(arguments: Sequence[str]) -> bool:
    """Whether JSON is wanted, for as long as the options are not read: they may be what is wrong."""
    before_names = arguments[: arguments.index("--")] if "--" in arguments else arguments
    variable = os.environ.get("SUPEROPT_JSON", "").strip().lower()
    return "--json" in before_names or variable in ("1", "true", "t", "yes", "y", "on")


def expect_json(asked: bool) -> None:
    """Say of the command that is running whether its answer is JSON: its options are read."""
    if (answer := _answer()) is not None:
        answer.as_json = asked


def _answer() -> Answer | None:
    context = click.get_current_context(silent=True)
    return None if context is None else context.find_object(Answer)


def _emit_failure(ending: Ending) -> None:
    """The error as one JSON object on stdout, which may itself be what is broken: line and exit code stay."""
    told = {
        "schema": SCHEMA,
        "superopt_version": VERSION,
        "error": ending.line,
        "code": ending.code,
        "kind": ending.kind,
        "exit_code": ending.exit_code,
    }
    with suppress(OutputError, BrokenPipeError):
        emit(strict_json(json.dumps(told, indent=2)))


def exit_code_after(number: int) -> int:
    """The exit code of a run that a signal ended early, its result written; a user's own Ctrl-C is no failure."""
    return 0 if number == signal.SIGINT else 128 + number


def emit(text: str) -> None:
    """Print a result on stdout; raises OutputError where that fails for another reason than a closed pipe."""
    if (answer := _answer()) is not None:
        answer.given = True
        text = strict_json(text) if answer.as_json else text
    if sys.stdout is None:
        raise OutputError("cannot write to stdout: it is closed (redirect it elsewhere)")
    try:
        with blocking(sys.stdout):
            _write(text)
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _discard_stdout()
        reason = (error.strerror or "unknown reason").lower()
        raise OutputError(f"cannot write to stdout: {reason} (redirect it elsewhere)") from error


def _write(text: str) -> None:
    click.echo(text)


def _discard_stdout() -> None:
    """Let the interpreter's own flush at exit go nowhere instead of failing again."""
    if sys.stdout is not None:
        discard(sys.stdout.fileno())


def _fail(error: SuperoptError) -> Ending:
    return _failed(str(error), error.exit_code, error.code, type(error).__name__)


def _failed(message: str, exit_code: int, code: str, kind: str) -> Ending:
    line = " ".join(message.split())
    say(f"superopt: error: {line}", exit_code=exit_code)
    return Ending(exit_code, kind, code, line)


def _crash(error: BaseException) -> Ending:
    if isinstance(error, OSError) and error.errno in _UNWRITABLE:
        _discard_stdout()
        return _fail(OutputError(f"cannot write: {(error.strerror or type(error).__name__).lower()}"))
    what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    try:
        where = f"details in {_save_traceback(error)}"
    except OSError:
        where = "and the details could not be saved"
    line = f"internal error: {what} ({where}; please report it)"
    return _failed(
        line, INTERNAL, (error if isinstance(error, SuperoptError) else SuperoptError).code, type(error).__name__
    )


def _save_traceback(error: BaseException) -> Path:
    import tempfile  # most commands do without

    handle, name = tempfile.mkstemp(prefix="superopt-error-", suffix=".log")
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(f"arguments: {sys.argv[1:]}\n")
        file.writelines(traceback.format_exception(error))
    return Path(name)
