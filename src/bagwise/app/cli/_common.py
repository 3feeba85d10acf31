"""What the commands share: errors as one line and exit code 1, warnings, progress and console."""

from __future__ import annotations

import errno
import os
import re
import sys
import warnings
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any

import click

EXIT_ERROR, EXIT_SOME_FAILED, EXIT_INTERRUPTED = 1, 3, 130
MANIFEST = "manifest.json"  # that every run has
N_OF_A_KIND = 10  # problems that are printed
OUT_OF_MEMORY = (
    "There is not enough memory; give fewer bags at a time, close other programs, or set BAGWISE_MEMORY_LIMIT so that "
    "what does not fit is refused before it begins"
)


def any_path(**options: Any) -> click.Path:
    """A path that is not tried before the command runs: what may not be read is an error, not a wrong command."""
    return click.Path(path_type=Path, readable=False, **options)


class _GivenPath(click.Path):
    """A path that must be there; if it is a run's, with what every run has.

    What is wrong is kept until the command is understood, and said before anything heavy is imported.
    """

    def __init__(self, is_run: bool = False):
        super().__init__(path_type=Path, readable=False)
        self.is_run = is_run

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        problem = self._problem(path)
        if problem is not None and ctx is not None:
            ctx.meta.setdefault(_MISSING, []).append(problem)
        return path

    def _problem(self, path: Path) -> str | None:
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            is_pattern = bool({*"*?["} & {*str(path)})
            return None if is_pattern else f"{path} does not exist; check the path."
        except OSError:
            return None  # whoever opens it says why
        if not self.is_run or os.path.lexists(path / MANIFEST):
            return None
        return f"{path} holds no run of bagwise: there is no {MANIFEST} in it; give the folder that annotate wrote."


def given_path(is_run: bool = False) -> click.Path:
    """A file or folder that is read; with `is_run` the folder of a run."""
    return _GivenPath(is_run)


def only_given(ctx: click.Context, param: click.Parameter, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """A callback for paths of which each is done by itself: the only one must be there."""
    return paths if len(paths) > 1 else (_GivenPath().convert(paths[0], param, ctx),)


_MISSING = "bagwise.missing"


def _refusing_missing(command: click.Command) -> click.Command:
    """The command, which says first which of its paths are not there."""
    found, run = copy(command), command.callback

    @wraps(run or (lambda: None))
    def checked(*args: Any, **given: Any) -> Any:
        for problem in click.get_current_context().meta.get(_MISSING, ()):
            raise click.ClickException(problem)
        return None if run is None else run(*args, **given)

    found.callback = checked
    return found


class BagwiseGroup(click.Group):
    """Turns errors that bagwise raises on purpose into one line and exit code 1; usage errors stay click's 2.

    A path in place of a command is looked at, and commands are listed in sections, with whole sentences.
    """

    sections: Mapping[str, Sequence[click.Command]] = {}

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None and os.path.exists(args[0]):
            args = ["look", *args]
        name, command, rest = super().resolve_command(ctx, args)
        return name, None if command is None else _refusing_missing(command), rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(command.name or "", command.get_short_help_str(500)) for command in commands])

    def main(self, *args: Any, **options: Any) -> Any:
        fill_closed_streams()
        speak_utf8()
        try:
            return super().main(*args, **options)
        except OSError as error:  # of --help and --version, which are printed before any command is invoked
            from bagwise.core.exceptions import in_words

            click.echo(f"Error: {in_words(error)}", err=True)
            sys.exit(EXIT_ERROR)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with plain_warnings():
                return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except KeyboardInterrupt:
            click.echo("\ninterrupted", err=True)
            ctx.exit(EXIT_INTERRUPTED)
        except Exception as error:
            from bagwise.core.exceptions import BagwiseError, InputError, in_words

            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # whoever read the output has seen enough; click ends quietly
            if isinstance(error, MemoryError) and not isinstance(error, BagwiseError):
                error = InputError(OUT_OF_MEMORY + (f" ({error})." if str(error) else "."))
            if isinstance(error, (BagwiseError, ImportError, OSError)):
                click.echo(f"Error: {in_words(error)}", err=True)
                ctx.exit(EXIT_ERROR)
            raise


def speak_utf8() -> None:
    """Print UTF-8, as files are written, whatever the locale is; what else a file's name holds, as ``\\udcff``."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def fill_closed_streams() -> None:
    """Open what the shell closed (``2>&-``): else the next file gets its number, and what is said goes into that.

    Remarks go nowhere then. Standard output stays None in Python, so that `check_output` knows.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, so this one
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # for as long as the process lives


def check_output() -> None:
    """Refuse to begin work whose result would be printed, where nobody can have it."""
    if sys.stdout is None:
        from bagwise.core.exceptions import InputError

        raise InputError("Standard output is closed, and the result is printed there; open it, or send it to a file.")


class ComputingCommand(click.Command):
    """A command that says on a terminal, before it computes anything, when kernels have to be compiled first."""

    def invoke(self, ctx: click.Context) -> Any:
        if sys.stderr.isatty():
            from bagwise.union import are_compiled

            if not are_compiled():
                click.echo("Compiling the numerical code, once: up to a minute on a busy machine.", err=True)
        return super().invoke(ctx)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Show a warning as one line without the place in the code; those that differ in numbers only, as from fold to
    fold, once."""
    seen: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        kind = re.sub(r"\d[\d.,+\s-]*", "#", re.sub(r"(?<=\d)e(?=[-+\d])", "", str(message)))
        if kind not in seen:
            seen.add(kind)
            click.echo(f"Warning: {message}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextmanager
def going_on() -> Iterator[None]:
    """Around work of which finished parts are kept: whoever interrupts it is warned."""
    try:
        yield
    except KeyboardInterrupt as error:
        click.echo("\ninterrupted; the same command goes on where it was", err=True)
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from error


def open_browser(address: str) -> None:
    """Show an address in the browser, or say that it is to be opened by hand."""
    try:
        opened = webbrowser.open(address)
    except (webbrowser.Error, OSError):
        opened = False
    if not opened:
        click.echo("No browser could be opened; open the address above in one.", err=True)


def console() -> Any:
    """A rich console; piped output is plain and never broken into lines."""
    from rich.console import Console

    return Console(soft_wrap=sys.stdout is None or not sys.stdout.isatty(), highlight=False)


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A function that shows how far each named piece of work is (of 0: nobody knows); on a terminal only."""
    if quiet or not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.text import Text

    from bagwise.app.runs.options import SOUND

    class HowMuch(MofNCompleteColumn):
        """How much of how much is done; time of sound in hours, minutes and seconds."""

        def render(self, task: Any) -> Any:
            if task.description != SOUND:
                return super().render(task)
            done, total = (str(timedelta(seconds=round(number or 0))) for number in (task.completed, task.total))
            return Text(f"{done} of {total}", style="progress.download")

    columns = (TextColumn("{task.description}"), BarColumn(), HowMuch(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total or None)
            bar.update(tasks[what], completed=done, total=total or None)

        yield report


def print_problems(problems: Any) -> None:
    """Each on a line of the error output; of many of one kind the first ten and how many more there are."""
    kinds: dict[str, list[str]] = {}
    for name, message in problems:
        kind = re.sub(r"\d+", "#", re.sub(r"'[^']*'", "*", message.replace(str(name), "*")))
        kinds.setdefault(kind, []).append(message)
    for messages in kinds.values():
        for message in messages[:N_OF_A_KIND]:
            click.echo(f"Problem: {message}", err=True)
        if len(messages) > N_OF_A_KIND:
            more = len(messages) - N_OF_A_KIND
            click.echo(f"Problem: ... and {more} more of this kind; manifest.json names all.", err=True)


def end_with(problems: Any) -> None:
    """Exit code 3 where there were problems, each of which is named by now."""
    if problems:
        raise click.exceptions.Exit(EXIT_SOME_FAILED)
