"""`bagwise --install-completion`: names of commands and options by the tab key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class

# where each shell looks for completions by itself, and what is to be done where it does not
PLACES = {
    "bash": (".local/share/bash-completion/completions/bagwise", "bash loads it where the package bash-completion is"),
    "zsh": (".zfunc/_bagwise", "have this in ~/.zshrc: fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
    "fish": (".config/fish/completions/bagwise.fish", "fish loads it by itself"),
}


def install_completion(ctx: click.Context, option: click.Parameter, asked: bool) -> None:
    """Write the script of the shell in use to the place where it looks for such scripts."""
    if not asked or ctx.resilient_parsing:
        return
    shell = Path(os.environ.get("SHELL", "")).name
    kind: Any = get_completion_class(shell) if shell in PLACES else None
    if kind is None:
        raise click.UsageError(
            f"The shell is {shell or 'not known'} (the variable SHELL); completion is there for {', '.join(PLACES)}."
        )
    from bagwise.io.files import atomic_write

    place, remark = PLACES[shell]
    path = Path.home() / place
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(kind(ctx.command, {}, "bagwise", "_BAGWISE_COMPLETE").source().encode())
    click.echo(f"wrote {path} ({remark}); it works in new terminals")
    ctx.exit()
