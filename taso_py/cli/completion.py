"""`superopt completion`: what makes a shell complete superopt's commands, options, files and names of rules."""

from __future__ import annotations

import click

from taso_py.cli.command import Command
from taso_py.cli.outcome import COMPLETION, emit
from taso_py.cli.shared import SETTINGS, takes


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Completions for bash, zsh or fish.",
    examples=(
        "superopt completion bash >> ~/.bashrc",
        "superopt completion zsh >> ~/.zshrc",
        "superopt completion fish > ~/.config/fish/completions/superopt.fish",
    ),
)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@takes()
def completion(shell: str) -> None:
    """Print the script that makes SHELL complete the commands, options, files and rules of superopt."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    root = click.get_current_context().find_root().command
    emit(found(root, {}, "superopt", COMPLETION).source())
