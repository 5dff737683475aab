"""What every command has: where its settings come from, and how it speaks on stderr."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from taso_py.options.field import OptionRecord, option, record

LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]


@record
class GeneralOptions(OptionRecord):
    """The options of every command."""

    config: Path | None = option(
        "--config",
        None,
        "Settings file; default: superopt.toml, or pyproject.toml with [tool.superopt], here or in the nearest parent.",
        metavar="FILE",
        group="General",
        per_run=True,
    )
    read_config: bool = option(
        "--no-config", True, "Read no settings file, --config neither.", group="General", per_run=True
    )
    """False: no settings file is read, whatever `config` says."""
    log_format: LogFormat = option(
        "--log-format",
        "text",
        "json: each line on stderr is one JSON object, progress and errors too.",
        group="General",
    )
    log_level: LogLevel | None = option(
        "--log-level", None, "Least level of the lines on stderr; default: what -q and -v say.", group="General"
    )
    """None: as the command's verbosity has it."""
