"""From whatever a command ends with to one exit code and at most one line on stderr."""

from __future__ import annotations

import errno
import os
import signal
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

import click

from taso_py.cli import speech
from taso_py.errors import OutputError, SuperoptError, UsageError
from taso_py.streams import discard, say, steady

INTERNAL = SuperoptError.exit_code
INTERRUPTED = 130
COMPLETION = "_SUPEROPT_COMPLETE"
"""The variable with which a shell asks for completions, as click's scripts set it."""
CLOSED_PIPE = 141
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""What a write meets that nothing else foresaw: a full disk or stream."""

# \b keeps click from rewrapping the table.
EXIT_CODES = """\b
Exit codes:
  0    done, improved or not
  1    mismatch (check, certify, --strict), or a rule that is not as its file promises (verify),
       or a law that does not follow (rules derive)
  2    usage
  3    MODEL missing, unreadable or not runnable
  4    output cannot be written
  5    ONNX Runtime or execution provider missing
  6    --min-speedup not reached (the model is still written)
  70   internal error, or a proof that an instance contradicts (verify)
  129  SIGHUP: what was confirmed is written, else a copy of MODEL (first Ctrl-C: the same, and 0)
  130  second Ctrl-C
  143  SIGTERM: as SIGHUP
"""


def exit_code_of(command: click.Group, arguments: list[str] | None) -> int:
    """Run `command`; the exit code of the table above."""
    steady()
    speech.begin(sys.argv[1:] if arguments is None else arguments)
    if not sys.warnoptions:  # a library's deprecation warning is not the user's business
        warnings.simplefilter("ignore")
    try:
        _invoke(command, arguments)
        return 0
    except click.exceptions.Exit as request:
        return request.exit_code
    except click.exceptions.NoArgsIsHelpError as request:
        say(request.format_message())
        return UsageError.exit_code
    except click.ClickException as error:
        return _fail(error.format_message(), UsageError.exit_code)
    except SuperoptError as error:
        internal = type(error).exit_code == INTERNAL
        return _crash(error) if internal else _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        _discard_stdout()
        return CLOSED_PIPE
    except Exception as error:  # noqa: BLE001 - the promise of one line holds for our own bugs too
        return _crash(error)


def _invoke(command: click.Group, arguments: list[str] | None) -> None:
    arguments = sys.argv[1:] if arguments is None else arguments
    if instruction := os.environ.get(COMPLETION):
        from click.shell_completion import shell_complete

        raise click.exceptions.Exit(shell_complete(command, {}, "superopt", COMPLETION, instruction))
    with command.make_context("superopt", list(arguments)) as context:
        command.invoke(context)


def exit_code_after(number: int) -> int:
    """The exit code of a run that a signal ended early, its result written; a user's own Ctrl-C is no failure."""
    return 0 if number == signal.SIGINT else 128 + number


def emit(text: str) -> None:
    """Print a result on stdout; raises OutputError where that fails for another reason than a closed pipe."""
    if sys.stdout is None:
        raise OutputError("cannot write to stdout: it is closed (redirect it elsewhere)")
    try:
        click.echo(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _discard_stdout()
        reason = (error.strerror or "unknown reason").lower()
        raise OutputError(f"cannot write to stdout: {reason} (redirect it elsewhere)") from error


def _discard_stdout() -> None:
    """Let the interpreter's own flush at exit go nowhere instead of failing again."""
    if sys.stdout is not None:
        discard(sys.stdout.fileno())


def _fail(message: str, code: int) -> int:
    say(f"superopt: error: {' '.join(message.split())}", exit_code=code)
    return code


def _crash(error: BaseException) -> int:
    if isinstance(error, OSError) and error.errno in _UNWRITABLE:
        _discard_stdout()
        return _fail(f"cannot write: {(error.strerror or type(error).__name__).lower()}", OutputError.exit_code)
    what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    try:
        where = f"details in {_save_traceback(error)}"
    except OSError:
        where = "and the details could not be saved"
    return _fail(f"internal error: {what} ({where}; please report it)", INTERNAL)


def _save_traceback(error: BaseException) -> Path:
    handle, name = tempfile.mkstemp(prefix="superopt-error-", suffix=".log")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(f"arguments: {sys.argv[1:]}\n")
        file.writelines(traceback.format_exception(error))
    return Path(name)
