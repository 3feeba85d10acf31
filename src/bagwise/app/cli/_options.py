"""Options of the commands, made from `RunOptions`, and the configuration file that may hold them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from bagwise.app.cli._common import ComputingCommand, any_path, given_path
from bagwise.app.runs.options import GROUPS, RUNNING, RunOptions


class _Setting(click.ParamType):
    """NAME=VALUE, or a pair of both from a configuration file."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        if isinstance(value, tuple):
            return value
        name, mark, text = value.partition("=")
        if not mark or not name:
            raise click.UsageError(f"{param.opts[0] if param else '--set'} takes NAME=VALUE, not {value!r}.")
        return name, text


class _Numbers(click.ParamType):
    """Numbers separated by commas; some settings are whole numbers, and the others take them too."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[float]:
        try:
            return [int(text) if text.strip().lstrip("+-").isdigit() else float(text) for text in value.split(",")]
        except ValueError:
            raise click.UsageError(f"--grid takes numbers separated by commas, not {value!r}.") from None


def _merged(ctx: click.Context, option: click.Parameter, given: Any) -> dict[str, Any]:
    """Settings that were typed, over those of the configuration file."""
    return dict([*(ctx.default_map or {}).get(option.name or "", ()), *given])


_KINDS: dict[str, dict[str, Any]] = {
    "flag": {"is_flag": True},
    "pair": {"nargs": 2},
    "repeated": {"multiple": True, "callback": lambda ctx, option, given: list(given) or None},
    "settings": {"multiple": True, "type": _Setting(), "callback": _merged},
}
_TYPES: dict[str, Any] = {
    "path": given_path(),
    "text": str,
    "number": float,
    "integer": int,
    "numbers": _Numbers(),
    "folds": click.IntRange(min=2),
    "share": click.FloatRange(0, 1),
    "open share": click.FloatRange(0, 1, min_open=True, max_open=True),
}
"""How a value of each kind of `RunOptions` is read by click."""


class GroupedOption(click.Option):
    """An option of a group of the help page."""

    def __init__(self, *args: Any, group: str = RUNNING, **others: Any):
        super().__init__(*args, **others)
        self.group = group


class GroupedCommand(ComputingCommand):
    """A command whose options stand in groups on its help page; those without a group are not shown."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {group: [] for group in GROUPS}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                groups[getattr(param, "group", RUNNING)].append(record)
        for group, records in groups.items():
            with formatter.section(group):
                formatter.write_dl(records)


def run_options(*names: str, grouped: bool = False) -> Callable[[Any], Any]:
    """Options for these fields of `RunOptions`, all of them if none is named; the command gets them by field name.

    With `grouped` the help page shows only those that have a group, which `GroupedCommand` writes above them.
    """
    chosen = [one for one in fields(RunOptions) if one.metadata and (not names or one.name in names)]

    def with_options(command: Any) -> Any:
        for one in reversed(chosen):
            about = dict(one.metadata)
            flag, group, kind = about.pop("flag"), about.pop("group"), about.pop("kind")
            how = _KINDS.get(kind) or {"type": any_path() if one.name == "embed" else _TYPES[kind]}
            default = one.default
            if default is True:  # --no-page takes away what is done by default
                default, how = False, {**how, "callback": lambda ctx, param, given: not given}
            about |= {"default": default, "show_default": bool(default), "hidden": grouped and not group, **how}
            command = click.option(flag, one.name, cls=GroupedOption, group=group or RUNNING, **about)(command)
        return command

    return with_options


def setting_option(help: str) -> Callable[[Any], Any]:
    """--set of something else than a learner."""
    return click.option("--set", "learner", help=help, metavar="NAME=VALUE", **_KINDS["settings"])


def config_option(command: Any) -> Any:
    """--config: a TOML file whose keys are the long options of the command; what is typed wins."""
    option = click.option(
        "--config",
        type=any_path(),
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=_read_config,
        help="Options from a TOML file, by name (noise-share = 0.4); what is typed here wins.",
    )
    return option(command)


def _read_config(ctx: click.Context, option: click.Parameter, path: Path | None) -> None:
    """Make the values of the file the defaults of the command, so that click checks them like typed ones."""
    if path is None:
        return
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{path} cannot be read as TOML: {error}.") from error
    params = {
        flag.removeprefix("--"): param
        for param in ctx.command.params
        for flag in param.opts
        if flag.startswith("--") and param is not option
    }
    defaults: dict[str, Any] = {}
    for key, value in content.items():
        if key not in params:
            near = get_close_matches(key, params, 1)
            hint = f"did you mean {near[0]!r}?" if near else "docs/command-line.md lists all."
            raise click.UsageError(f"{path}: {ctx.info_name} has no option {key!r}; {hint}")
        defaults[params[key].name or ""] = _as_typed(params[key], key, value, path)
    ctx.default_map = defaults


def _as_typed(param: click.Parameter, key: str, value: Any, path: Path) -> Any:
    """The value of a key in a form that click takes as a default."""
    is_settings = isinstance(param.type, _Setting)
    if isinstance(value, dict) != is_settings:
        expected = f"a table of settings, [{key}]" if is_settings else "one value, or a list of them"
        raise click.UsageError(f"{path}: {key} is {value!r}; expected {expected}.")
    if isinstance(value, dict):
        return list(value.items())
    if getattr(param, "is_flag", False):
        if not isinstance(value, bool):
            raise click.UsageError(f"{path}: {key} is {value!r}; expected true or false.")
        return value
    if isinstance(value, list) and not (getattr(param, "multiple", False) or param.nargs > 1):
        return ",".join(map(str, value))
    if getattr(param, "multiple", False) and not isinstance(value, list):
        return [value]
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def grid_values(select: str | None, grid: list[float] | None) -> list[float]:
    """The values to select from."""
    if select is None and grid is not None:
        raise click.UsageError("--grid goes with --select.")
    if grid is None:
        if select not in (None, "alpha"):
            raise click.UsageError(f"--select {select} needs --grid with the values to choose from.")
        return [10.0**exponent for exponent in range(-9, 1)]
    return grid
