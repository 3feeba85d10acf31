"""Options of the commands, made from `RunOptions`, and the configuration file that may hold them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import MISSING, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from bagwise.app.cli._common import ComputingCommand, any_path
from bagwise.app.runs.options import GROUPS, OUTPUT, RUNNING, RunOptions


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
    "path": {"type": any_path()}, "text": {"type": str}, "names": {"type": str}, "number": {"type": float},
    "integer": {"type": int}, "folds": {"type": click.IntRange(min=2)}, "share": {"type": click.FloatRange(0, 1)},
    "open share": {"type": click.FloatRange(0, 1, min_open=True, max_open=True)},
    "flag": {"is_flag": True}, "pair": {"nargs": 2}, "numbers": {"type": _Numbers()},
    "repeated": {"multiple": True, "callback": lambda ctx, option, given: list(given) or None},
    "settings": {"multiple": True, "type": _Setting(), "callback": _merged},
    "segment": {"type": click.Choice(["syllables", "windows"])},
}  # fmt: skip
"""How a value of each kind of `RunOptions` is read by click."""


class _RunOption(click.Option):
    """An option of a group of the help page."""

    group = RUNNING


class OutputOption(_RunOption):
    """One that says where results go."""

    group = OUTPUT


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
            about = one.metadata
            default = None if one.default in ((), True, MISSING) else one.default
            option = {
                "default": default, "show_default": default is not None and default is not False,
                "help": about["help"], "metavar": about["metavar"], "hidden": grouped and not about["group"],
                **_KINDS[about["kind"]],
            }  # fmt: skip
            if one.default is True:  # --no-page takes away what is done by default
                option |= {"default": False, "callback": lambda ctx, param, given: not given}
            command = click.option(about["flag"], one.name, cls=_RunOption, **option)(command)
            command.__click_params__[-1].group = about["group"] or RUNNING
        return command

    return with_options


def setting_option(help: str) -> Callable[[Any], Any]:
    """--set of something else than a learner."""
    return click.option("--set", "learner", help=help, metavar="NAME=VALUE", **_KINDS["settings"])


def config_option(command: Any) -> Any:
    """--config: a TOML file whose keys are the long options of the command; what is typed wins."""
    return click.option(
        "--config", type=any_path(), metavar="FILE", is_eager=True, expose_value=False, callback=_read_config,
        help="Options from a TOML file, by name (noise-share = 0.4); what is typed here wins.",
    )(command)  # fmt: skip


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
